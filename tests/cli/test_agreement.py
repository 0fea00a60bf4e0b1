"""The command's answers about files of others agree with the libraries that made them.

Of each file of the corpus that its official library opens: names, dtypes and shapes (`ls`), values
(`show`), their range and mean (`stats`), and the digest, which is that of the same arrays in a file
that NumPy wrote (`hash`).
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from conftest import CORPUS

import tensorferry as ferry

pytestmark = pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")


def files(*endings: str) -> list[Path]:
    """The files of the corpus that end so."""
    found = CORPUS.rglob("*") if CORPUS.exists() else ()
    return sorted(path for path in found if path.is_file() and path.name.endswith(endings))


def name_of(path: Path) -> str:
    """A path as a test's name."""
    return str(path.relative_to(CORPUS)) if path.is_relative_to(CORPUS) else str(path)


def listed(call, path: Path) -> dict[str, dict]:
    """What `ls` says of each tensor, by the name that its own library has for it."""
    ran = call("ls", path, "--json")
    assert ran.code == 0, ran.err
    (found,) = json.loads(ran.out)["files"]
    tensors = {}
    for tensor in found["tensors"]:
        aliases = (tensor.get("origin") or {}).get("aliases") or [tensor["name"]]
        tensors[aliases[0].lstrip("/")] = tensor
    return tensors


def check(call, path: Path, expected: dict[str, np.ndarray], tmp_path: Path) -> None:
    """Compares all answers with arrays by name."""
    tensors = listed(call, path)
    assert set(tensors) == set(expected)
    assert len(expected) == len(tensors)
    report = json.loads(call("stats", path, "--json").out)["files"][0]
    stats = {column["name"]: column["values"] for column in report["columns"]}
    for key, array in expected.items():
        tensor = tensors[key]
        assert tuple(tensor["shape"]) == array.shape
        if tensor["unreadable"]:
            _check_unreadable(call, path, tensor)
            continue
        if array.dtype.kind in "OSU":
            assert tensor["dtype"] == "string"
            continue
        assert tensor["dtype"] == array.dtype.name
        _check_numbers(stats[tensor["name"]], array)
        _check_values(call, path, tensor["name"], array)
    if expected and all(array.dtype.kind in "biufc" for array in expected.values()):
        own = tmp_path / "numpy.npz"
        np.savez(own, **{tensors[key]["name"]: array for key, array in expected.items()})
        digests = [call("hash", given).out.split()[0] for given in (path, own)]
        assert digests[0] == digests[1]
        ran = call("diff", path, own)
        assert (ran.code, ran.out.split(":")[0]) == (0, "equal"), ran.out


def _check_unreadable(call, path: Path, tensor: dict) -> None:
    """Asking for a tensor that cannot be read says why, and so does what needs all tensors."""
    for ran in (call("show", path, tensor["name"]), call("hash", path)):
        assert ran.code == 2
        assert tensor["unreadable"] in ran.err
    assert tensor["unreadable"] in call("ls", path).out
    others = [one["name"] for one in listed(call, path).values() if not one["unreadable"]]
    assert call("hash", path, "--select", others[0]).code == 0


def _check_numbers(found: dict, array: np.ndarray) -> None:
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    wide = np.abs(wide) if array.dtype.kind == "c" else wide
    finite = wide[np.isfinite(wide)]
    assert found["count"] == array.size
    assert found["nan"] == np.isnan(wide).sum()
    assert found["zeros"] == (array == 0).sum()
    if finite.size:
        assert found["minimum"] == pytest.approx(finite.min())
        assert found["maximum"] == pytest.approx(finite.max())
        assert found["mean"] == pytest.approx(finite.mean(), rel=1e-6, abs=1e-9)
        assert found["deviation"] == pytest.approx(finite.std(), rel=1e-6, abs=1e-9)


