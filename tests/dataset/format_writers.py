"""The writers that formats come with, without all that their packages import besides.

Whole, MosaicML Streaming and Megatron import text models and kernels for seconds. Here their
packages are entered without being run, so that a writer's own modules are all that is imported.
Nobody else sees these packages: who imports them gets them whole.
"""

from __future__ import annotations

import functools
import importlib
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

_SITE = Path(sysconfig.get_paths()["purelib"])

_entered: dict[str, types.ModuleType] = {}


@contextmanager
def _inside(*packages: str) -> Iterator[None]:
    """Let packages be entered that are not run; the first is the root of the others."""
    root = packages[0]
    theirs = _taken(root)
    sys.modules.update({name: _entered.get(name) or _bare(name) for name in packages})
    sys.modules.update({name: found for name, found in _entered.items() if _below(name, root)})
    try:
        yield
    finally:
        _entered.update(_taken(root))
        sys.modules.update(theirs)


def _taken(root: str) -> dict[str, types.ModuleType]:
    return {name: sys.modules.pop(name) for name in [*sys.modules] if _below(name, root)}


def _below(name: str, root: str) -> bool:
    return name == root or name.startswith(f"{root}.")


def _bare(name: str) -> types.ModuleType:
    package = types.ModuleType(name)
    package.__path__ = [str(_SITE.joinpath(*name.split(".")))]
    return package


def write_mds(
    out: Path, columns: Mapping[str, str], samples: Iterable[Mapping[str, object]], **options: Any
) -> Path:
    base = "streaming.base"
    with _inside("streaming", base, f"{base}.format", f"{base}.format.mds"):
        module = importlib.import_module(f"{base}.format.mds.writer")
        with module.MDSWriter(columns=dict(columns), out=str(out), **options) as writer:
            for sample in samples:
                writer.write(dict(sample))
    return out


@contextmanager
def megatron() -> Iterator[Callable[[str], Any]]:
    """Give modules of ``megatron.core.datasets``; what needs the rest of it is left out."""
    with _inside("megatron", "megatron.core", "megatron.core.datasets"):
        logs = importlib.import_module("megatron.core._rank_utils")
        sys.modules["megatron.core.utils"] = logs
        yield lambda name: importlib.import_module(f"megatron.core.datasets.{name}")


def write_tokens(
    prefix: Path, documents: Iterable[Iterable[Any]], dtype: Any, *, multimodal: bool = False
) -> Path:
    """Write documents, each of several sequences of tokens, as Megatron does."""
    torch = importlib.import_module("torch")
    with megatron() as module:
        builder = module("indexed_dataset").IndexedDatasetBuilder(
            f"{prefix}.bin", dtype=dtype, multimodal=multimodal
        )
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


def gpt_windows(prefix: Path, sequence_length: int, seed: int) -> list[list[int]]:
    """Return the windows of Megatron's own dataset for one epoch, in the order of its cut."""
    with megatron() as module:
        return _gpt_windows(module, prefix, sequence_length, seed)


def _gpt_windows(
    module: Callable[[str], Any], prefix: Path, sequence_length: int, seed: int
) -> list[list[int]]:
    indexed = module("indexed_dataset").IndexedDataset(str(prefix), mmap=True)
    config = module("gpt_dataset").GPTDatasetConfig(
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
    train = module("utils").Split.train
    dataset = module("gpt_dataset").GPTDataset(indexed, str(prefix), every, None, train, config)
    windows: list[list[int]] = [[]] * len(dataset)
    for position, window in enumerate(dataset.shuffle_index):
        sample = dataset[position]
        windows[window] = [*sample["tokens"].tolist(), *sample["labels"].tolist()[-1:]]
    return windows


@functools.cache
def records_module() -> Any:
    with _inside("tfrecord"):
        return importlib.import_module("tfrecord.writer")


def write_records(path: Path, examples: Iterable[Mapping[str, tuple[Any, str]]]) -> Path:
    """Write examples; each feature is its value, or values, and ``byte``, ``float`` or ``int``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = records_module().TFRecordWriter(str(path))
    for example in examples:
        writer.write(dict(example))
    writer.close()
    return path


def write_saved(out: Path, pictures: Sequence[bytes], **options: Any) -> Path:
    """Save a dataset of pictures with captions and two classes as Hugging Face's library does."""
    import datasets

    datasets.disable_progress_bars()
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "text": datasets.Value("string"),
        }
    )
    rows = {
        "image": [{"bytes": picture, "path": None} for picture in pictures],
        "label": [number % 2 for number in range(len(pictures))],
        "text": [f"caption {number}" for number in range(len(pictures))],
    }
    saved = datasets.Dataset.from_dict(rows, features=features)
    saved.save_to_disk(str(out), **options)
    return out
