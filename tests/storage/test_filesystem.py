"""URLs of fsspec, on its own file systems."""

from __future__ import annotations

import sys
import uuid
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry import storage
from tensorferry.errors import FormatError, MissingExtraError, TruncatedError, UnsupportedError
from tensorferry.storage import filesystem, ranged, shards

DATA = np.random.default_rng(3).bytes(500_000)


@pytest.fixture
def root():
    """A directory of its own in the memory file system."""
    fsspec = pytest.importorskip("fsspec")
    name = f"memory://{uuid.uuid4().hex}"
    yield name
    system = fsspec.filesystem("memory")
    if system.exists(name):
        system.rm(name, recursive=True)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Pieces so small that there are many of them."""
    monkeypatch.setattr(ranged, "PIECE", 100_000)
    monkeypatch.setattr(ranged, "FIRST_PIECE", 10_000)


def write(url, data=DATA):
    with storage.open_sink(url) as sink:
        sink.write(data)
    return url


def test_roundtrip(root):
    """What is written is there, whole and in parts."""
    url = write(f"{root}/x.bin", np.frombuffer(DATA, np.uint8))
    with storage.open_source(url) as source:
        assert (source.path, source.size, source.buffer) == (url, len(DATA), None)
        assert source.head(5) == DATA[:5]
        assert source.range(300_000, 300_009) == DATA[300_000:300_009]
        assert source.ranges([(5, 9), (0, 400_000)]) == [DATA[5:9], DATA[:400_000]]
        assert source.everything() == DATA
        assert b"".join(iter(lambda: source.read(33_333), b"")) == DATA
        with pytest.raises(TruncatedError):
            source.range(0, len(DATA) + 1)


def test_an_error_leaves_the_file(root):
    """If the block raises, the old file stays, and nothing is beside it."""
    url = write(f"{root}/x.bin", b"old")
    with pytest.raises(ZeroDivisionError), storage.open_sink(url) as sink:
        sink.write(DATA)
        raise ZeroDivisionError
    assert storage.list_directory(root) == [url]
    with storage.open_source(url) as source:
        assert source.everything() == b"old"
    write(url, b"new")
    assert storage.list_directory(root) == [url]
    with storage.open_source(url) as source:
        assert source.everything() == b"new"


@pytest.mark.parametrize("name", ["q?x=1.bin", "[ab].bin", "*.bin", "[a]/b.bin", "q#x.bin"])
def test_signs_of_patterns_in_names(root, name):
    """A name may have any of them, and no other file is touched, written or copied."""
    other = write(f"{root}/a.bin", b"other")

    for _ in range(2):  # new, and replaced
        url = write(f"{root}/{name}", b"new")
    filesystem.copy(url, f"{root}/copies/{name}", None)

    expected = {other: b"other", url: b"new", f"{root}/copies/{name}": b"new"}
    assert set(filesystem.list_files(root, None, deep=True)) == expected.keys()
    for each, data in expected.items():
        with storage.open_source(each) as source:
            assert source.everything() == data


def test_folders_are_no_files(root):
    """What is saved under the name of a folder would be moved into it, and never be found."""
    other = write(f"{root}/folder/x.bin", b"other")

    for url in (f"{root}/folder", root, f"{root}/folder/", f"{root}/new/", "memory://"):
        with pytest.raises(IsADirectoryError, match="name of a folder"):
            ferry.save({"x": np.arange(3)}, url, format="npz")
    assert list(filesystem.list_files(root, None, deep=True)) == [other]


def test_names(root):
    """Files are found, listed and removed."""
    urls = [write(f"{root}/{name}", b"x") for name in ("a-1.x", "a-2.x", "b.y", "d/e.x")]
    assert storage.exists(urls[0])
    assert not storage.exists(f"{root}/none")
    assert storage.list_directory(root) == urls[:3]
    assert storage.match(f"{root}/a-*") == urls[:2]
    assert storage.match(f"{root}/**/*.x") == [urls[0], urls[1], urls[3]]
    assert shards.expand(f"{root}/a-*") == urls[:2]
    storage.remove(urls[0])
    storage.remove(urls[0])
    assert storage.list_directory(root) == urls[1:3]
    assert storage.list_directory(f"{root}/none") == []


def test_records(root):
    """TFRecords are written and read there."""
    with ferry.writer(f"{root}/t.tfrecord", shards=2) as out:
        out.write_batch({"id": np.arange(1000)})
    with ferry.open(f"{root}/t.tfrecord@2") as records:
        assert sorted(row["id"] for row in records) == [*range(1000)]


def test_a_stack_of_file_systems(root, tmp_path):
    """Whatever fsspec can name works, also inside other files."""
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("in/x.bin", DATA)
    url = f"zip://in/x.bin::file://{tmp_path}/a.zip"
    with storage.open_source(url) as source:
        assert source.everything() == DATA
    assert storage.list_directory(f"zip://in::file://{tmp_path}/a.zip") == [url]


def test_threads_share_an_archive(tmp_path):
    """Threads that read one archive get their own bytes each: Python's zipfile mixes them up."""
    import zipfile

    data = np.arange(400_000).tobytes()
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x.bin", data)
    spans = [(start, start + 20_000) for start in range(0, len(data), 20_000)]
    with (
        storage.open_source(f"zip://x.bin::file://{tmp_path}/a.zip") as source,
        ThreadPoolExecutor(8) as pool,
    ):
        for _ in range(5):
            assert b"".join(pool.map(lambda span: source.fetch(*span), spans)) == data


def test_errors(root, monkeypatch):
    """What is missing names the URL, and an unknown scheme what is known."""
    url = f"{root}/none"
    with pytest.raises(FileNotFoundError, match=url):
        storage.open_source(url)
    write(f"{root}/d/x", b"x")
    with pytest.raises(FormatError, match="is a directory"):
        storage.open_source(f"{root}/d")
    with pytest.raises(UnsupportedError, match="nosuch://"):
        storage.open_source("nosuch://x/y")
    with pytest.raises(UnsupportedError, match="cannot be changed"), storage.open_sink(url) as sink:
        sink.write(b"x")
        sink.patch(0, b"y")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtraError, match="pip install fsspec"):
        storage.open_source(url)
