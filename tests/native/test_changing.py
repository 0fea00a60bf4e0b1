"""Columns that change while they are written, and arrays that lie at odd addresses."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry import _native


def misaligned(array):
    """The same values at an address that is odd."""
    memory = np.zeros(array.nbytes + 16, np.uint8)
    offset = 1 if memory.ctypes.data % 2 == 0 else 2
    view = memory[offset : offset + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    assert not view.flags.aligned
    return view


CHANGING = """
import sys, threading
import numpy as np
from tensorferry import _native

kind = sys.argv[1]
rows = 2000
encoder = _native.ExampleEncoder()
stop = False
if kind == "integers":
    values = np.ones((rows, 100), np.int64)
    source = ("a", 3, False, values, None, 100, None, None)
    def change():
        while not stop:
            values[:] = -1
            values[:] = 1
elif kind == "splits":
    values, splits = np.ones(rows, np.int64), np.arange(rows + 1)
    source = ("a", 3, False, values, splits, 0, None, None)
    def change():
        while not stop:
            splits[1:-1] = 1 << 40
            splits[1:-1] = np.arange(1, rows)
elif kind == "row splits":
    values, splits = np.ones(rows, np.int64), np.arange(rows + 1)
    source = ("a", 3, True, values, None, 1, splits, None)
    def change():
        while not stop:
            splits[1:-1] = 1 << 40
            splits[1:-1] = np.arange(1, rows)
elif kind == "missing":
    values, missing = np.ones(rows, np.int64), np.zeros(rows, np.uint8)
    source = ("a", 3, False, values, None, 1, None, missing)
    def change():
        while not stop:
            missing[:] = 1
            missing[:] = 0
elif kind == "strings":
    values = np.array([b"x" * 200] * rows, object)
    source = ("a", 1, False, values, None, 1, None, None)
    def change():
        while not stop:
            for row in range(0, rows, 7):
                values[row] = bytes(row + 1)
else:
    values = [b"%d" % row * 50 for row in range(rows)]
    source = ("a", 1, False, values, None, 1, None, None)
    def change():
        while not stop:
            values.clear()
            values.extend(b"%d" % row * 50 for row in range(rows))
thread = threading.Thread(target=change)
thread.start()
sys.setswitchinterval(1e-5)
outcomes = set()
for _ in range(20_000 if kind == "integers" else 150):
    if any(outcome is not True for outcome in outcomes):
        break
    try:
        encoder.prepare([source], rows)
        data = encoder.encode(0, rows)
        outcomes.add(_native.tfrecord_scan(data, 0, 1 << 60, True)[0] == rows)
        encoder.encode_pieces(0, rows, 1 << 14, 1, lambda view: None)
    except (RuntimeError, ValueError) as error:
        outcomes.add(str(error))
stop = True
thread.join()
encoder.prepare([source], rows)
assert _native.tfrecord_scan(encoder.encode(0, rows), 0, 1 << 60, True)[0] == rows
print(sorted(map(str, outcomes)))
"""


@pytest.mark.parametrize(
    ("kind", "errors"),
    [
        ("integers", {"column 'a' changed while it was written"}),
        ("splits", {"splits that fall", "list splits end elsewhere than the values"}),
        ("row splits", {"splits that fall"}),
        ("missing", set()),
        ("strings", set()),
        ("list", {"other than so many values a list"}),
    ],
)
def test_another_thread_changes_it(kind, errors):
    """Another thread may change a column: there is an error, or sound records, and no crash."""
    run = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", CHANGING, kind],
        capture_output=True,
        text=True,
        timeout=600,
        env={
            **os.environ,  # a module with a sanitizer needs what was loaded before Python
            "MALLOC_PERTURB_": "85",
            "MALLOC_CHECK_": "3",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
    )

    assert (run.returncode, run.stderr) == (0, "")
    outcomes = set(eval(run.stdout))
    assert outcomes <= errors | {"True"}
    assert kind != "integers" or errors <= outcomes


@pytest.mark.parametrize("dtype", [np.int64, np.float32, object])
def test_misaligned_columns(tmp_path, dtype):
    """Arrays at odd addresses are written as others are."""
    column = np.array([b"%d" % i for i in range(1000)], object)
    if dtype is not object:
        column = (np.arange(1000) - 500).astype(dtype)
        odd = misaligned(column)
    else:  # a field of a packed record
        record = np.zeros(1000, np.dtype([("x", np.uint8), ("y", object)]))
        record["y"] = column
        odd = record["y"]
        assert not odd.flags.aligned
    path = tmp_path / "x.tfrecord"
    with ferry.writer(path, durable=False) as writer:
        writer.write_batch({"a": odd})

    assert (ferry.load(path)["a"] == column).all()


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.float64, np.complex128])
def test_misaligned_tensors(dtype):
    """Arrays at odd addresses are dumped as others are, and splits and indices may lie so, too."""
    array = np.arange(24).astype(dtype).reshape(4, 6)

    assert (ferry.loads(ferry.dumps(misaligned(array))) == array).all()
    ragged = ferry.RaggedTensor(misaligned(array), (misaligned(np.array([0, 1, 4])),))
    assert (ferry.loads(ferry.dumps(ragged)).flat_values == array).all()


NO_BYTES = """
import sys
import numpy as np
import tensorferry as ferry

