"""Every module in the table of frameworks keeps the contracts that the table gives it."""

import inspect
import os
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tensorferry.frameworks import contract, table

KEPT = [
    pytest.param(kept, name, home, id=f"{kept.__name__}-{name}")
    for kept, homes in table.HOMES.items()
    for name, home in homes.items()
]
# PyTorch and JAX are extras of the tests; TensorFlow and Keras have to be there.
OPTIONAL = ("torch", "jax")


def load(name, home):
    if name in OPTIONAL:
        pytest.importorskip(name)
    return import_module(f"tensorferry.frameworks.{home}")


def verbs(kept):
    """The functions that a contract declares."""
    return {
        name: one
        for name, one in vars(kept).items()
        if inspect.isfunction(one) and not name.startswith("_")
    }


def shape_of(function, *, skip_self=False):
    """The parameters of a function by name, kind and default."""
    parameters = list(inspect.signature(function).parameters.values())
    return [(one.name, one.kind, one.default) for one in parameters[1 if skip_self else 0 :]]


@pytest.mark.parametrize(("kept", "name", "home"), KEPT)
def test_module_keeps_contract(kept, name, home):
    """A module has each function of its contract, with the same parameters and defaults."""
    module = load(name, home)

    assert isinstance(module, kept)
    for verb, declared in verbs(kept).items():
        found = vars(module)[verb]
        assert shape_of(found) == shape_of(declared, skip_self=True), verb


@pytest.mark.parametrize(("kept", "name", "home"), KEPT)
def test_home_exists(kept, name, home):
    """A home is a module of this package, whether or not its framework is installed."""
    assert find_spec(f"tensorferry.frameworks.{home}") is not None


def test_contracts_have_functions():
    """No contract is empty, which every module would keep."""
    assert all(verbs(kept) for kept in table.HOMES)


def test_a_module_that_lacks_a_function_is_refused(monkeypatch):
    """Loading checks the contract, so that a missing function is found there and not at its use."""
    module = load("tensorflow", "tensorflow.objects")
    monkeypatch.delattr(module, "object_paths")
    table.objects.cache_clear()

    with pytest.raises(AssertionError):
        table.objects()

    monkeypatch.undo()
    assert table.objects() is module


@pytest.mark.parametrize("name", table.NAMES)
def test_origin_and_restore(name):
    """A tensor comes back by its origin, of which a framework without any makes nothing."""
    if name in OPTIONAL:
        pytest.importorskip(name)
    framework = table.tensors(name)
    tensor = framework.from_value(np.arange(3, dtype=np.float32))
    origin = framework.origin(tensor)

    assert (origin == {}) == (name in OPTIONAL)
    again = framework.restore(framework.to_value(tensor), origin)
    np.testing.assert_array_equal(framework.to_value(again), [0, 1, 2])


@pytest.mark.parametrize("name", table.HOMES[contract.Variables])
def test_plain_values_are_nobodys(name):
    """What is no tensor, variable or model of a framework is not taken for one."""
    if name in OPTIONAL:
        pytest.importorskip(name)
    variables = table.variables(name)

    for value in (1, "a", object(), [1], np.zeros(2), type):
        assert not variables.is_variable(value)
        assert not variables.is_model(value)


def test_the_table_imports_nothing():
    """Importing the table, the contracts and the walk over models imports no framework."""
    program = """
import sys
import tensorferry.frameworks.table as table, tensorferry.frameworks.variables
import tensorferry.weights.saving, tensorferry.models.saving, tensorferry.diagnosis.diagnose
used = {name for homes in table.HOMES.values() for name in homes} & set(sys.modules)
sys.exit(", ".join(sorted(used)) or 0)
"""
    subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_one_place_imports():
    """Only the table loads modules of frameworks by name."""
    folder = Path(table.__file__).parent
    found = [file.name for file in folder.rglob("*.py") if "import_module" in file.read_text()]

    assert found == ["table.py"]
