"""Errors say where, and survive the way between processes."""

from __future__ import annotations

import copy
import pickle

import pytest

import tensorferry as ferry

KINDS = [
    ferry.FerryError,
    ferry.FormatError,
    ferry.UnknownFormatError,
    ferry.TruncatedError,
    ferry.ChecksumError,
    ferry.LimitError,
    ferry.UnsupportedError,
    ferry.MissingExtraError,
    ferry.MismatchError,
    ferry.UnknownFeatureError,
]


@pytest.mark.parametrize("kind", KINDS)
def test_pickling(kind):
    """Type, message and every place come through."""
    error = kind("bad", path="f.tfrecord", offset=7, tensor="w", hint="do this")

    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert vars(again) == vars(error)
        assert str(again) == "f.tfrecord, byte 7, tensor 'w': bad\nhint: do this"


def test_tree():
    """Each error is also the built-in error that code without tensorferry would expect."""
    for kind in KINDS:
        assert issubclass(kind, ferry.FerryError)
    for kind in KINDS[1:6]:
        assert issubclass(kind, ferry.FormatError)
        assert issubclass(kind, ValueError)
    assert issubclass(ferry.UnsupportedError, NotImplementedError)
    assert issubclass(ferry.MissingExtraError, ImportError)
    assert issubclass(ferry.MismatchError, ValueError)


def test_native_errors_have_offsets():
    """What the native core finds arrives with the byte where it was."""
    with pytest.raises(ferry.TruncatedError) as caught:
        ferry.loads(b"\x08\x01\x12\x04\x12\x02\x08\x02\x22\x08abc")

    assert caught.value.offset == 10
    assert pickle.loads(pickle.dumps(caught.value)).offset == 10


@pytest.mark.parametrize("data", [b"", b"\xffhello", b"\x89PNG"])
def test_unknown_bytes(data):
    """Bytes of no known format are named, with the way out."""
    with pytest.raises(ferry.UnknownFormatError, match="format="):
        ferry.loads(data)


def test_unknown_format():
    """A format that does not exist is named, with those that do."""
    with pytest.raises(ferry.UnknownFormatError, match="tensorproto"):
        ferry.loads(b"\x08", format="protobuf")
