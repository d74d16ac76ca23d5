"""The writers that formats come with, without all that their packages import besides.

Whole, MosaicML Streaming and Megatron import text models and kernels for seconds. Here their
packages are entered without being run, so that a writer's own modules are all that is imported.
"""

from __future__ import annotations

import functools
import importlib
import sys
import sysconfig
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

_SITE = Path(sysconfig.get_paths()["purelib"])

_STREAMING = ("streaming", "streaming.base", "streaming.base.format", "streaming.base.format.mds")


@functools.cache
def _enter(name: str) -> None:
    package = types.ModuleType(name)
    package.__path__ = [str(_SITE.joinpath(*name.split(".")))]
    sys.modules.setdefault(name, package)


def mds_writer() -> Any:
    for name in _STREAMING:
        _enter(name)
    return importlib.import_module("streaming.base.format.mds.writer").MDSWriter


def write_mds(
    out: Path, columns: Mapping[str, str], samples: Iterable[Mapping[str, object]], **options: Any
) -> Path:
    with mds_writer()(columns=dict(columns), out=str(out), **options) as writer:
        for sample in samples:
            writer.write(dict(sample))
    return out


def megatron(module: str) -> Any:
    """Return a module of ``megatron.core.datasets``; what needs the rest of it is left out."""
    for name in ("megatron", "megatron.core", "megatron.core.datasets"):
        _enter(name)
    logs = importlib.import_module("megatron.core._rank_utils")
    sys.modules.setdefault("megatron.core.utils", logs)
    return importlib.import_module(f"megatron.core.datasets.{module}")


def write_tokens(
    prefix: Path, documents: Iterable[Iterable[Any]], dtype: Any, *, multimodal: bool = False
) -> Path:
    """Write documents, each of several sequences of tokens, as Megatron does."""
    builder = megatron("indexed_dataset").IndexedDatasetBuilder(
        f"{prefix}.bin", dtype=dtype, multimodal=multimodal
    )
    torch = importlib.import_module("torch")
    for document in documents:
        for sequence in document:
            builder.add_item(torch.as_tensor(sequence), *([0] if multimodal else []))
        builder.end_document()
    builder.finalize(f"{prefix}.idx")
    return prefix


class Tokenizer:
    """As much of a tokenizer as Megatron asks of it."""

    eod, pad, vocab_size = 0, -1, 1 << 16
    unique_identifiers: ClassVar[dict[str, str]] = {}


def gpt_dataset(prefix: Path, sequence_length: int, seed: int) -> Any:
    """Return Megatron's dataset of all sequences of a token file, for one epoch."""
    indexed = megatron("indexed_dataset").IndexedDataset(str(prefix), mmap=True)
    module = megatron("gpt_dataset")
    config = module.GPTDatasetConfig(
        random_seed=seed,
        sequence_length=sequence_length,
        tokenizer=Tokenizer(),
        reset_position_ids=True,
        reset_attention_mask=True,
        eod_mask_loss=False,
        split="1",
        blend=([str(prefix)], None),
        path_to_cache=str(prefix.parent / "cache"),
    )
    every = np.arange(indexed.sequence_lengths.shape[0], dtype=np.int32)
    train = megatron("utils").Split.train
    return module.GPTDataset(indexed, str(prefix), every, None, train, config)


def records_module() -> Any:
    _enter("tfrecord")
    return importlib.import_module("tfrecord.writer")


def write_records(path: Path, examples: Iterable[Mapping[str, tuple[Any, str]]]) -> Path:
    """Write examples; each feature is its value, or values, and ``byte``, ``float`` or ``int``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = records_module().TFRecordWriter(str(path))
    for example in examples:
        writer.write(dict(example))
    writer.close()
    return path
