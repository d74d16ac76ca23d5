"""One rank of a job, as a process of its own: ``python rank_process.py DATASET URL RANK WORLD``."""

from __future__ import annotations

import sys
import time

from headrace import Loader


def main(dataset: str, controller: str, rank: int, world: int) -> None:
    """Train until standard input ends; each step takes a moment."""
    options = {"batch_size": 4, "rank": rank, "world": world, "controller": controller}
    with Loader(dataset, **options) as loader:
        print("ready", flush=True)
        while True:
            for _ in loader:
                time.sleep(0.05)
                control = loader.statistics().control
                assert control is not None
                print(f"speaks {control.speaks} {control.direct_bytes_per_s}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
