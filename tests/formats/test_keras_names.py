"""The names of Keras that only compute: the list is as the script makes it."""

from __future__ import annotations

import importlib.util

import pytest
from conftest import ROOT

from tensorferry.formats.keras import names


@pytest.fixture(scope="module")
def script():
    """The script that makes the list."""
    place = ROOT / "tests/golden/make_keras_names.py"
    spec = importlib.util.spec_from_file_location("make_keras_names", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_list_is_whole(script):
    """What the installed Keras has for models is in the list, and nothing that is refused."""
    listed = script.read(script.PATH.read_text())
    for head, expected in script.collect().items():
        assert expected <= listed[head], head
    assert not {*script.REFUSED} & {name for held in listed.values() for name in held}


def test_every_export_is_sorted(script):
    """What Keras exports is in the list, refused with a reason, or of a package that is no part."""
    from keras.src import api_export

    listed = script.read(script.PATH.read_text())
    known = {name for held in listed.values() for name in held} | {*script.REFUSED}
    for path in api_export.REGISTERED_NAMES_TO_OBJS:
        module, _, name = path.rpartition(".")
        if names.package_of(module) in script.PACKAGES:
            assert name in known, path


def test_modules():
    """A name is of one package of Keras, under its public and its private modules."""
    assert names.is_class("Dense", "keras.layers")
    assert names.is_class("Dense", "keras.src.layers.core.dense")
    assert names.is_class("Add", "keras.src.ops.numpy")
    assert names.is_class("Functional", "keras.src.models.functional")
    assert names.is_class("Dense")
    assert names.is_class("Adam", "keras.src.backend.torch.optimizers.torch_adam")
    assert names.is_function("relu", "builtins")
    assert names.is_function("relu", "keras.activations")
    for name, module in (
        ("Dense", "keras"),
        ("Dense", "keras.utils"),
        ("Dense", "kerasx.layers"),
        ("Dense", "keras.layers..x"),
        ("Dense", "keras/layers"),
        ("Dense", "keras.src.backend.torch.optimizers.torch_adam"),
        ("Adam", "keras.src.backend.torch"),
        ("Adam", "keras.src.backend.jax.optimizers.adam"),
        ("layers.Dense", "keras"),
        ("Dense", "builtins"),
        ("", "keras.layers"),
    ):
        assert not names.is_class(name, module)
    assert not names.is_function("Dense", "keras.layers")
    assert not names.is_function("open", "builtins")
    assert not names.is_function("layers.relu")
