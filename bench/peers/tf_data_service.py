"""tf.data service: a process with its dispatcher and a worker beside the training process.

Normalised floats travel: bytes that the training process makes floats of cost it more. Nothing is
compressed, since the line is this host's own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from bench.peers.serving import BATCH, READY, Settings, serve
from bench.peers.tf_data import crop, normalised, shuffled

_service: list[int] = []


def batches(folder: Path, settings: Settings) -> Iterator[Any]:
    """Yield batches of the worker."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.peers.tf_data_service", "serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    _service.append(process.pid)
    address = process.stdout.readline().strip()
    parallel = settings["parallel"]
    crops = shuffled(folder).map(crop, num_parallel_calls=parallel)
    floats = crops.map(normalised, num_parallel_calls=parallel)
    made = floats.batch(BATCH, drop_remainder=True).prefetch(READY)
    distribute = tf.data.experimental.service.distribute(
        processing_mode="parallel_epochs", service=address, compression=None
    )
    return iter(made.apply(distribute).prefetch(READY))


def serve_others() -> None:
    """Run dispatcher and worker until the standard input ends; the address is printed first."""
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
    print(dispatcher.target, flush=True)
    sys.stdin.read()
    del worker


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve_others()
    else:
        serve(batches, others=lambda: _service)
