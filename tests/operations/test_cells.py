"""Cells: values of every kind in brief, never large."""

from __future__ import annotations

import json
import wave
from io import BytesIO

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.operations.cells import CHARACTERS, MOST, expand, present
from tensorferry.operations.sounds import recognise

PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (28).to_bytes(4, "big") + (40).to_bytes(4, "big") + bytes(9)
)


def sound(seconds=0.5):
    """A WAV file, as Python writes it."""
    file = BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(2)
        writer.setsampwidth(2)
        writer.setframerate(8000)
        writer.writeframes(bytes(int(seconds * 8000) * 4))
    return file.getvalue()


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, "missing", ""),
        (np.int64(2**62), "number", "4611686018427387904"),
        (np.float32(0.1), "number", "0.1"),
        (np.float64("nan"), "number", "NaN"),
        (np.bool_(True), "number", "true"),
        (True, "number", "true"),
        (np.complex128(1 - 2j), "number", "1.0-2.0j"),
        (b"abc", "text", "abc"),
        ("abc", "text", "abc"),
        (b"\xff\x00", "bytes", "2 bytes ff 00"),
        (PNG, "image", "png 28 x 40"),
        (np.array([1, 2]), "array", "[1, 2]"),
        (np.array([0.5]), "array", "[0.5]"),
        (np.array([b"x"], object), "text", "x"),
        (np.arange(20), "array", "[0, 1, 2, 3, 4, 5, 6, 7, …]"),
        (np.ones((3, 4), np.float32), "array", "float32 3 x 4"),
        (np.array([b"x", b"y"], object), "array", '["x", "y"]'),
        (ferry.RaggedTensor.from_rows([[1], [2, 3]]), "array", "[[1], [2, 3]]"),
        ([1, None], "array", "[1, ]"),
    ],
)
def test_in_brief(value, kind, text):
    """What a cell of a table shows."""
    cell = present(value)

    assert (cell.kind, cell.text) == (kind, text)


def test_long_text():
    """Text is cut, also in the middle of a character of several bytes."""
    for size in range(950, 975):
        cell = present(("ä" * size).encode())
        assert cell.kind == "text"
        assert cell.text == "ä" * CHARACTERS
        assert cell.more
    assert present(b"\xff" * 10**6).kind == "bytes"
    assert present(b"x" * 10**6 + b"\xff").kind == "text"


def test_sound():
    """A WAV file says how long it is; bytes that look alike do not."""
    found = recognise(sound())

    assert (found.type, found.rate, found.channels, found.seconds) == ("wav", 8000, 2, 0.5)
    assert present(sound()).media == "audio/wav"
    assert recognise(b"RIFFxxxxWAVE").seconds is None
    assert (
        recognise(
            b"fLaC" + bytes(4) + bytes(10) + (44100 << 44 | 1 << 41 | 88200).to_bytes(8, "big")
        ).seconds
        == 2
    )
    assert recognise(b"OggS").type == "ogg"
    assert recognise(b"ID3\x04").type == "mp3"
    for data in (b"", b"RIFF", b"text", b"\xff\xfb", bytes(100)):
        assert recognise(data) is None


def test_huge_picture_is_named_only():
    """A picture of many pixels is not handed to the browser."""
    huge = PNG[:16] + (100_000).to_bytes(4, "big") * 2 + bytes(9)

    assert present(huge).media is None
    assert present(PNG).media == "image/png"


@pytest.mark.parametrize(
    "value",
    [
        np.arange(10**6),
        [b"x" * 100] * 10**5,
        [[1] * 1000] * 1000,
        np.array([b"y" * 1000] * 10**4, object),
        b"z" * 10**7,
        ferry.RaggedTensor.from_rows([[1, 2]] * 10**5),
        ferry.SparseTensor(np.arange(10**5)[:, None], np.ones(10**5), np.array([10**6])),
        {"a": [{"b": 1}] * 10**5},
    ],
    ids=lambda value: type(value).__name__,
)
def test_expanded_is_bounded(value):
    """However large a value is, its JSON is not, and it says that something is missing."""
    found, whole = expand(value)

    assert not whole or isinstance(value, bytes)
    assert len(json.dumps(found)) < 60 * MOST


def test_expanded():
    """A small value is there as a whole."""
    value = {"a": [np.arange(3), b"text"], "b": None}

    assert expand(value) == ({"a": [[0, 1, 2], "text"], "b": None}, True)
    assert expand(ferry.RaggedTensor.from_rows([[1], []])) == ([[1], []], True)
