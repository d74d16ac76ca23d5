"""Words in traces that name no one: of operating systems, of libraries, of file formats."""

from __future__ import annotations

import re
from collections.abc import Iterable

from headrace.trace.events import MOVE_CUT, Kind, Phase


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CALLS = _words(
    """
    access chdir chmod chown close closedir creat dup dup2 fclose fcntl fdopen fflush fopen
    fork fread freopen fseek fseeko fstat fstatat fsync ftell ftruncate fwrite fxstat fxstatat
    getcwd link lseek lstat lxstat mkdir mmap msync munmap open openat opendir pread preadv
    pwrite pwritev read read1 readdir readinto readlink readv remove rename rewind rmdir seek
    sendfile stat statfs statvfs statx symlink sync truncate unlink unlinkat write writev
    xstat
    """
)
_AUDITED = _words(
    """
    append completeFile concat contentSummary create createSymlink delete getAclStatus
    getEZForPath getXAttrs getfileinfo listStatus listXAttrs mkdirs open rename safemode_get
    setOwner setPermission setReplication setStoragePolicy setTimes
    """
)
_LIBRARIES = _words(
    """
    all_gather all_reduce barrier batch broadcast cat cat_file cat_ranges dcp.async_save
    dcp.load dcp.save exists fetch find get glob info list load ls pipe_file put
    reduce_scatter safetensors.load_file safetensors.safe_open safetensors.save_file
    safetensors.torch.load_file safetensors.torch.save_file sample samples save step
    torch.distributed.checkpoint.async_save torch.distributed.checkpoint.load
    torch.distributed.checkpoint.save torch.load torch.save wait
    """
)

_OWN = frozenset(
    (
        *("copy chunk", "process_io", "publish", "publish copy", "read metadata", "serve"),
        *("serve range", "set copies", "transform"),
        *(f"{MOVE_CUT}{kind}" for kind in ("audio", "image", "text", "video")),
    )
)

NAMES = _CALLS | _AUDITED | _LIBRARIES | _OWN
"""Of operations."""

COUNTS = _words(
    """
    agent_ns bytes_agents bytes_kept bytes_shared bytes_storage bytes_wire
    cancelled_write_bytes copies files items link_bytes_per_s ops ops_before queue_batches
    queue_bytes queued_ns rchar read_bytes reads requests retries samples samples_dropped
    samples_hedged samples_local samples_raw samples_substituted samples_tensor storage_bytes
    syscr syscw tensors throttled_ns trainer_ns wchar write_bytes writes
    """
)
"""Of further numbers of an event."""

SUFFIXES = _words(
    """
    7z aac arrow arrows avi avif avro bat bin bmp bytes bz2 cbor ckpt csv db distcp dng
    feather flac gif gz h5 hdf5 heic idx index jpeg jpg json jsonl lmdb log lz4 m4a m4v mat md
    metadata mkv mov mp3 mp4 mpeg mpg msgpack ndjson npy npz ogg onnx orc parquet pb pdf
    pickle pkl png pt pth py rec recordio safetensors snappy tar tfrecord tfrecords tgz tif
    tiff tmp toml tsv txt vtt wav wds webm webp xml xz yaml yml zarr zip zst
    """
)
"""Of files, in lower case, without the dot."""

SCHEMES = _words(
    "abfs abfss dbfs file ftp gcs gs hdfs hf http https oss s3 s3a s3n viewfs wasb webhdfs"
)
"""Of URLs."""

_DECORATION = re.compile(r"^_{0,2}(?P<name>.*?)(?P<width>64|_chk|_nocancel)?$", re.DOTALL)
_TOKEN = re.compile(r"[^\W_]{3,}")


def is_name(text: str) -> bool:
    """Tell whether it is a well-known operation: ``pread``, also as ``__pread64``."""
    found = _DECORATION.match(text)
    return text in NAMES or (found is not None and found["name"] in _CALLS)


def tokens(text: str) -> list[str]:
    """Return the words of a text, of three letters or digits and more, in lower case."""
    return [found.casefold() for found in _TOKEN.findall(text)]


def known_tokens() -> frozenset[str]:
    """Return the words of everything that is well known."""
    return frozenset(word for text in _all() for word in tokens(text))


def _all() -> Iterable[str]:
    yield from (*Kind, *Phase, *NAMES, *COUNTS, *SUFFIXES, *SCHEMES, "chk", "nocancel")
    yield from (f"{name}64" for name in _CALLS)
