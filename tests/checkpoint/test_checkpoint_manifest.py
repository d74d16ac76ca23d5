"""The digests that a checkpoint's writer notes beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.checkpoint.find import find_checkpoints, open_checkpoint
from headrace.checkpoint.manifest import (
    MANIFEST,
    MOST_BYTES,
    Chunk,
    Digester,
    FileDigests,
    Manifest,
    cut,
    read_manifest,
    write_manifest,
)
from headrace.core.digest import ContentDigest
from headrace.core.errors import CorruptDataError
from headrace.storage.local import LocalStorage

DIGEST, OTHER = "0" * 32, "1" * 32


def digest_of(data: bytes) -> str:
    return ContentDigest(data).hexdigest()


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.lists(st.binary(max_size=30), max_size=8), st.integers(1, 20))
def test_digests_are_those_of_the_chunks_however_the_bytes_come(
    writes: list[bytes], chunk_bytes: int
) -> None:
    digester = Digester(chunk_bytes)
    for data in writes:
        digester.update(data)
    whole = b"".join(writes)
    wanted = [
        digest_of(whole[chunk.offset : chunk.offset + chunk.length])
        for chunk in cut(len(whole), chunk_bytes)
    ]
    assert list(digester.digests()) == wanted


def test_chunks_cover_a_file_and_an_empty_one_has_a_chunk() -> None:
    assert cut(0, 4) == (Chunk(0, 0, None),)
    assert cut(4, 4) == (Chunk(0, 4, None),)
    assert cut(9, 4) == (Chunk(0, 4, None), Chunk(4, 4, None), Chunk(8, 1, None))


@pytest.mark.parametrize("folder", ["", "run/step-10"])
def test_a_manifest_is_read_as_it_was_written(storage: LocalStorage, folder: str) -> None:
    assert read_manifest(storage, folder) is None
    noted = FileDigests(
        size=5, version="7", chunk_bytes=4, digests=(digest_of(b"1234"), digest_of(b"5"))
    )
    manifest = Manifest(files={"a/b": noted})
    write_manifest(storage, folder, manifest)
    assert read_manifest(storage, folder) == manifest


def test_a_note_counts_only_for_the_file_it_was_made_of() -> None:
    noted = FileDigests(size=3, version="7", chunk_bytes=2, digests=(DIGEST, OTHER))
    manifest = Manifest(files={"a": noted})
    assert manifest.note("a", size=3, version="7") is noted
    assert noted.chunks() == (Chunk(0, 2, DIGEST), Chunk(2, 1, OTHER))
    assert manifest.note("a", size=3, version="8") is None
    assert manifest.note("a", size=4, version="7") is None
    assert manifest.note("b", size=3, version="7") is None


GOOD = b'{"format":1,"files":{"a":{"size":3,"version":"7","chunk_bytes":4,"digests":["%s"]}}}'


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ((b'"format":1', b'"format":2'), "format"),
        ((b'"size":3', b'"size":-1'), "size"),
        ((b'"size":3', b'"size":9223372036854775808'), "digests for"),
        ((b'"size":3', b'"size":5'), "1 digests for 2 chunks"),
        ((b'"chunk_bytes":4', b'"chunk_bytes":0'), "chunk_bytes"),
        ((b'"version":"7"', b'"version":7'), "version"),
        ((b'"a"', b'"../a"'), "no path below"),
        ((b'"a"', b'"/a"'), "no path below"),
        ((b'"a"', b'"a//b"'), "no path below"),
        ((b'"a"', b'"a\\u0000"'), "no path below"),
        ((b'"a"', b'""'), "no path below"),
        ((b'["0', b'["G'), "regex"),
        ((b'"7"', b'"\xff"'), "utf-8|UTF-8"),
        ((b'"size"', b'"run":1,"size"'), "unknown field"),
        ((b"{", b""), "malformed|object"),
        ((b'"7"', b"[" * 100_000), "version"),
    ],
)
def test_a_hostile_manifest_is_refused_with_the_reason(
    storage: LocalStorage, change: tuple[bytes, bytes], reason: str
) -> None:
    good = GOOD.replace(b"%s", DIGEST.encode())
    storage.write(MANIFEST, good)
    assert read_manifest(storage, "") is not None
    storage.write(MANIFEST, good.replace(*change, 1))
    with pytest.raises(CorruptDataError, match=reason):
        read_manifest(storage, "")


def test_an_enormous_manifest_is_not_read(storage: LocalStorage) -> None:
    with (Path(storage.url) / MANIFEST).open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(CorruptDataError, match="more than"):
        read_manifest(storage, "")


@pytest.mark.parametrize(
    "files",
    [
        ["latest", "global_step10/mp_rank_00_model_states.pt"],
        ["latest_checkpointed_iteration.txt", "iter_0000010/mp_rank_00/model_optim_rng.pt"],
        ["step-10/a.safetensors"],
        ["checkpoint-10/config.json", "checkpoint-10/model.safetensors"],
        ["step-10/__0_0.distcp"],
    ],
    ids=["deepspeed", "megatron-legacy", "safetensors", "huggingface", "dcp"],
)
def test_in_no_layout_the_manifest_is_a_file_of_the_checkpoint(
    storage: LocalStorage, files: list[str]
) -> None:
    for path in files:
        storage.write(path, b"10" if "latest" in path else b"\2\0\0\0\0\0\0\0{}")
    (before,) = find_checkpoints(storage)
    write_manifest(storage, before.path, Manifest(files={}))
    (after,) = find_checkpoints(storage)
    assert after == before
    assert open_checkpoint(storage, before.path) == before
