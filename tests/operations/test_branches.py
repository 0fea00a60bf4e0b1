"""Branches: every tensor is in the tree once, and alike layers stand together."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from tensorferry.operations.branches import branches, layer_grid
from tensorferry.tensors.infos import TensorInfo


def infos(*names, nbytes=4):
    return [TensorInfo(name, "float32", (1,), nbytes) for name in names]


def leaves(found):
    for branch in found:
        if branch.tensor is not None:
            yield branch.tensor
        yield from leaves(branch.below)


@settings(max_examples=60)
@given(st.lists(st.text("ab01./ ", max_size=8), unique=True, max_size=30))
def test_each_tensor_once(names):
    """Whatever the names are, each tensor is a leaf, and counts and sizes add up."""
    found = branches(infos(*names))

    assert sorted(leaves(found)) == list(range(len(names)))
    assert sum(branch.tensors for branch in found) == len(names)
    assert sum(branch.nbytes for branch in found) == 4 * len(names)


def test_alike_layers():
    """Layers that differ in their number only are one branch, which can be opened."""
    names = [f"model.layers.{n}.{part}" for n in range(12) for part in ("norm", "up.weight")]
    (root,) = branches(infos(*names, "model.head"))[:1]
    layers, head = root.below

    assert (root.name, layers.name, head.name) == ("model.", "layers.{0..11}.", "head")
    assert layers.alike
    assert (len(layers.below), layers.tensors) == (12, 24)
    assert [each.name for each in layers.below] == [f"{n}." for n in range(12)]
    assert [each.name for each in layers.below[3].below] == ["norm", "up.weight"]


def test_a_name_that_is_also_a_branch():
    """A tensor "a" beside "a.b" hides nothing."""
    found = branches(infos("a", "a.b", "a.", "a. "))

    assert sorted(leaves(found)) == [0, 1, 2, 3]


def test_grid_of_layers():
    """Layers down in their order, parts across; what is there once is left out."""
    names = [f"block.{n}.{part}" for n in (10, 9, 2) for part in ("w", "b")] + [
        "block.2.extra",
        "head",
    ]
    found = layer_grid(names)

    assert found.rows == ("block.2", "block.9", "block.10")
    assert found.columns == (".w", ".b")
    assert found.cells == ((4, 5), (2, 3), (0, 1))
    assert layer_grid(["a", "b"]).rows == ()
    assert len(layer_grid(f"x{n}.{k}" for n in range(300) for k in range(60)).rows) == 200


def test_numbers_of_thousands_of_digits():
    """They are texts, which no range stands for."""
    names = ["a.5.x", "a.6.x", f"a.{'1' * 5000}.x", f"a.{'2' * 5000}.x", f"a.{'3' * 5000}.x"]

    assert sorted(leaves(branches(infos(*names)))) == list(range(len(names)))
