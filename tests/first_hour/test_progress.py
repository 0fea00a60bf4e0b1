"""`progress=True`, or a function, on every call that takes long."""

from __future__ import annotations

import inspect
import subprocess
import sys

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.progress import ProgressLine, TqdmBar, following


class Told:
    """A function that remembers what it was told."""

    def __init__(self):
        self.pairs = []

    def __call__(self, done, total):
        self.pairs.append((done, total))

    @property
    def last(self):
        assert self.pairs == sorted(self.pairs, key=lambda pair: pair[0])
        return self.pairs[-1]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Some tensors, and some rows."""
    monkeypatch.chdir(tmp_path)
    ferry.save({"a": np.zeros(1000), "b": np.ones((10, 10), np.float32)}, "x.npz")
    ferry.save({"id": np.arange(3000)}, "x.tfrecord")
    return tmp_path


@pytest.mark.parametrize("name", ["y.npz", "y.safetensors", "y.ckpt", "y.npy", "y.json"])
def test_save_and_load_tensors(name, files):
    """Saving tells the bytes of tensors, loading their number."""
    value = ferry.load("x.npz")
    value = value["a"] if name == "y.npy" else value
    saving, loading = Told(), Told()

    ferry.save(value, name, progress=saving)
    loaded = ferry.load(name, progress=loading)

    assert saving.last == (8000, 8000) if name == "y.npy" else (8400, 8400)
    assert loading.last == (len(loaded), len(loaded)) if name != "y.npy" else (1, 1)


@pytest.mark.parametrize("name", ["y.tfrecord", "y.parquet", "y.csv", "y.csv.gz"])
def test_save_and_load_rows(name, files):
    """Saving and loading rows tells rows, of how many where that is known."""
    saving, loading, streaming = Told(), Told(), Told()
    ferry.save(ferry.open("x.tfrecord"), name, progress=saving)
    ferry.load(name, progress=loading)
    ferry.save(({"id": number} for number in range(1000)), name, progress=streaming)

    assert saving.last == (3000, 3000)
    assert len(saving.pairs) > 2
    assert loading.last == (3000, 3000)
    assert streaming.last == (1000, None)


def test_operations(files):
    """Converting, comparing, verifying and repairing tell how far they are."""
    told = [Told() for _ in range(6)]
    ferry.convert("x.tfrecord", "y.parquet", progress=told[0])
    ferry.diff("x.tfrecord", "y.parquet", progress=told[1])
    ferry.diff("x.npz", "x.npz", progress=told[2])
    ferry.verify("y.parquet", progress=told[3])
    ferry.convert("x.npz", "y.safetensors", progress=told[4])
    ferry.repair("x.tfrecord", "z.tfrecord", progress=told[5])

    assert [one.last for one in told] == [
        (3000, 3000),
        (3000, 3000),
        (2, 2),
        (3000, 3000),
        told[4].last,
        (3000, None),
    ]
    assert told[4].last[0] == told[4].last[1]


def test_models(files):
    """Predictions tell rows; weights tell tensors and bytes."""
    predicting, saving, loading, writing = Told(), Told(), Told(), Told()
    inputs = np.zeros((10, 3), np.float32)

    ferry.predict(lambda x: x + 1, inputs, batch_size=4, progress=predicting)
    ferry.save_predictions(lambda x: x, inputs, "p.parquet", batch_size=5, progress=writing)
    model = {"w": np.zeros(3), "b": np.zeros(2)}
    ferry.save_weights(model, "w.npz", progress=saving)
    ferry.load_weights(model, "w.npz", progress=loading)

    assert predicting.pairs == [(4, None), (8, None), (10, None)]
    assert writing.pairs == [(5, None), (10, None)]
    assert saving.last == (40, None)
    assert loading.last == (2, 2)


def test_savers(files, tmp_path):
    """A saver tells what `save_weights` and `load_weights` tell."""
    model, told = {"w": np.ones((4, 4))}, []
    saver = ferry.Saver(model)
    path = saver.save(tmp_path / "run" / "m.npz", progress=lambda *how: told.append(how))
    saver.restore(path, progress=lambda *how: told.append(how))
    assert told[0][0] >= 0
    assert told[-1] == (1, 1)


def test_managers(files):
    """A manager tells the bytes that it writes, and the tensors that it restores."""
    manager = ferry.CheckpointManager({"w": np.ones((4, 4))}, "run", best=1)
    saving, latest, best = Told(), Told(), Told()
    manager.save(score=0.5, progress=saving)
    manager.restore_latest(progress=latest)
    manager.restore_best(progress=best)

    assert saving.last[0] == 128
    assert latest.last == best.last == (1, 1)


@pytest.mark.parametrize("name", ["m.keras", "m", "m.weights.h5"])
def test_whole_models(name, files):
    """Saving and loading a model tells bytes: of how many is known before it starts."""
    keras = pytest.importorskip("keras")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    saving, loading = Told(), Told()
    report = ferry.save_model(model, name, progress=saving)
    if name == "m.weights.h5":
        assert saving.last[0] == report.nbytes
        return
    ferry.load_model(name, progress=loading)

    assert saving.pairs == [(0, report.nbytes), (report.nbytes, report.nbytes)]
    done, total = loading.last
    assert done == total > report.nbytes


def test_looking(files):
    """Inspecting and counting tell rows, diagnosing tells ways, and all of them draw a bar."""
    inspecting, counting, diagnosing = Told(), Told(), Told()
    info = ferry.inspect("x.tfrecord", progress=inspecting)
    assert ferry.count("x.tfrecord", progress=counting) == info.count == 3000
    ferry.diagnose({"w": np.zeros(2)}, progress=diagnosing)

    assert inspecting.last[0] == counting.last[0] == 3000
    assert diagnosing.last[0] == diagnosing.last[1]
    assert ferry.inspect("x.npz", progress=True).count == 2


def test_opened(files):
    """The methods of rows and bundles that read everything tell how far they are, too."""
    rows, bundle = ferry.open("x.tfrecord"), ferry.open("x.npz")
    told = [Told() for _ in range(6)]
    rows.to_arrow(progress=told[0])
    rows.to_pandas(progress=told[1])
    rows.verify(progress=told[2])
    list(rows.problems(told[3]))
    rows.write_index(progress=told[4])
    bundle.value(told[5])

    assert [one.last[0] for one in told] == [3000, 3000, 3000, 3000, 1, 2]
    assert rows.to_arrow(progress=True).equals(rows.to_arrow())
    assert list(rows.problems(progress=True)) == list(bundle.problems(progress=True)) == []


def test_every_long_call():
    """Each public function takes `progress=`, or it is known why it does not have to."""
    public = {name: getattr(ferry, name) for name in ferry.__all__}
    without = {
        name
        for name, value in public.items()
        if inspect.isfunction(value) and "progress" not in inspect.signature(value).parameters
    }
    in_memory = {"dumps", "dumps_buffers", "dumps_into", "loads", "struct_format"}
    in_memory |= {"json_default", "json_object_hook"}
    at_once = {"open", "view", "latest_checkpoint", "finish"}
    in_loops_of_the_user = {"writer", "weights_callback"}

    assert without == in_memory | at_once | in_loops_of_the_user


def test_a_bar_of_tqdm(files, capsys):
    """`progress=True` draws tqdm's bar, with the name of the file and the unit."""
    ferry.convert("x.tfrecord", "y.parquet", progress=True)
    drawn = capsys.readouterr().err
    assert "y.parquet" in drawn
    assert "3000/3000" in drawn
    assert "rows/s" in drawn
    ferry.convert("x.tfrecord", "z.parquet", progress=False)
    assert capsys.readouterr().err == ""


def test_without_tqdm(files):
    """Where tqdm is not installed there is one line on a terminal, and nothing in a pipe."""
    program = """
import sys
sys.modules["tqdm"] = sys.modules["tqdm.auto"] = None
import tensorferry as ferry
ferry.verify("x.tfrecord", progress=True)
assert "tensorferry.progress" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_names_are_hostile(monkeypatch):
    """The name of a file cannot do anything to the terminal that shows it."""
    for kind in (TqdmBar, ProgressLine):
        monkeypatch.setattr(
            "tensorferry.progress._bar", lambda about, unit, kind=kind: kind(about, unit=unit)
        )
        with following(True, "a/b/\x1b[2Jevil\n", "rows") as tell:
            name = tell._bar.desc if kind is TqdmBar else tell._about
            assert "\\x1b[2Jevil\\n" in name
            assert name.isprintable()
