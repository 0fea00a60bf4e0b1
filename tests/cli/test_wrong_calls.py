"""Wrong calls: what a person types by mistake is answered with what to type instead."""

from __future__ import annotations

import numpy as np
import pytest

import tensorferry as ferry


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a model and rows, which is the current one."""
    monkeypatch.chdir(tmp_path)
    ferry.save({"encoder/kernel": np.zeros((4, 8)), "encoder/bias": np.zeros(8)}, "model.npz")
    rows = {"id": np.arange(40), "label": np.arange(40) % 5}
    ferry.save(rows, "train.parquet", rows=True)
    ferry.save(rows, "train.arrow", rows=True)
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("heda train.parquet", "hint: did you mean `ferry head`?"),
        ("head train.parquet --colums id", "hint: did you mean --columns?"),
        ("head train.parquet train.arrow", "in quotes, a pattern is one input"),
        ("head train.parquet 5", "found 5\nhint: as in `ferry head train.parquet`"),
        ("head", "missing argument 'PATH'\nhint: as in `ferry head train.parquet`"),
        ("head train.parquet -n x", "'x' is no whole number\n"),
        ("head trian.parquet", "hint: did you mean 'train.parquet'?"),
        ("head train-*.parquet", "hint: did you mean 'train.parquet'?"),
        ("info model.safetensors", "hint: did you mean 'model.npz'?"),
        ("info empty", "empty: the folder is empty"),
        ("ls model.npz -s encodr/*", "no tensor fits 'encodr/*'\nhint: did you mean 'encoder/"),
        ("stats model.npz kernel", "hint: `-s kernel` chooses tensors or columns by name"),
        ("show encoder/kernel model.npz", "hint: `ferry show model.npz encoder/kernel`"),
        ("convert model.npz empty", "empty is a directory\nhint: say the format"),
        ("convert model.npz model.npz", "--force replaces it\n"),
        ("diff train.parquet train.arrow --key idd", "hint: did you mean 'id'?"),
        ("slice train.parquet 0:10", "hint: `ferry slice train.parquet OUT 0:10`"),
        ("slice train.parquet -5: o.arrow", "hint: `ferry slice train.parquet o.arrow -5:`"),
        ("split train.parquet a.arrow b.arrow --ratio 0.9", "1 part for 2 files"),
        ("repair train.parquet o.tfrecord", "hint: `ferry info train.parquet` says what it is"),
        ("completion", "'{bash|zsh|fish}': bash, zsh, fish\nhint: as in"),
    ],
)
def test_answers(call, folder, line, answer):
    """The answer to a mistake says on one line what to type instead; nothing is written."""
    before = sorted(path.name for path in folder.iterdir())
    ran = call(*line.split())

    assert ran.code == 2
    assert answer in ran.err
    assert len(ran.err.splitlines()) <= 2
    assert sorted(path.name for path in folder.iterdir()) == before
