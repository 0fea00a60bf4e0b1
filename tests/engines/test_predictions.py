"""Predictions over files: models of every kind, shards that appear together, runs that go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from engines.conftest import ROWS, TASK

import tensorferry as ferry
from tensorferry.engines import Local, Ray

HERE = Local(workers=2, task_size=TASK)


def add(x):
    """A model: the sums of rows."""
    return {"sum": x.sum(1)}


@pytest.fixture(scope="module")
def numbers(records):
    """The column of all numbers, by id."""
    with ferry.open(records) as rows:
        return dict(zip(rows.column("id").tolist(), rows.column("x"), strict=True))


def check(path, numbers, name="sum"):
    """Each id once, and the sum of its numbers beside it."""
    found = ferry.load(path)
    assert sorted(found["id"].tolist()) == list(range(ROWS))
    wanted = np.array([numbers[one].sum() for one in found["id"].tolist()])
    np.testing.assert_allclose(found[name].reshape(-1), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["pred.parquet", "pred.tfrecord", "pred@5.arrow", "pred.npz"])
def test_formats(records, numbers, tmp_path, name):
    """Files of rows are written in shards, one a task, and others as a whole."""
    report = ferry.save_predictions(
        add, records, tmp_path / name, keep=("id",), batch_size=100, engine=HERE
    )
    target = name if name.endswith("npz") else "pred*"

    assert len(list(tmp_path.iterdir())) == max(len(report.files), 1)
    assert ("@5" in name) == (len(report.files) == 5)
    check(tmp_path / target, numbers)


def test_one_file(records, numbers, tmp_path):
    """Inputs of one task make one file, of the name that was asked for."""
    report = ferry.save_predictions(
        add, ferry.open(records), tmp_path / "pred.parquet", keep=("id",), engine="local"
    )

    assert [path.name for path in tmp_path.iterdir()] == ["pred.parquet"]
    assert (report.rows, report.files) == (ROWS, (str(tmp_path / "pred.parquet"),))
    check(tmp_path / "pred.parquet", numbers)


@pytest.fixture
def saved(request, tf, s3):
    """A model in a store: a SavedModel or a Keras file."""
    module = tf.Module()
    module.scale = tf.Variable(1.0)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x")])
    def call(x):
        return {"sum": tf.reduce_sum(x * module.scale, 1)}

    module.__call__ = call
    ferry.save_model(module, s3.url("model"), signatures={"serving_default": call})
    return s3.url("model")


def test_saved_model(saved, records, numbers, s3, machines, tmp_path):
    """A SavedModel in a store is loaded by each worker, which gives it the columns it takes."""
    report = ferry.save_predictions(
        saved,
        records,
        s3.url("out/pred.parquet"),
        keep=("id",),
        batch_size=256,
        engine=Ray(task_size=1 << 20),
    )

    assert report.rows == ROWS
    check(s3.url("out/pred.parquet"), numbers)


def test_keras_file(tf, records, numbers, tmp_path):
    """A .keras file is a model, too."""
    import keras

    dense = keras.layers.Dense(1, kernel_initializer="ones", use_bias=False)
    model = keras.Sequential([keras.Input((3,), name="x"), dense])
    model.save(tmp_path / "model.keras")
    ferry.save_predictions(
        tmp_path / "model.keras",
        ferry.open(records, columns=["x", "id"]),
        tmp_path / "pred.tfrecord",
        keep=("id",),
        engine=Local(workers=1),
    )
    name = next(name for name in ferry.open(tmp_path / "pred.tfrecord").columns if name != "id")

    check(tmp_path / "pred.tfrecord", numbers, name)


def test_factory(records, numbers, tmp_path):
    """A class, or a function without arguments, makes the model on the worker."""
    torch = pytest.importorskip("torch")
    made = []

    class Adding(torch.nn.Module):
        def __init__(self):
            super().__init__()
            made.append(self)

        def forward(self, x):
            return {"sum": x.sum(1)}

    for number, factory in enumerate((Adding, lambda: Adding().eval())):
        target = tmp_path / f"{number}.parquet"
        ferry.save_predictions(
            factory, records, target, keep=("id",), engine=Local(workers=1, task_size=TASK)
        )
        check(f"{target}@*", numbers)
    assert len(made) == 2


def test_predict(records, numbers):
    """Without a file, the outputs come back together, in the order of the rows."""
    found = ferry.predict(add, records, keep=("id",), engine=HERE)

    assert found["id"].tolist() == ferry.open(records).column("id").tolist()
    np.testing.assert_allclose(found["sum"][5], numbers[found["id"][5]].sum(), rtol=1e-5)


def test_failures(tmp_path):
    """Rows that cannot be read are left out if that is asked for, and the report names them."""
    path = tmp_path / "in.tfrecord"
    with ferry.writer(path) as out:
        for number in range(500):
            out.write({"id": number, "x": np.ones(3, "f4")})
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data)
    rows = ferry.open(path, on_error="skip")
    report = ferry.save_predictions(
        add, rows, tmp_path / "pred.parquet", keep=("id",), engine=Local(task_size=5000)
    )

    assert report.rows == 499
    assert [problem.path for problem in report.failures] == [str(path)]
    assert report.failures[0].offset is not None


def test_inputs_are_files(tmp_path):
    """Arrays are refused with an engine, which reads files."""
    with pytest.raises(ferry.UnsupportedError, match="files of rows"):
        ferry.save_predictions(add, np.ones((3, 3)), tmp_path / "x.parquet", engine="local")


DRIVER = """
import os, sys, time
import tensorferry as ferry

