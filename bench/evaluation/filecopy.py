"""Copies a checkpoint file by file, many at a time, as DistCp does: the baseline of replication.

``python -m bench.evaluation.filecopy SOURCE DESTINATION WORKERS``, on a host of the far site. Each
worker streams one whole file after the other; the marker comes last, so that no reader takes a
part for the whole. DistCp would list, and start containers, first.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import hdfs_native

MARKER = ".metadata"


def copy(source: str, destination: str, workers: int) -> None:
    """Copy all files of a folder of one HDFS into a folder of another."""
    theirs, ours = _client(source), _client(destination)
    from_folder, to_folder = urlsplit(source).path, urlsplit(destination).path
    ours.mkdirs(to_folder, create_parent=True)
    names = [status.path.rsplit("/", 1)[1] for status in theirs.list_status(from_folder)]
    data = [name for name in names if name != MARKER]

    def one(name: str) -> None:
        reader = theirs.read(f"{from_folder}/{name}")
        with ours.create(f"{to_folder}/{name}") as writer:
            for packet in reader.read_range_stream(0, len(reader)):
                writer.write(packet)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(one, data))
    one(MARKER)


def _client(url: str) -> hdfs_native.Client:
    parts = urlsplit(url)
    return hdfs_native.Client(f"{parts.scheme}://{parts.netloc}")


if __name__ == "__main__":
    copy(sys.argv[1], sys.argv[2], int(sys.argv[3]))
