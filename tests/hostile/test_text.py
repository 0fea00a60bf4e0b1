"""Text inside files: nested without end, half characters, zero bytes. The errors are ours."""

from __future__ import annotations

import io
import json
import struct
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tensorferry as ferry
from tensorferry.codecs import json_text
from tensorferry.rows import schema as schemas

DEPTHS = (150, 990, 5_000, 100_000)
HALF = "\ud800"
ZERO = "a\0b"


def lists(depth: int) -> str:
    return "[" * depth + "]" * depth


def objects(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


def safetensors(note: str, **metadata: str) -> bytes:
    tensors = {"a": {"dtype": "I8", "shape": [1], "data_offsets": [0, 1]}}
    header = json.dumps({"__metadata__": {"tensorferry": note, **metadata}, **tensors}).encode()
    return struct.pack("<Q", len(header)) + header + b"x"


def npz(text: str) -> bytes:
    out, array = io.BytesIO(), io.BytesIO()
    np.save(array, np.zeros(2))
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.npy", array.getvalue())
        archive.writestr("tensorferry.json", text)
    return out.getvalue()


def read(given: object, **options: str) -> None:
    with ferry.open(given, **options) as opened:
        for name in opened.infos():
            opened[name]
        opened.value()


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    "note",
    [
        lists,
        lambda depth: f'{{"version":1,"layout":{{"value":{lists(depth)}}}}}',
        lambda depth: f'{{"version":1,"tensors":{{"a":{objects(depth)}}}}}',
        lambda depth: f'{{"version":1,"quantized":{{"a":{objects(depth)}}}}}',
    ],
    ids=["whole", "layout", "tensors", "quantized"],
)
def test_deep_notes(depth, note):
    """A note that nests without end is an error of ours."""
    with pytest.raises(ferry.FormatError):
        read(safetensors(note(depth)))
    with pytest.raises(ferry.FormatError):
        read(npz(note(depth)))


def nested(kind: str, depth: int) -> str:
    """JSON of some depth: lists, objects, both by turns, beside others, with marks in strings."""
    if kind == "mixed":
        return (
            "".join("[" if n % 2 else '{"a":' for n in range(depth))
            + "1"
            + "".join("]" if n % 2 else "}" for n in reversed(range(depth)))
        )
    if kind == "marks":
        noise = json.dumps(["]" * 2000, '"[', "\\", '\\"]]', "é]"])
        return f"[{noise}, {lists(depth - 1)}, {noise}]"
    if kind == "late":
        return f"[{','.join(['[[]]'] * 500)}, {lists(depth - 1)}]"
    return {"lists": lists, "objects": objects}[kind](depth)


@pytest.mark.parametrize("kind", ["lists", "objects", "mixed", "marks", "late"])
def test_depth_is_counted(kind, monkeypatch):
    """Depth is counted, the same on every Python: strings do not count, and cut texts do."""
    limit = json_text.LEVELS * ferry.limits.depth
    json_text.check_depth(nested(kind, limit))
    with pytest.raises(ferry.errors.LimitError, match=f"deeper than {limit}"):
        json_text.check_depth(nested(kind, limit + 1))
    with pytest.raises(ferry.errors.LimitError):
        json_text.parse(nested(kind, 100_000)[:60_000].encode())
    monkeypatch.setattr(ferry.limits, "depth", 1)
    json_text.check_depth(nested(kind, 8))
    with pytest.raises(ferry.errors.LimitError, match="deeper than 8"):
        json_text.check_depth(nested(kind, 9))


def test_marks_in_strings_are_no_depth():
    """Any number of brackets in strings, and any number of lists side by side, are fine."""
    text = json.dumps({"[" * 5000: ["{[" * 5000, '\\"[' * 900], "b": [[]] * 5000})
    assert json_text.parse(text.encode()) == json.loads(text)


