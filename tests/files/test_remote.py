"""Files in object stores: every format there and back, and no more read than asked for.

How many requests that takes is counted on a real S3 server.
"""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest
from servers import Web
from strategies import same

import tensorferry as ferry
from tensorferry.errors import FormatError
from tensorferry.storage import ranged

VALUE = {
    "ids": ferry.RaggedTensor.from_rows([[7, 2], [9]]),
    "scores": np.arange(6, dtype=np.float32).reshape(2, 3),
    "text": np.array([b"guten", b"tag"], object),
    "nested": [np.ones(2), {"none": None}],
}


@pytest.mark.parametrize(
    "name", ["x.npz", "x.safetensors", "x.json", "x.structure", "x.arrow", "x.parquet", "x.npz.zst"]
)
def test_there_and_back(s3, name):
    """What is saved in a bucket is loaded from it, with its metadata."""
    ferry.save(VALUE, s3.url(name), metadata={"model": "en-de"})

    found = ferry.load(s3.url(name))

    assert same(found["nested"], VALUE["nested"])
    assert same(found["ids"], VALUE["ids"])
    assert found["text"].tolist() == [b"guten", b"tag"]
    assert ferry.open(s3.url(name)).metadata == {"model": "en-de"}


def test_sidecars(s3):
    """An npy file keeps its metadata in an object beside it."""
    array = np.arange(4, dtype=np.float32)
    ferry.save(array, s3.url("x.npy"), metadata={"k": 1})
    assert {"x.npy", "x.npy.json"} <= {key.split("/")[-1] for key in s3.keys()}  # noqa: SIM118

    assert same(ferry.load(s3.url("x.npy")), array)
    assert ferry.open(s3.url("x.npy")).metadata == {"k": 1}
    ferry.save(array, s3.url("x.npy"))
    assert ferry.open(s3.url("x.npy")).metadata == {}


def test_only_what_is_asked_for(s3):
    """Of 20 MB, opening reads the header, and a slice its own rows."""
    tensors = {f"t{i}": np.full((500, 1000), i, np.float32) for i in range(10)}
    ferry.save(tensors, s3.url("big.safetensors"))
    s3.requests.clear()

    with ferry.open(s3.url("big.safetensors")) as bundle:
        assert bundle.info["t3"].shape == (500, 1000)
        source = bundle.place.open()
        opened = source.bytes_read
        assert opened < 100_000
        part = bundle.slice("t3", np.s_[10:12, :])
        assert same(np.asarray(part), tensors["t3"][10:12])
        assert source.bytes_read - opened < 100_000
        assert bundle.slice("t7", np.s_[:, 5]).tolist() == [7] * 500
        before = source.bytes_read
        assert same(bundle["t9"], tensors["t9"])
        assert source.bytes_read - before == tensors["t9"].nbytes


def test_one_member_of_an_archive(s3):
    """Of a stored npz, one array costs its own bytes and some headers."""
    tensors = {f"t{i}": np.full(250_000, i, np.float64) for i in range(8)}
    ferry.save(tensors, s3.url("big.npz"))

    with ferry.open(s3.url("big.npz")) as bundle:
        assert bundle["t5"][0] == 5
        assert bundle.place.open().bytes_read < 2 * tensors["t5"].nbytes