with ferry.writer(sys.argv[1]) as out:
    out.write({"a": 1})
    for array in (np.zeros(3, "V0"), np.empty(2, np.dtype([])), np.zeros(0, "V0"), np.void(b"")):
        try:
            out.write({"a": array})
        except (ferry.UnsupportedError, TypeError, ValueError) as error:
            print(type(error).__name__)
"""


def test_values_of_no_bytes(tmp_path):
    """An array of a dtype of no bytes is refused; nothing is divided by its size."""
    path = str(tmp_path / "x.tfrecord")
    command = [sys.executable, "-X", "faulthandler", "-c", NO_BYTES, path]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)

    assert (run.returncode, run.stderr) == (0, "")
    assert len(run.stdout.split()) == 4
    assert len(ferry.load(path)["a"]) == 1


def test_odd_frames():
    """Frames are read at any address."""
    encoder = _native.ExampleEncoder()
    encoder.prepare([("a", 3, False, misaligned(np.arange(100)), None, 1, None, None)], 100)
    data = bytes(encoder.encode(0, 100))
    decoder = _native.ExampleDecoder([("a", 3, False, True, 1)])
    for offset in range(8):
        memory = bytes(offset) + data
        decoder.clear()
        decoder.decode(memory, offset, 100, True)
        values = misaligned(np.zeros(100, np.int64))
        decoder.copy_values(0, values)
        assert values.tolist() == list(range(100))
        splits = misaligned(np.zeros(101, np.int64))
        decoder.copy_list_splits(0, splits)
        assert splits.tolist() == list(range(101))


def test_rows_of_a_table_from_anywhere():
    """Ragged rows at odd addresses, strided, of every width, are laid out as others are."""
    values = np.arange(24).reshape(12, 2)
    rows = (misaligned(np.array([0, 3, 3, 12])),)
    wanted = ferry.RaggedTensor(values, rows).to_dense(-1)
    assert wanted.shape == (3, 9, 2)
    assert wanted[0, :4].tolist() == [[0, 1], [2, 3], [4, 5], [-1, -1]]

    assert (ferry.RaggedTensor(misaligned(values), rows).to_dense(-1) == wanted).all()
    strided = np.repeat(values, 2, axis=1)[:, ::2]
    assert (ferry.RaggedTensor(strided, rows).to_dense(-1) == wanted).all()
    assert (ferry.RaggedTensor(values, rows).pad_to(2, -1) == wanted[:, :2]).all()


@pytest.mark.parametrize("splits", [[0, 5], [3, 2, 4], [-1, 2], [0, 1 << 62], [1 << 62, 1 << 62]])
def test_splits_that_lead_out(splits):
    """Splits that fall, or lead out of the values, are refused: no byte is read outside."""
    lines = np.zeros((len(splits) - 1) * 64, np.uint8)
    with pytest.raises(ferry.FormatError):
        _native.lay_out_rows(np.arange(4), np.array(splits), bytes(8), lines)
    assert not lines[-8:].any()
