"""The programs in docs/clusters.md that need another package: they run where it is installed."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
from conftest import ROOT

import tensorferry as ferry

PAGE = (ROOT / "docs/clusters.md").read_text()


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    """The files that the page has written, in the folder of the program."""
    monkeypatch.chdir(tmp_path)
    columns = {"id": np.arange(2000), "x": np.ones((2000, 8), np.float32)}
    with ferry.writer("train@4.tfrecord") as out:
        out.write_batch(columns)


def run(mark):
    (program,) = re.findall(rf"```py{mark}\n(.*?)```", PAGE, re.DOTALL)
    # As the main module, whose functions are pickled by value.
    exec(compile(program, "clusters.md", "exec"), {"__name__": "__main__"})


def test_ray(tmp_path, monkeypatch, ray_cluster):
    """The program for Ray Data reads and writes; its paths are those of every node."""
    program = PAGE.replace('"train@4', f'"{tmp_path}/train@4').replace('"sums', f'"{tmp_path}/sums')
    monkeypatch.setitem(globals(), "PAGE", program)
    run("")

    rows = ferry.open(f"{tmp_path}/sums.parquet@*")
    assert len(rows) == 2000
    assert rows[0]["sum"] == 8


@pytest.mark.parametrize("package", ["datasets", "dask", "pyspark"])
def test_others(package, monkeypatch, tmp_path):
    """The same splits become frames of other libraries."""
    pytest.importorskip("dask.dataframe" if package == "dask" else package)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # whichever python3 the PATH has
    run(f" {package}")
