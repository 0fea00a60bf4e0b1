"""The shape of the project: who imports whom, and what an import costs."""

from __future__ import annotations

import json
import subprocess
import sys

from conftest import ROOT

import tensorferry as ferry
from tensorferry.formats.table import TABLE

HEAVY = (
    "tensorflow",
    "keras",
    "torch",
    "jax",
    "pyarrow",
    "h5py",
    "google.protobuf",
    "grpc",
    "ray",
    "rich",
)


def run(code: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd="/"
    ).stdout


def test_imports_go_downward():
    """The layers of ARCHITECTURE.md hold (contracts in pyproject.toml)."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)

    assert result.returncode == 0, result.stdout
    assert "4 kept, 0 broken" in result.stdout


def test_importing_loads_no_framework():
    """Neither the import nor the work on NumPy values loads a framework or the like."""
    code = """
import json, sys
import tensorferry as ferry
light = sorted(sys.modules)
import numpy as np
value = {"a": np.zeros(3), "r": ferry.RaggedTensor.from_rows([[1], []]), "s": [1, "x", b"y", None]}
for format in ("structure", "json"):
    ferry.loads(ferry.dumps(value, format=format))
ferry.tfio.parse_tensor(ferry.tfio.serialize_tensor([1.0]))
request = ferry.serving.PredictRequest("m", {"x": [1.0]})
ferry.serving.PredictRequest.from_bytes(request.to_bytes()).to_json()
print(json.dumps([light, sorted(sys.modules)]))
"""
    light, all_used = json.loads(run(code))

    assert not [name for name in HEAVY if name in all_used]
    assert "numpy" not in light


def test_public_names():
    """Every name of the public face is there, and each of them is what its home says."""
    for name in ferry.__all__:
        assert getattr(ferry, name) is not None
        assert name in dir(ferry)


def test_one_noun_in_every_place():
    """A format has a module or a folder, tests and a page of the same name."""
    for name, facts in TABLE.items():
        home = facts.home.removeprefix("tensorferry.formats.").partition(".")[0]
        assert home == name
        assert (ROOT / f"tests/formats/test_{name}.py").exists()
        assert (ROOT / f"docs/formats/{name}.md").exists()
    for source in (ROOT / "native/core").glob("*.cc"):
        assert (ROOT / f"native/fuzz/fuzz_{source.stem}.cc").exists()
