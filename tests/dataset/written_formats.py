"""One dataset of all formats that have writers of their own."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import webdataset
from pyarrow import feather

from dataset.format_writers import write_mds, write_records, write_saved, write_tokens
from dataset.made_up_media import clip, picture
from headrace.dataset.scan import ScanOptions

OPTIONS = ScanOptions(window=7, document_seed=3)


def write_all_formats(root: Path) -> Path:
    """Write shards, tokens and records, plain and compressed, with values of every type."""
    columns = {"img": "jpeg", "caption": "str", "label": "int", "shape": "ndarray", "id": "uint64"}
    rows = [
        {
            "img": picture(9 + n, 9),
            "caption": f"№{n}",
            "label": n,
            "shape": np.ones((n + 1, 2), np.float16),
            "id": 2**64 - 1 - n,
        }
        for n in range(5)
    ]
    write_mds(root / "mds/plain", columns, rows, size_limit=2000)
    write_mds(root / "mds/packed", columns, rows, compression="zstd")
    write_mds(root / "mds/clips", {"mp4": "bytes"}, [{"mp4": clip(5 + n)} for n in range(2)])
    write_tokens(root / "tokens", [[range(n % 7)] for n in range(30)], np.uint16)
    examples = [
        {"image/encoded": (picture(9, 9 + n), "byte"), "size": ([n, 9], "int"), "x": (n, "float")}
        for n in range(5)
    ]
    plain = write_records(root / "plain.tfrecord", examples)
    (root / "packed.tfrecord.gz").write_bytes(gzip.compress(plain.read_bytes()))
    write_saved(root / "saved", [picture(9, 10 + n) for n in range(4)], num_shards=2)
    table = {"png": [picture(9, 9, "PNG")] * 3, "caption": ["a", "b", None], "cls": [1, None, 3]}
    feather.write_feather(pa.table(table), str(root / "packed.feather"), compression="lz4")
    (root / "captioned").mkdir()
    for n in range(3):
        (root / f"captioned/{n}.jpg").write_bytes(picture(9, 9 + n))
    (root / "captioned/captions.txt").write_text("0.jpg\tnull\n1.jpg\teins\n")
    (root / "captioned/2.txt").write_text("zwei")
    _write_documents(root)
    return root


def _write_documents(root: Path) -> None:
    """Write texts with pictures between them: held, numbered in a tar, and named."""
    medium = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    held = [[{"bytes": picture(9, 9 + k)} if k % 2 else None for k in range(n)] for n in range(4)]
    texts = [[None if k % 2 else f"№{k}" for k in range(n)] for n in range(4)]
    columns = {"images": pa.array(held, pa.list_(medium)), "texts": pa.array(texts)}
    pq.write_table(pa.table(columns).slice(1), root / "documents.parquet")
    with webdataset.TarWriter(str(root / "documents.tar")) as writer:
        pictures = {f"{k}.jpg": picture(9, 9 + k) for k in range(3)}
        writer.write({"__key__": "a", **pictures, "txt": "<image><image><image>"})
    (root / "documents/in").mkdir(parents=True)
    for k in range(2):
        (root / f"documents/in/{k}.png").write_bytes(picture(9, 9 + k, "PNG"))
    line = {"images": ["in/1.png", None, "in/0.png"], "texts": [None, "und", None]}
    (root / "documents/x.jsonl").write_text(json.dumps(line))
