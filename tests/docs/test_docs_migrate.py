"""Pages for who comes from another loader run as printed and find the same data; so do examples."""

from __future__ import annotations

import importlib.util
import io
import multiprocessing
import os
import subprocess
import sys
import tarfile
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from docs_reader import BLOCK, REPOSITORY
from PIL import Image

import headrace.torch
from dataset.format_writers import write_mds
from headrace.cli.main import run

pytestmark = pytest.mark.filterwarnings("ignore")  # the other loaders' own

SAMPLES = 24
CLASSES = ("cat", "dog")


def jpeg(number: int) -> bytes:
    coarse = np.random.default_rng(number).integers(0, 256, (12, 10, 3), dtype=np.uint8)
    target = io.BytesIO()
    Image.fromarray(coarse).resize((40 + number % 3, 48)).save(target, "JPEG")
    return target.getvalue()


def write_photos(folder: Path) -> None:
    for number in range(SAMPLES):
        path = folder / "photos" / CLASSES[number % 2] / f"{number:03d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(number))


def write_shards(folder: Path) -> None:
    (folder / "shards").mkdir()
    for shard in range(3):
        with tarfile.open(folder / "shards" / f"train-{shard:06d}.tar", "w") as tar:
            for number in range(shard, SAMPLES, 3):
                for end, content in (("jpg", jpeg(number)), ("cls", b"%d" % (number % 2))):
                    member = tarfile.TarInfo(f"{number:05d}.{end}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))


def write_pets(folder: Path) -> None:
    import datasets

    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=list(CLASSES))}
    )
    rows = [{"image": {"bytes": jpeg(n), "path": None}, "label": n % 2} for n in range(SAMPLES)]
    datasets.Dataset.from_list(rows, features=features).save_to_disk(folder / "pets")


def write_texts(folder: Path) -> None:
    import datasets
    import tokenizers

    texts = [" ".join(f"word{n * k % 7}" for k in range(n % 5 + 1)) for n in range(SAMPLES)]
    datasets.Dataset.from_dict({"text": texts}).save_to_disk(folder / "texts")
    words = {name: number for number, name in enumerate(("[PAD]", "[UNK]", "[EOS]"))}
    words |= {f"word{number}": 3 + number for number in range(7)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))


def write_saved(folder: Path) -> None:
    write_pets(folder)
    write_texts(folder)


def write_streaming(folder: Path) -> None:
    rows = [{"image": jpeg(number), "label": number % 2} for number in range(SAMPLES)]
    write_mds(folder / "mds", {"image": "jpeg", "label": "int"}, rows)


PAGES = {
    "torch-dataloader": (write_photos, ["the same samples: True"]),
    "questions": (write_photos, ["the same pixels: True", "the same batch: True"]),
    "webdataset": (write_shards, ["the same samples: True"]),
    "huggingface": (
        write_saved,
        ["steps: 6", "the same tokens: True", "the same samples: True"],
    ),
    "lightning": (write_photos, ["steps: 3", "the same batches: True"]),
    "mosaicml-streaming": (write_streaming, ["the same samples: True"]),
}


@pytest.mark.parametrize("page", PAGES)
def test_the_page_runs_as_printed(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if page == "mosaicml-streaming" and importlib.util.find_spec("streaming") is None:
        pytest.skip("MosaicML Streaming is not installed")
    write, told = PAGES[page]
    write(tmp_path)
    capsys.readouterr()
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for language, block in BLOCK.findall((REPOSITORY / f"docs/migrate/{page}.md").read_text()):
        if language == "console":
            assert run([*block.split()[2:], "--json", str(tmp_path / "facts")]) == 0
        else:
            exec(compile(block, page, "exec"), names)
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if line.startswith(("the same", "steps:"))] == told
    assert multiprocessing.active_children() == []


def test_every_page_is_run_and_is_linked_from_the_first_page() -> None:
    pages = {path.stem for path in (REPOSITORY / "docs/migrate").glob("*.md")}
    assert pages == set(PAGES)
    readme = (REPOSITORY / "README.md").read_text()
    assert all(f"docs/migrate/{page}.md" in readme for page in pages)


def example(name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / "examples" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_numpy_example_learns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_photos(tmp_path)
    example("numpy_loop").main(str(tmp_path / "photos"))
    said = capsys.readouterr().out
    losses = [float(line.split()[-1]) for line in said.splitlines() if ": loss" in line]
    assert len(losses) == 3
    assert losses[-1] < losses[0]


IN_JAX = """
import sys
sys.path.insert(0, sys.argv[1])
import jax, jax_loop, headrace
from headrace import Pipeline, ops
jax_loop.main("photos")
pipeline = Pipeline([ops.DecodeImage(), ops.CenterCrop(32), ops.ToFloat()])
with headrace.Loader("photos", pipeline=pipeline, batch_size=8) as loader:
    pictures = next(iter(loader))["image"]
taken = jax.device_put(pictures)
print("taken over:", taken.unsafe_buffer_pointer() == pictures.ctypes.data)
"""


def test_the_jax_example_trains_on_all_devices_and_copies_no_batch(tmp_path: Path) -> None:
    """In a process of its own: forks of one that has imported JAX are warned of."""
    write_photos(tmp_path)
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(  # noqa: PLW1510 - what it said is shown
        [sys.executable, "-c", IN_JAX, str(REPOSITORY / "examples")],
        cwd=tmp_path, env={**os.environ, **flags}, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("on 4 devices") == 3
    assert "taken over: True" in done.stdout


@pytest.mark.parametrize("name", ["huggingface_trainer", "lightning_trainer"])
def test_a_trainer_that_is_stopped_goes_on_with_the_next_batch(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_photos(tmp_path)
    seen: list[list[int]] = []
    loop = headrace.torch.Loader.__iter__

    def noting(loader: headrace.torch.Loader) -> Iterator[headrace.torch.TensorBatch]:
        for batch in loop(loader):
            seen.append(batch["sample"].tolist())
            yield batch

    monkeypatch.setattr(headrace.torch.Loader, "__iter__", noting)
    program = example(name)
    program.main(str(tmp_path / "photos"), str(tmp_path / "whole"))
    whole = seen[:]
    assert len(whole) == 6
    seen.clear()
    program.main(str(tmp_path / "photos"), str(tmp_path / "halves"), max_steps=2)
    program.main(str(tmp_path / "photos"), str(tmp_path / "halves"))
    assert seen == whole