@pytest.mark.parametrize("depth", DEPTHS[2:])
def test_deep_metadata(depth):
    """Metadata that is JSON, and nests without end, is an error of ours."""
    with pytest.raises(ferry.errors.LimitError):
        read(safetensors('{"version":1,"encoded":["u"]}', u=lists(depth)))


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("s.npy.json", lambda depth: f'{{"tensorferry":1,"files":[{lists(depth)}]}}'),
        ("m.safetensors.index.json", lambda depth: f'{{"weight_map":{objects(depth)}}}'),
        ("m.weights.json", lambda depth: f'{{"weight_map":{objects(depth)}}}'),
    ],
    ids=["sidecar", "safetensors", "keras"],
)
def test_deep_files(tmp_path, depth, name, content):
    """Sidecars and indexes that nest without end are errors of ours, which name the file."""
    np.save(tmp_path / "s.npy", np.zeros(2))
    (tmp_path / name).write_text(content(depth))
    opened = "s.npy" if name.startswith("s.npy") else name
    with pytest.raises(ferry.FormatError) as failed:
        read(tmp_path / opened)

    assert str(tmp_path) in str(failed.value)


@pytest.mark.parametrize("depth", DEPTHS)
def test_deep_tables(tmp_path, depth):
    """A note among the metadata of a Parquet file."""
    table = pa.table({"a": [1]}).replace_schema_metadata({"tensorferry": lists(depth)})
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(ferry.FormatError):
        list(ferry.open(tmp_path / "x.parquet"))


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (schemas.Schema.from_json, lambda depth: f'{{"features":{lists(depth)}}}'),
        (schemas.Schema.from_json, lists),
        (schemas.from_tfds, lambda depth: f'{{"featuresDict":{objects(depth)}}}'),
        (schemas.from_tfmd, lambda depth: "feature { " * depth + "}" * depth),
    ],
)
def test_deep_schemas(depth, parse, text):
    """Texts of schemas that nest without end are errors of ours."""
    with pytest.raises(ferry.FormatError):
        parse(text(depth))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "1",
        '"x"',
        '{"features": 1}',
        '{"features": {"a": null}}',
        '{"version": 1, "features": [{"name": "a", "dtype": [], "shape": {}}]}',
        '{"version": 1, "features": [{"name": 1}]}',
        '{"featuresDict": {"features": []}}',
        '{"pythonClassName": "x", "featuresDict": {"features": {"a": {"tensor": 1}}}}',
        "feature { name: 1 }",
        'feature { name: "a" type: 99 }',
        'feature { name: "a" type: INT shape { dim { size: "x" } } }',
        'feature { name: "\\377" }',
        'feature: "x"',
        "\ud800",
        "a\0b",
        "\x1b[31m",
    ],
)
def test_other_schemas(text):
    """A text that is no schema is an error of ours, whichever kind of schema it is taken for."""
    for parse in (schemas.Schema.from_json, schemas.from_tfds, schemas.from_tfmd):
        try:
            parse(text)
        except ferry.FerryError:
            continue


def test_half_characters():
    """A note, or metadata, that holds half a character is an error of ours."""
    with pytest.raises(ferry.FormatError, match="half a character"):
        read(safetensors(HALF))
    with pytest.raises(ferry.FormatError, match="half a character"):
        read(safetensors('{"version":1,"encoded":["u"]}', u=HALF))


@pytest.mark.parametrize("bad", [HALF, ZERO])
def test_paths(tmp_path, bad):
    """A path that no file can have is an error of ours, which says what is wrong with it."""
    expected = "half a character" if bad == HALF else "a zero byte"
    for verb in (ferry.open, ferry.load, ferry.inspect, ferry.verify):
        with pytest.raises(ferry.FerryError, match=expected):
            verb(f"{tmp_path}/{bad}.npz")
        with pytest.raises((ferry.FerryError, FileNotFoundError)):
            verb(f"{tmp_path}/{bad}.ckpt")
    for name, kind in (("x.npz", None), ("x.ckpt", None), ("x", "savedmodel")):
        with pytest.raises(ferry.FerryError, match=expected):
            ferry.save({"a": np.zeros(2)}, f"{tmp_path}/{bad}{name}", format=kind)
    for name, suffix in (("m.safetensors.index.json", ".safetensors"), ("m.weights.json", "")):
        (tmp_path / name).write_text(json.dumps({"weight_map": {"a": f"{bad}{suffix}"}}))
        with pytest.raises(ferry.FerryError):
            read(tmp_path / name)
