"""Digests of content: pinned, so that they are the same in years."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorferry as ferry
from tensorferry.operations import leaves

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


LARGE = np.arange(9 << 20, dtype=np.float32)
TREE_DIGEST = "sha256-tree:797f43d785e211fe7a21f4899d4b6b568695113e15e12b63ac67ee5393184e0d"


@pytest.mark.parametrize("name", ["a.npz", "a.safetensors", "a.parquet"])
def test_pinned_tree(tmp_path, name):
    """So is the digest of a tensor of several leaves, and the one that 0.1.0 gave."""
    ferry.save({"small": np.zeros(3), "large": LARGE}, tmp_path / name, durable=False)

    leaves = [LARGE[at : at + (1 << 22)].tobytes() for at in range(0, LARGE.size, 1 << 22)]
    root = hashlib.sha256(b"".join(hashlib.sha256(leaf).digest() for leaf in leaves)).digest()
    head = json.dumps(["dense", "float32", [LARGE.size], ["values"], ["values"]]).encode()
    report = ferry.hash(tmp_path / name)
    assert report.digest == TREE_DIGEST
    assert [one.digest.partition(":")[0] for one in report.tensors] == ["sha256-tree", "sha256"]
    assert report.tensors[0].digest[12:] == hashlib.sha256(head + root).hexdigest()

    head = json.dumps(["dense", "float32", [LARGE.size], ["values"]]).encode()
    whole = hashlib.sha256(LARGE.tobytes()).digest()
    report = ferry.hash(tmp_path / name, tree=False)
    assert report.digest.startswith("sha256:")
    assert report.tensors[0].digest[7:] == hashlib.sha256(head + whole).hexdigest()


@pytest.mark.parametrize("size", [1, 7, 64, 100])
def test_leaves_do_not_depend_on_pieces(tmp_path, monkeypatch, size):
    """Tensors of all kinds in leaves of any size give the same digest from every format."""
    monkeypatch.setattr("tensorferry.operations.leaves.LEAF", size)
    monkeypatch.setattr("tensorferry.operations.hash.LEAF", size)
    value = {name: tensor for name, tensor in VALUE.items() if name != "scalar"}
    value["more"] = np.arange(1000, dtype=np.int64).reshape(10, 100)
    names = ("a.npz", "a.safetensors", "a.structure", "a.arrow", "a.json")
    for name in names:
        ferry.save(value, tmp_path / name, durable=False)
    digests = {ferry.hash(tmp_path / name).digest for name in names}
    assert len(digests) == 1
    assert digests.pop().startswith("sha256-tree:")

    rows = {"ragged": VALUE["ragged"], "text": VALUE["text"], "n": np.arange(3)}
    ferry.save(rows, tmp_path / "b.npz", durable=False)
    ferry.save(rows, tmp_path / "b.parquet", rows=True, batch_rows=1, durable=False)
    assert ferry.hash(tmp_path / "b.npz").digest == ferry.hash(tmp_path / "b.parquet").digest


@given(st.lists(st.binary(max_size=40)), st.integers(1, 16))
def test_leaves(pieces, size):
    """A hash does not depend on the pieces, nor on who hashes the leaves."""
    data = b"".join(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaves, "LEAF", size)
        one, other = leaves.Leaves(), leaves.Leaves()
        for piece in pieces:
            one.update(memoryview(piece))
            other.update(memoryview(piece), lambda function, values: list(map(function, values)))
    each = [data[at : at + size] for at in range(0, len(data), size)] or [b""]
    hashes = [hashlib.sha256(leaf).digest() for leaf in each]
    expected = hashes[0] if len(each) == 1 else hashlib.sha256(b"".join(hashes)).digest()
    assert one.digest() == other.digest() == expected
    assert one.are_several == other.are_several == (len(each) > 1)


@pytest.mark.parametrize("tree", [True, False])
def test_kept_digests_of_both_kinds(tmp_path, tree):
    """A file is verified by the kind of digest that it keeps."""
    value = {"large": LARGE}
    ferry.save(value, tmp_path / "a.npz", durable=False)
    digest = ferry.hash(tmp_path / "a.npz", tree=tree).digest
    kept = {"content_digest": digest}
    ferry.save(value, tmp_path / "b.safetensors", metadata=kept, durable=False)
    ferry.save({"large": -LARGE}, tmp_path / "c.safetensors", metadata=kept, durable=False)

    assert ferry.verify(tmp_path / "b.safetensors").problems == ()
    assert "digest" in str(ferry.verify(tmp_path / "c.safetensors").problems)