def _check_values(call, path: Path, name: str, array: np.ndarray) -> None:
    """Two rows, and up to five columns, as a person asks for them."""
    index = ("[0:2,:5]", np.s_[0:2, :5]) if array.ndim > 1 else ("[:9]", np.s_[:9])
    text, place = index if array.ndim else ("", ())
    ran = call("show", path, f"{name}{text}", "--json")
    assert ran.code == 0, ran.err
    shown = json.loads(ran.out)["excerpt"]["values"]
    if array.dtype.kind == "c" or shown is None:
        return
    kind = np.float64 if array.dtype.kind == "f" else array.dtype
    assert np.array_equal(np.array(shown, kind).astype(array.dtype), array[place], equal_nan=True)


@pytest.mark.parametrize("path", files(".safetensors"), ids=name_of)
def test_safetensors(call, tmp_path, path):
    """As safetensors reads them."""
    from safetensors.numpy import load_file

    check(call, path, load_file(path), tmp_path)


def fields_of(name: str, array: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """The fields of a structured array, which are tensors of their own."""
    if array.dtype.names is None:
        return [(name, array)]
    return [(f"{name}/{field}", array[field]) for field in array.dtype.names]


@pytest.mark.parametrize("path", files(".npy", ".npz"), ids=name_of)
def test_numpy(call, tmp_path, path):
    """As NumPy reads them; what needs pickle is refused by both."""
    try:
        found = np.load(path, allow_pickle=False)
        expected = dict(found) if path.suffix == ".npz" else {"tensor": found}
        expected = {name: array for pair in expected.items() for name, array in fields_of(*pair)}
    except ValueError:
        assert call("hash", path).code == 2
        return
    check(call, path, expected, tmp_path)


CHECKPOINTS = [path.with_suffix("") for path in files(".index") if path.parent.name != "variables"]


@pytest.mark.parametrize("prefix", CHECKPOINTS, ids=name_of)
def test_checkpoints(call, tmp_path, tf, prefix):
    """As TensorFlow reads them."""
    reader = tf.train.load_checkpoint(str(prefix))
    expected = {name: np.asarray(reader.get_tensor(name)) for name in _tensors_of(reader)}
    check(call, prefix, expected, tmp_path)
    assert call("verify", prefix).code == 0


def _tensors_of(reader) -> list[str]:
    return [n for n in reader.get_variable_to_shape_map() if n != "_CHECKPOINTABLE_OBJECT_GRAPH"]


MODELS = [path.parent for path in files("saved_model.pb", "saved_model.pbtxt")]


@pytest.mark.parametrize("path", MODELS, ids=name_of)
def test_saved_models(call, tmp_path, tf, path):
    """The variables that TensorFlow finds; what it cannot open is an error here, or has none."""
    try:
        reader = tf.train.load_checkpoint(str(path / "variables" / "variables"))
        expected = {name: np.asarray(reader.get_tensor(name)) for name in _tensors_of(reader)}
    except (tf.errors.OpError, ValueError, RuntimeError):
        assert call("ls", path).code in (0, 2)
        return
    numbers = {name: array for name, array in expected.items() if array.dtype.kind != "O"}
    tensors = listed(call, path)
    assert len(tensors) >= len(numbers)
    check(call, path / "variables" / "variables", expected, tmp_path)


@pytest.mark.parametrize("path", files(".h5", ".hdf5"), ids=name_of)
def test_hdf5(call, path):
    """Datasets of files that Keras did not write are as h5py reads them, or refused."""
    h5py = pytest.importorskip("h5py")
    ran = call("ls", path, "--json")
    if ran.code == 2:
        assert len(ran.err.splitlines()) <= 3
        return
    with h5py.File(path) as file:
        for name, tensor in listed(call, path).items():
            if tensor["unreadable"]:
                assert tensor["unreadable"] in call("show", path, tensor["name"]).err
                continue
            assert tuple(tensor["shape"]) == file[name].shape
            _check_values(call, path, tensor["name"], file[name][()])


RECORDS = [path for path in files("") if ".tfrecord" in path.name and "gz" not in path.name]


@pytest.mark.parametrize("path", RECORDS, ids=name_of)
def test_records(call, tf, path):
    """The number of records, the names of features, and every integer as TensorFlow has them."""
    records = [record.numpy() for record in tf.data.TFRecordDataset(str(path))]
    (found,) = json.loads(call("info", path, "--json").out)["files"]
    assert found["count"] == len(records)
    # An Example is a SequenceExample whose context is all there is.
    examples = [tf.train.SequenceExample.FromString(record) for record in records]
    names = {name for example in examples for name in example.context.feature}
    names |= {name for example in examples for name in example.feature_lists.feature_list}
    if not names or found["notes"]:
        return
    assert {tensor["name"] for tensor in found["tensors"]} == names
    report = json.loads(call("stats", path, "--json").out)["files"][0]
    for column in report["columns"]:
        lists = [example.context.feature[column["name"]].int64_list.value for example in examples]
        values = [value for one in lists for value in one]
        if column["dtype"] == "int64" and values:
            assert column["values"]["count"] == len(values)
            assert (column["values"]["minimum"], column["values"]["maximum"]) == (
                min(values),
                max(values),
            )


ARROW = [path for path in files(".arrow_file", ".stream") if "bigendian" not in str(path)]


@pytest.mark.parametrize("path", ARROW, ids=name_of)
def test_arrow(call, path):
    """The columns and the number of rows that PyArrow finds, and the values of the integers."""
    from pyarrow import ipc

    opener = ipc.open_file if path.name.endswith("file") else ipc.open_stream
    with opener(str(path)) as reader:
        table = reader.read_all()
    ran = call("info", path, "--json")
    if ran.code == 2:
        assert "hint" in ran.err
        return
    (found,) = json.loads(ran.out)["files"]
    assert found["count"] == table.num_rows
    assert {tensor["name"].split("/")[0] for tensor in found["tensors"]} == set(table.column_names)
    rows = [json.loads(line) for line in call("cat", path).out.splitlines()]
    for name in table.column_names:
        if str(table.schema.field(name).type).startswith(("int", "uint")):
            assert [row[name] for row in rows] == table[name].to_pylist()


def test_something_was_compared():
    """The corpus has files of every kind that is compared here."""
    for found in (files(".safetensors"), files(".npy"), CHECKPOINTS, MODELS, RECORDS, ARROW):
        assert found
    assert ferry.inspect(CHECKPOINTS[0]).count


@pytest.mark.parametrize("path", files(".parquet", ".parq"), ids=name_of)
def test_rows_of_tables(call, path):
    """`info` counts the rows of Parquet files as PyArrow does; `cat` has the values it has."""
    import pyarrow.parquet as pq

    (info,) = json.loads(call("info", path, "--json").out)["files"]
    assert info["count"] == pq.read_metadata(path).num_rows
    ran = call("cat", path)
    if ran.code:  # what cannot be read says so
        assert "ferry: " in ran.err
        return
    rows = [json.loads(line) for line in ran.out.splitlines()]
    flat = [field.name for field in pq.read_schema(path) if field.type.num_fields == 0]
    names = [name for name in flat if rows and name in rows[0]]
    for row, expected in zip(rows, pq.read_table(path, columns=names).to_pylist(), strict=True):
        for name in names:
            value = expected[name]
            value = str(value) if isinstance(value, Decimal) else value
            assert row[name] == (value.isoformat() if hasattr(value, "isoformat") else value)


def test_a_terminal_has_the_data_of_a_pipe(call):
    """What a terminal shows of rows is what a pipe has: the same rows, columns and values."""
    from commands import run_on_terminal

    path = CORPUS / "tfx/penguin/data/Split-train/data_tfrecord-00000-of-00001.gz"
    rows = [json.loads(line) for line in call("head", path).out.splitlines()]
    head, *lines = run_on_terminal("head", path, columns=200, NO_COLOR="1").out.splitlines()

    assert head.split() == list(rows[0])
    for line, row in zip(lines, rows, strict=True):
        assert [float(cell) for cell in line.split()] == pytest.approx(list(row.values()), rel=1e-5)
