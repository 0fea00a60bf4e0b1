"""Images among bytes: told by their start, and written as they are."""

from __future__ import annotations

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.operations.images import Extracted, extract, recognise


@pytest.fixture(scope="module")
def pictures(tf) -> dict[str, bytes]:
    """As TensorFlow encodes them; of width 40 and height 28."""
    pixels = np.random.default_rng(1).integers(0, 255, (28, 40, 3), dtype=np.uint8)
    return {
        "png": tf.io.encode_png(pixels).numpy(),
        "jpeg": tf.io.encode_jpeg(pixels).numpy(),
        "bmp": _bitmap(40, 28),
        "gif": b"GIF89a" + (40).to_bytes(2, "little") + (28).to_bytes(2, "little") + bytes(9),
        "webp": b"RIFF\x20\0\0\0WEBPVP8X\x0a\0\0\0" + bytes(4) + b"\x27\0\0\x1b\0\0",
    }


def _bitmap(width: int, height: int) -> bytes:
    data = bytes(28)
    head = b"BM" + (26 + 28).to_bytes(4, "little") + bytes(12)
    return head + width.to_bytes(4, "little") + height.to_bytes(4, "little") + data


@pytest.mark.parametrize("kind", ["png", "jpeg", "bmp", "gif", "webp"])
def test_recognised(pictures, kind):
    """Type, width and height stand at the start of each kind."""
    image = recognise(pictures[kind])

    assert image is not None
    assert (image.type, image.width, image.height) == (kind, 40, 28)
    assert image.nbytes == len(pictures[kind])


@pytest.mark.parametrize("kind", ["png", "jpeg", "bmp", "gif", "webp"])
def test_cut(pictures, kind):
    """However much is missing, the answer is an image or none, and never an error."""
    data = pictures[kind]
    for size in range(min(len(data), 700)):
        found = recognise(data[:size])
        assert found is None or found.type == kind
    assert recognise(b"text") is None


def test_extract(pictures, tmp_path):
    """Files hold the very bytes; other values stay, and no name leads out of the directory."""
    rows = [
        {"id": 3, "../evil/x": pictures["png"], "text": b"abc"},
        {"id": 4, "several": [pictures["jpeg"], b"none"], "text": None},
    ]
    first, second = extract(rows, tmp_path / "out")

    found = first["../evil/x"]
    assert isinstance(found, Extracted)
    assert (tmp_path / "out" / "000000-_evil_x.png").read_bytes() == pictures["png"]
    assert (first["id"], first["text"]) == (3, b"abc")
    assert second["several"][1] == b"none"
    assert (tmp_path / "out" / "000001-several-0.jpg").read_bytes() == pictures["jpeg"]
    assert len(list((tmp_path / "out").iterdir())) == 2
    with pytest.raises(FileExistsError):
        list(extract(rows, tmp_path / "out"))


def test_of_a_file(pictures, tmp_path):
    """Images of records and of tables are the same files."""
    from tensorferry.operations.select import select

    with ferry.writer(tmp_path / "a.tfrecord", durable=False) as out:
        for number in range(3):
            out.write({"id": number, "image": pictures["png"]})
    ferry.convert(tmp_path / "a.tfrecord", tmp_path / "a.parquet", durable=False)
    for name in ("a.tfrecord", "a.parquet"):
        rows = list(extract(select(tmp_path / name, limit=2), tmp_path / f"of-{name}"))
        assert [row["image"].image.type for row in rows] == ["png", "png"]
        files = sorted((tmp_path / f"of-{name}").iterdir())
        assert [file.read_bytes() for file in files] == [pictures["png"]] * 2