def many(size, count=80):
    return {f"t{i:02}": np.full(size // 4, i, np.float32) for i in range(count)}


@pytest.mark.parametrize(
    ("name", "options", "most"),
    [
        ("x.safetensors", {}, 2),
        ("x.npz", {}, 3),
        ("x.npz", {"compression": "deflate"}, 3),
    ],
)
def test_many_small_tensors(s3, name, options, most):
    """80 tensors of 4 KB are opened and loaded in a few requests, not in one each."""
    tensors = many(4096)
    ferry.save(tensors, s3.url(name), **options)
    s3.clear()

    assert same(ferry.load(s3.url(name)), tensors)
    assert len(s3.requests) <= most
    assert {request.method for request in s3.requests} == {"GET"}


@pytest.mark.parametrize("name", ["x.safetensors", "x.npz"])
def test_some_of_many_tensors(s3, name):
    """Tensors that are read by one call are fetched together, and only those."""
    tensors = many(4096, 400)
    ferry.save(tensors, s3.url(name))
    wanted = [f"t{i}" for i in range(200, 230)]
    with ferry.open(s3.url(name)) as bundle:
        s3.clear()
        assert same(dict(bundle.read_many(wanted)), {name: tensors[name] for name in wanted})
        assert len(s3.requests) <= 1


def test_large_tensors(s3):
    """80 tensors of 1 MB come in pieces of about 4 MB, and opening them reads the header."""
    tensors = many(1_000_000)
    ferry.save(tensors, s3.url("x.safetensors"))
    s3.clear()

    with ferry.open(s3.url("x.safetensors")) as bundle:
        assert bundle.info["t79"].shape == (250_000,)
        assert [request.sent for request in s3.requests] == [ranged.HEAD]
        assert same(bundle.value(), tensors)
    assert len(s3.requests) <= 80_000_000 / ranged.PIECE + 5
    assert sum(request.sent for request in s3.requests) < 80_200_000


def test_large_members(s3):
    """Opening an archive of large members reads their headers, several at once, not the members."""
    tensors = many(400_000, 40)
    ferry.save(tensors, s3.url("x.npz"))
    s3.clear()

    with ferry.open(s3.url("x.npz")) as bundle:
        assert bundle.info["t39"].shape == (100_000,)
        assert sum(request.sent for request in s3.requests) < 1_000_000
        s3.clear()
        assert same(bundle["t20"], tensors["t20"])
        assert sum(request.sent for request in s3.requests) < 420_000


def test_archives_of_others(s3):
    """An archive that was written in one go, with descriptors behind its members, is no slower."""
    stream = io.BytesIO()
    stream.seekable = lambda: False
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in many(4096).items():
            with archive.open(f"{name}.npy", "w") as member:
                np.save(member, array)
    s3.put("x.npz", stream.getvalue())
    s3.clear()

    assert same(ferry.load(s3.url("x.npz")), many(4096))
    assert len(s3.requests) <= 3


def test_shards(s3):
    """A model of several objects is opened by its index."""
    tensors = {f"t{i}": np.full(1000, i, np.float32) for i in range(4)}
    ferry.save(tensors, s3.url("m.safetensors"), shard_size="9kB")

    index = json.loads(s3.get("m.safetensors.index.json"))
    assert len(set(index["weight_map"].values())) == 2
    assert same(ferry.load(s3.url("m.safetensors.index.json")), tensors)


def test_what_is_not_there(s3):
    """A missing object is named."""
    with pytest.raises(FileNotFoundError, match=r"nothing\.safetensors"):
        ferry.load(s3.url("nothing.safetensors"))


def test_a_failed_save_leaves_nothing(s3):
    """What cannot be written does not appear, and no upload is left open."""
    before = set(s3.keys())

    def tensors():
        yield "a", np.zeros(3_000_000)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        ferry.save(tensors(), s3.url("broken.npz"))
    assert set(s3.keys()) == before
    assert not s3.uploads()


@pytest.mark.parametrize("data", [b"no format of ours", b"\x10\0\0\0\0\0\0\0{" + b"x" * 40])
def test_secrets(data):
    """An error about a file does not show the signature of its URL."""
    web = Web(data)
    with pytest.raises(FormatError) as caught:
        ferry.load(web.url("x.bin?sig=SECRET"))
    web.stop()
    assert "x.bin?..." in str(caught.value)
    assert "SECRET" not in str(caught.value)


def test_secrets_of_a_bundle():
    """Neither does a bundle, nor an error about one of its tensors."""
    web = Web(bytes(ferry.dumps({"a": np.arange(3)}, format="safetensors")))
    with ferry.open(web.url("x.safetensors?sig=SECRET")) as bundle:
        assert "SECRET" not in repr(bundle) + str(bundle.unknown("b"))
        assert same(bundle["a"], np.arange(3))
        # One asks whether the server sends requests on to another host: the query looks secret.
        assert [each.range for each in web.requests] == ["bytes=0-0", "bytes=0-65535"]
    web.stop()
