"""The bytes that we write: the same value gives the same bytes, today and in the next version."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tensorferry as ferry

GOLDEN = Path(__file__).parent / "golden/bytes.json"

ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)
STRINGS = np.array([b"one", b"", "drei\u00e4".encode()], object)
TENSORS = {
    "dense": ARRAY,
    "small": np.arange(4).astype(ml_dtypes.bfloat16),
    "narrow": np.array([1, -2, 3], ml_dtypes.int4),
    "flags": np.array([True, False]),
    "strings": STRINGS,
    "sparse": ferry.SparseTensor.from_dense([[0.0, 2.5], [1.5, 0.0]]),
    "ragged": ferry.RaggedTensor.from_rows([[1, 2], [], [3]], dtype="int64"),
}
NESTED = {"a": [ARRAY, None, (1, 2.5, "x")], "b": {"c": STRINGS}, "n": True}
COLUMNS = {"id": np.arange(5), "x": np.arange(5, dtype=np.float32), "s": [b"a"] * 5}


def files():
    """What is written by name: the value, the file, and the options."""
    for suffix in ("npz", "safetensors", "json", "structure"):
        yield f"tensors.{suffix}", TENSORS, {}
        yield f"nested.{suffix}", NESTED, {"metadata": {"step": 7}}
    yield "deflated.npz", TENSORS, {"compression": "deflate"}
    yield "quantized.safetensors", {"w": ARRAY}, {"quantize": "int8"}
    yield "one.npy", ARRAY, {"metadata": {"k": "v"}}
    yield "fortran.npy", np.asfortranarray(ARRAY), {}
    yield "one.pb", ARRAY, {}
    yield "strings.pb", STRINGS, {}
    yield "big.raw", ARRAY, {"byteorder": "big"}
    yield "rows.tfrecord", COLUMNS, {}
    yield "rows.tfrecord.gz", COLUMNS, {}
    yield "names.ckpt", TENSORS, {}
    yield "objects.ckpt", NESTED, {"metadata": {"step": 7}}


def digests(folder, name, value, options):
    """The digest of every file that a save leaves."""
    folder.mkdir()
    ferry.save(value, str(folder / name), **options)
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
    }


@pytest.mark.parametrize(("name", "value", "options"), list(files()), ids=lambda v: str(v)[:20])
def test_golden_bytes(tmp_path, name, value, options):
    """Every file has the bytes that it had when the golden digests were made."""
    assert digests(tmp_path / "x", name, value, options) == json.loads(GOLDEN.read_text())[name]


if __name__ == "__main__":
    made = {name: digests(Path(sys.argv[1]) / name, name, v, o) for name, v, o in files()}
    GOLDEN.write_text(json.dumps(made, indent=1) + "\n")