def model(x):
    time.sleep(0.1)
    with open("called", "a") as file:
        file.write(f"{len(x)}\\n")
    return {"sum": x.sum(1)}

report = ferry.save_predictions(
    model, sys.argv[1], "out/pred.parquet", keep=("id",), batch_size=int(sys.argv[2]),
    engine=ferry.engines.Local(workers=2, task_size=20_000),
)
print(report.rows, report.resumed, len(report.files))
"""


def test_driver_dies(records, numbers, tmp_path):
    """When the driver is killed, the same call does only what is not done; another starts anew."""
    (tmp_path / "predict.py").write_text(DRIVER)
    command = [sys.executable, "predict.py", records]
    notes = tmp_path / "out" / ".pred.parquet.ferry-parts"

    def killed(size, least):
        first = subprocess.Popen([*command, size], cwd=tmp_path)
        deadline = time.monotonic() + 60
        while len(list(notes.glob("*-of-*.json"))) < least and time.monotonic() < deadline:
            time.sleep(0.01)
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert not list((tmp_path / "out").glob("pred*"))
        return len(list(notes.glob("*-of-*.json")))

    def finished(size):
        os.unlink(tmp_path / "called")
        run = subprocess.run(
            [*command, size], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        called = sum(map(int, (tmp_path / "called").read_text().split()))
        return called, *map(int, run.stdout.split())

    done = killed("300", 3)
    called, rows, resumed, files = finished("300")
    assert rows == ROWS
    assert done <= resumed < files
    assert called < ROWS * (files - resumed + 1) / files
    assert sorted(os.listdir(tmp_path / "out")) == sorted(
        f"pred.parquet-{number:05}-of-{files:05}" for number in range(files)
    )
    check(tmp_path / "out" / "pred*", numbers)

    for path in Path(tmp_path / "out").glob("pred*"):
        path.unlink()
    killed("300", 2)
    called, rows, resumed, _ = finished("250")
    assert (called, rows, resumed) == (ROWS, ROWS, 0)


def test_damaged_part(records, tmp_path):
    """A file of an earlier run whose bytes are not what its note says is written again."""
    from tensorferry.storage.staging import Stage, staged

    names = [str(tmp_path / "x-00000-of-00002"), str(tmp_path / "x-00001-of-00002")]

    def write(stage: Stage):
        for name in names:
            Path(stage.path(name)).write_bytes(b"content of " + name.encode())
            stage.finish(name, {"rows": 1})

    with pytest.raises(KeyError), staged(str(tmp_path / "x"), names, plan={}, keep=True) as stage:
        write(stage)
        raise KeyError
    Path(stage.path(names[0])).write_bytes(b"other bytes")
    with staged(str(tmp_path / "x"), names, plan={}, keep=True) as stage:
        assert stage.finished(names[0]) is None
        assert stage.finished(names[1]) == {"rows": 1}
        write(stage)

    assert sorted(os.listdir(tmp_path)) == ["x-00000-of-00002", "x-00001-of-00002"]
