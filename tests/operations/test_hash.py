"""Digests of content: pinned, so that they are the same in years."""

from __future__ import annotations

import numpy as np
import pytest

import tensorferry as ferry

VALUE = {
    "dense": np.arange(6, dtype=np.float32).reshape(2, 3),
    "scalar": np.array(7, np.int64),
    "text": np.array([b"a", b"", b"bc"], object),
    "ragged": ferry.RaggedTensor.from_rows([[1, 2], [], [3]], dtype="int32"),
    "sparse": ferry.SparseTensor.from_dense([[0.0, 1.0], [2.0, 0.0]]),
}
DIGEST = "sha256:24dc055a16eb05013da97a74486a506f3795449ac409e5bebc8c7c73fd2c0058"


@pytest.mark.parametrize("name", ["a.npz", "a.safetensors", "a.json", "a.structure", "a.arrow"])
def test_pinned(tmp_path, name):
    """The digest is the same from every format, and has been since it exists."""
    ferry.save(VALUE, tmp_path / name, durable=False)

    assert ferry.hash(tmp_path / name).digest == DIGEST


@pytest.mark.parametrize(
    "other",
    [
        {"x": np.arange(6, dtype=np.float32)},
        {"y": np.arange(6, dtype=np.float32).reshape(2, 3)},
        {"x": np.arange(6, dtype=np.float64).reshape(2, 3)},
        {"x": -np.arange(6, dtype=np.float32).reshape(2, 3)},
        {"x": np.array([b"ab", b""], object)},
        {"x": np.array([b"a", b"b"], object)},
        {},
    ],
)
def test_everything_counts(tmp_path, other):
    """Name, dtype, shape and every bit count."""
    ferry.save({"x": np.arange(6, dtype=np.float32).reshape(2, 3)}, tmp_path / "a.npz")
    ferry.save(other, tmp_path / "b.npz")

    assert ferry.hash(tmp_path / "a.npz").digest != ferry.hash(tmp_path / "b.npz").digest


def test_batches_do_not_count(tmp_path):
    """Ragged and sparse columns in many batches give what the whole columns give."""
    rows = 3000
    value = {
        "ragged": ferry.RaggedTensor.from_rows([[n] * (n % 4) for n in range(rows)], dtype="int64"),
        "label": np.arange(rows),
        "text": np.array([str(n).encode() for n in range(rows)], object),
    }
    ferry.save(value, tmp_path / "a.npz", durable=False)
    with ferry.writer(tmp_path / "b.tfrecord", durable=False) as out:
        out.write_batch(value)
    ferry.save(value, tmp_path / "c.parquet", rows=True, batch_rows=700, durable=False)

    digests = {ferry.hash(tmp_path / name).digest for name in ("a.npz", "b.tfrecord", "c.parquet")}
    assert len(digests) == 1
