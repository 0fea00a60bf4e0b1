"""Diagnosis of PyTorch's modules, where it is installed; the picklers decide."""

from __future__ import annotations

import pickle
import threading
import tracemalloc

import cloudpickle
import pytest

import tensorferry as ferry

torch = pytest.importorskip("torch")

DUMPS = {"pickle": pickle.dumps, "cloudpickle": cloudpickle.dumps}


class Net(torch.nn.Module):
    def __init__(self, units, part=None):
        super().__init__()
        self.units = units
        self.layers = torch.nn.ModuleList([torch.nn.Linear(units, units) for _ in range(2)])
        self.part = part


class Box:
    def __init__(self, held):
        self.held = held


def hooked():
    model = Net(2)
    model.handle = model.layers[0].register_forward_hook(lambda *inputs: None)
    return model


CASES = {
    "plain": (lambda: Net(2), None, set()),
    "lock": (lambda: Net(2, threading.Lock()), "model.part", {"pickle", "cloudpickle"}),
    "lambda": (lambda: Net(2, lambda x: x), "model.part", {"pickle"}),
    "hook": (
        hooked,
        "model._modules['layers']._modules['0']._forward_hooks[{}]",
        {"pickle"},
    ),
    "generator": (lambda: Net(2, torch.Generator()), "model.part", {"pickle", "cloudpickle"}),
    "hidden": (lambda: Net(2, Box(torch.ones(2))), None, set()),
}


@pytest.mark.parametrize("name", CASES)
def test_picklers(name):
    """The attribute that is named is the one, and the picklers do what the report says."""
    make, path, _ = CASES[name]
    model = make()
    report = ferry.diagnose(model)

    for way, dumps in DUMPS.items():
        try:
            dumps(model)
            found = "keeps"
        except Exception:
            found = "fails"
        assert report.ways[way].verdict == found
        blamed = [row.path for row in report.troubles if way in row.reasons]
        assert bool(blamed) == (found == "fails")
        if blamed and name == "hook":
            assert "_forward_hooks" in blamed[0]
        elif blamed:
            assert blamed == [path]
    for row in report.attributes:
        eval(row.path, {"model": model})
    assert report.ways["weights"].verdict == ("drops" if name == "hidden" else "keeps")
    assert report.ways["keras"].verdict == "inapplicable"


def test_recipe(tmp_path):
    """A module is rebuilt with its weights."""
    model = Net(3, threading.Lock())
    program: dict = {}
    exec(str(ferry.diagnose(model).recipe), program)
    path = str(tmp_path / "net.safetensors")
    program["save"](model, path)
    result = program["rebuild"](path)

    assert result.units == 3
    assert torch.equal(result.layers[1].weight, model.layers[1].weight)


def test_large():
    """Parameters are not copied."""
    model = Net(1 << 13, threading.Lock())
    tracemalloc.start()
    report = ferry.diagnose(model)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert report["model.part"].verdicts["pickle"] == "fails"
    assert peak < 20e6
