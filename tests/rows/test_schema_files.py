"""A schema as JSON, and the files beside the data that hold one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from rows.schemas import schemas, tfds_dict, tfds_tensor

from tensorferry.errors import FormatError, LimitError, TruncatedError
from tensorferry.rows.schema import Schema, as_schema, find_beside


@given(schemas())
def test_json_roundtrip(schema):
    """JSON gives back every feature, through a dict and through text."""
    tree = schema.to_json()
    text = json.dumps(tree, allow_nan=False)

    assert Schema.from_json(tree) == schema
    assert Schema.from_json(text) == schema
    assert as_schema(json.loads(text)) == schema


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ('{"version": 1, "features": [], "version": 1}', FormatError, "'version' more than once"),
        ('{"version": 2, "features": []}', FormatError, "version is 2, expected 1"),
        ('{"version": 1, "features": {}}', FormatError, "no list"),
        ('{"version": 1, "features": [3]}', FormatError, "a feature is 3"),
        ('{"features": []}', FormatError, "no schema"),
        ("[]", FormatError, "no schema"),
        ('{"version": 1, "features"', TruncatedError, "byte 25: no JSON"),
        ('{"version": NaN}', FormatError, "NaN is no number of standard JSON"),
        (b"\xff{}", FormatError, "byte 0: no UTF-8"),
        ("[" * 100_000, LimitError, "deep"),
        ("[" + "9" * 5000 + "]", FormatError, "a number is too long"),
    ],
)
def test_json_refuses(text, error, match):
    """JSON that is no schema is refused, keys that are twice too."""
    with pytest.raises(error, match=match):
        Schema.from_json(text)


@pytest.mark.parametrize(
    "part",
    [
        {"what": 1},
        {"shape": 3},
        {"default": {"hex": "zz"}},
        {"default": {"hex": 3}},
        {"default": {"float": []}},
        {"default": {"a": 1, "b": 2}},
        {"default": None, "optional": None},
        {"kind": None},
    ],
)
def test_json_refuses_features(part):
    """A feature's JSON with a wrong part is refused."""
    node = {"name": "x", "kind": "bytes", "shape": [], "dtype": "string", **part}

    with pytest.raises(FormatError):
        Schema.from_json({"version": 1, "features": [node]})


# Files


def test_files(tmp_path):
    """A schema is found beside its data: our own first, then TFDS's, then TFMD's, then above."""
    folder = tmp_path / "split"
    folder.mkdir()
    data = folder / "train.tfrecord"
    assert find_beside(data) is None

    above, tfmd, tfds, ours, own = (as_schema({name: "int64"}) for name in "ABCDE")
    (tmp_path / "schema.pbtxt").write_text(above.to_tfmd())
    assert find_beside(data) == above
    (folder / "schema.pbtxt").write_text(tfmd.to_tfmd())
    assert find_beside(str(data)) == tfmd == as_schema(folder / "schema.pbtxt")
    (folder / "features.json").write_text(json.dumps(tfds_dict(C=tfds_tensor([], "int8"))))
    assert find_beside(data) == tfds == as_schema(str(folder / "features.json"))
    (folder / "schema.json").write_text(json.dumps(ours.to_json()))
    assert find_beside(data) == ours
    (folder / "train.tfrecord.schema.json").write_text(json.dumps(own.to_json()))
    assert find_beside(data) == own


def test_foreign_and_broken_files(tmp_path):
    """JSON of another kind is passed over; a broken schema is an error with its path."""
    (tmp_path / "schema.json").write_text('{"$schema": "https://json-schema.org"}')
    assert find_beside(tmp_path / "x") is None
    (tmp_path / "schema.json").write_text('{"version": 1, "features": [')
    with pytest.raises(TruncatedError, match=r"schema\.json, byte 28"):
        find_beside(tmp_path / "x")
    with pytest.raises(FileNotFoundError):
        as_schema(tmp_path / "nothing.json")
