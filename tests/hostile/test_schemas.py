"""Schemas beside files that say what PyArrow does not survive, or what takes memory without end."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import tensorferry as ferry
from tensorferry.errors import FerryError, LimitError

NAMES = ("x.csv", "x.jsonl", "x.tfrecord")


def rewritten(path, column, node, **more):
    """Writes a frame, and says in the schema beside it that its column is of another type."""
    ferry.save(pa.table({"id": [1] * len(column), "c": column}), path)
    beside = path.with_name(path.name + ".schema.json")
    tree = json.loads(beside.read_text())
    (said,) = [said for said in tree["frame"]["columns"] if said["name"] == "c"]
    said.update(type=node, **more)
    beside.write_text(json.dumps(tree))
    return path


def read(path):
    with ferry.open(path) as rows:
        return pa.Table.from_batches(rows.arrow_batches())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [-(2**31), 2**31 - 1, 39, -39])
def test_scales_of_decimals(tmp_path, name, scale):
    """PyArrow has powers of ten for as many digits as a decimal has, and ends the process else."""
    node = {"decimal128": [5, scale]}
    path = rewritten(tmp_path / name, pa.array(["1", "2"]), node)

    with pytest.raises(FerryError, match="scale"):
        read(path)


@pytest.mark.parametrize("name", NAMES)
def test_scales_of_categories(tmp_path, name):
    """The categories of a column are of a type, too."""
    node = {"dictionary": {"decimal128": [5, -(2**31)]}, "index": "int8"}
    path = rewritten(tmp_path / name, pa.array(["1", "2"]), node, categories=["1"])

    with pytest.raises(FerryError, match="scale"):
        read(path)


TEXTS = ["1e-2147483000", "1e-400", "0." + "0" * 100 + "1", "1e99999999999", "1e", "nan", "--1"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["decimal32", "decimal64", "decimal128", "decimal256"])
@pytest.mark.parametrize("text", TEXTS)
def test_texts_of_decimals(tmp_path, name, kind, text):
    """A number in the file that PyArrow would shift by more digits than it knows is an error."""
    path = rewritten(tmp_path / name, pa.array(["1", text]), {kind: [5, 2]})

    with pytest.raises(FerryError):
        read(path)


@pytest.mark.parametrize("name", ["x.jsonl", "x.tfrecord"])
def test_texts_of_decimals_in_lists(tmp_path, name):
    """The same in a list."""
    node = {"list": {"name": "item", "type": {"decimal128": [5, 2]}}}
    column = pa.array([["1e-2147483000"], ["1"]])
    path = rewritten(tmp_path / name, column, node)

    with pytest.raises(FerryError):
        read(path)


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_texts_of_decimals_of_a_given_schema(tmp_path, name):
    """A type that the user gives makes no number of the file dangerous."""
    ferry.save(pa.table({"id": [1], "c": ["1e-2147483000"]}), tmp_path / name)
    schema = pa.schema([("id", pa.int64()), ("c", pa.decimal128(5, 2))])

    with ferry.open(tmp_path / name, schema=schema) as rows:
        assert [bytes(row["c"]) for row in rows] == [b"1e-2147483000"]


@pytest.mark.parametrize(
    "text", ["12.5", "+1.50", "-.5", "7.", "1E+2", "15e-1", "0", None, "1.5000000000"]
)
@pytest.mark.parametrize("name", NAMES)
def test_other_texts_of_decimals(tmp_path, name, text):
    """All other numbers are what PyArrow makes of them."""
    path = rewritten(tmp_path / name, pa.array(["1", text]), {"decimal128": [12, 2]})

    assert read(path)["c"].combine_chunks() == pa.array(["1", text]).cast(pa.decimal128(12, 2))


LARGE = 2**31 - 1
ITEM = {"name": "item", "type": "int8"}
NOTHING = pa.array([None, None], pa.binary(3))
NO_LISTS = pa.array([None, None], pa.list_(pa.int8()))


@pytest.mark.parametrize(
    ("name", "column", "node"),
    [
        *((name, NOTHING, {"fixed_size_binary": LARGE}) for name in NAMES),
        ("x.jsonl", NO_LISTS, {"fixed_size_list": ITEM, "size": LARGE}),
        ("x.tfrecord", NO_LISTS, {"fixed_size_list": ITEM, "size": LARGE}),
        ("x.jsonl", NO_LISTS, {"tensor": "int8", "shape": [LARGE]}),
    ],
)
def test_nulls_of_a_fixed_size(tmp_path, name, column, node):
    """A null takes as much memory as any other value of its type: two of them took 4 GiB."""
    path = rewritten(tmp_path / name, column, node)

    with pytest.raises(FerryError):
        read(path)


@pytest.mark.parametrize("name", NAMES)
def test_categories_of_a_fixed_size(tmp_path, name):
    """So do categories."""
    node = {"dictionary": {"fixed_size_binary": LARGE}, "index": "int8"}
    path = rewritten(tmp_path / name, pa.array(["1", "2"]), node, categories=[None] * 3)

    with pytest.raises(FerryError):
        read(path)


STEP = 'feature {{ name: "{0}" type: INT }}\n'
TFDS = "tensorflow_datasets.core.features."
SCHEMAS = {
    "schema.pbtxt": lambda names: "".join(map(STEP.format, names)),
    "x.tfrecord.schema.json": lambda names: json.dumps(
        {
            "version": 1,
            "features": [
                {"name": name, "kind": "int64", "shape": [], "dtype": "int64"} for name in names
            ],
        }
    ),
    "features.json": lambda names: json.dumps(
        {
            "pythonClassName": f"{TFDS}features_dict.FeaturesDict",
            "featuresDict": {
                "features": {
                    name: {
                        "pythonClassName": f"{TFDS}scalar.Scalar",
                        "tensor": {"shape": {}, "dtype": "int64", "encoding": "none"},
                    }
                    for name in names
                }
            },
        }
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_features_beside_a_record(tmp_path, name, monkeypatch):
    """A schema beside a file is counted while it is read, and no feature is made beyond it."""
    path = tmp_path / "x.tfrecord"
    ferry.save({"a": [1]}, path)
    most = 1 << 10
    monkeypatch.setattr(ferry.limits, "memory", most << 14)
    beside = tmp_path / name

    beside.write_text(SCHEMAS[name]([f"f{number}" for number in range(most)]))
    assert len(ferry.open(path).schema) == most

    beside.write_text(SCHEMAS[name]([f"f{number}" for number in range(most + 1)]))
    with pytest.raises(LimitError, match="more than 1024 features"):
        ferry.open(path).schema  # noqa: B018  # asking for it reads it


@pytest.mark.parametrize("name", ["x.jsonl", "x.csv"])
@pytest.mark.parametrize("place", ["column", "frame"])
def test_metadata_that_is_no_text(tmp_path, name, place):
    """Metadata of any bytes has no place in a schema of JSON: an error, and nothing is written."""
    is_column = place == "column"
    field = pa.field("a", pa.int32(), metadata={"k": b"\xff"} if is_column else None)
    schema = pa.schema([field], None if is_column else {"pandas": b"\xff"})
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as file, pa.ipc.new_file(file, schema) as new:
        new.write_batch(pa.record_batch([pa.array([1], pa.int32())], schema=schema))
    with pytest.raises(FerryError, match="metadata of a column is no text"):
        ferry.convert(tmp_path / "x.arrow", tmp_path / name)
    assert [one.name for one in tmp_path.iterdir()] == ["x.arrow"]
