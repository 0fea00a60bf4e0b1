"""Which tensor is meant for which variable."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tensorferry.weights.matching import Named, fits, is_training_state, match, split_name

WORDS = st.sampled_from(
    ["encoder", "decoder", "dense", "dense_1", "block_7", "attention", "0", "1"]
)
LEAVES = st.sampled_from(["kernel", "bias", "gamma", "beta", "w"])
NAMES = st.lists(
    st.tuples(st.lists(WORDS, max_size=3), LEAVES).map(
        lambda parts: "/".join([*parts[0], parts[1]])
    ),
    min_size=1,
    max_size=12,
    unique_by=split_name,
)
SHAPE_LISTS = st.lists(st.sampled_from([(4, 3), (3,), (4, 4), (4,)]), min_size=12, max_size=12)


def named(names, shapes=None, automatic=()):
    """One for each name."""
    shapes = shapes or [(4, 3)] * len(names)
    return [
        Named(name, (name,), shape, frozenset(automatic))
        for name, shape in zip(names, shapes, strict=False)
    ]


@given(NAMES, SHAPE_LISTS, st.randoms(use_true_random=False))
def test_equal_names(names, shapes, random):
    """Tensors of the same names are found, in whatever order."""
    wanted = named(names, shapes)
    found = random.sample(wanted, len(wanted))

    matches = match(wanted, found)

    assert matches.pairs == {name: name for name in names}
    assert set(matches.how.values()) == {"name"}


@given(NAMES, SHAPE_LISTS, st.sampled_from(["model/", "module.", "outer/inner/"]))
def test_spelling_and_prefix(names, shapes, prefix):
    """Separators, ":0", underscores and one prefix of all names make no difference."""
    spelled = [prefix + name.replace("/", ".") + ":0" for name in names]

    for wanted, found in ((names, spelled), (spelled, names)):
        pairs = match(named(wanted, shapes), named(found, shapes), structure=False).pairs

        assert pairs == dict(zip(wanted, found, strict=True))


@given(NAMES, SHAPE_LISTS, NAMES, SHAPE_LISTS)
def test_every_tensor_once(names, shapes, others, other_shapes):
    """No tensor is given to two variables, and names that both have are always kept together."""
    matches = match(named(names, shapes), named(others, other_shapes))

    assert len(set(matches.pairs.values())) == len(matches.pairs)
    assert not matches.pairs.keys() & matches.candidates.keys()
    for name in set(names) & set(others):
        assert matches.pairs[name] == name or matches.how[name] in ("prefix", "spelling")


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 5), st.booleans())
def test_numbering(start, other, count, is_nested):
    """Layers that a framework numbered anew are found by their order."""

    def layers(first):
        stems = [
            "dense" if number == 0 else f"dense_{number}" for number in range(first, first + count)
        ]
        place = "outer/" if is_nested else ""
        return stems, [f"{place}{stem}/{leaf}" for stem in stems for leaf in ("kernel", "bias")]

    stems, wanted = layers(start)
    _, found = layers(other)
    shapes = [(4, 4), (4,)] * count

    pairs = match(named(wanted, shapes, stems), named(found[::-1], shapes[::-1])).pairs

    assert pairs == dict(zip(wanted, found, strict=True))


def test_numbering_is_not_guessed():
    """Where counts differ and starts too, a number that is the same is a chance, not a match."""
    wanted = named(
        ["dense_1/w", "dense_2/w", "dense_3/w"], automatic=["dense_1", "dense_2", "dense_3"]
    )
    found = named(["dense/w", "dense_1/w"])

    matches = match(wanted, found)

    assert matches.pairs == {}
    assert matches.candidates["dense_1/w"] == ("dense/w", "dense_1/w")


def test_numbers_of_the_user_count():
    """Numbers that are part of the user's names are names."""
    matches = match(named(["block_1/w", "block_2/w"]), named(["block_0/w", "block_1/w"]))

    assert matches.pairs["block_1/w"] == "block_1/w"
    assert matches.how["block_1/w"] == "name"


def test_unique_layers():
    """A renamed layer is found if it is the only one of its names and shapes."""
    shapes = [(4, 3), (3,), (3, 2), (2,)]
    wanted = named(["a/kernel", "a/bias", "b/kernel", "b/bias"], shapes)
    found = named(["x/kernel", "x/bias", "y/kernel", "y/bias"], shapes)

    matches = match(wanted, found)

    assert matches.pairs["b/bias"] == "y/bias"
    assert set(matches.how.values()) == {"structure"}
    assert match(wanted, found, structure=False).pairs == {}


def test_equal_layers_are_ambiguous():
    """Of two renamed layers that look alike none is chosen, and both are named."""
    wanted = named(["a/kernel", "b/kernel"], [(4, 4), (4, 4)])
    found = named(["x/kernel", "y/kernel"], [(4, 4), (4, 4)])

    matches = match(wanted, found)

    assert matches.pairs == {}
    assert matches.candidates["a/kernel"] == ("x/kernel", "y/kernel")


def test_conventions_are_not_guessed():
    """PyTorch's square weight is not taken for a kernel, nor weight and bias for gamma and beta."""
    dense = named(["dense/kernel", "dense/bias"], [(4, 4), (4,)])
    linear = named(["fc.weight", "fc.bias"], [(4, 4), (4,)])
    norm = named(["norm/gamma", "norm/beta"], [(4,), (4,)])

    assert match(dense, linear).pairs == {}
    assert match(linear, dense).pairs == {}
    assert match(norm, named(["ln.weight", "ln.bias"], [(4,), (4,)])).pairs == {}


def test_numbered_parts():
    """The numbered variables of a layer come in its order, 10 behind 9."""
    shapes = [(size,) for size in range(1, 13)]
    wanted = named([f"cell/part_{'abcdefghijkl'[size]}" for size in range(12)], shapes)
    found = named([f"x/vars/{number}" for number in sorted(range(12), key=str)])
    found = [Named(one.name, one.names, shapes[int(one.name[7:])]) for one in found]

    pairs = match(wanted, found).pairs

    assert pairs["cell/part_k"] == "x/vars/10"
    assert len(pairs) == 12


def test_lists():
    """Arrays that have only an order are taken in it, if all of them fit."""
    wanted = named(["d/kernel", "d/bias", "e/kernel"], [(4, 3), (3,), (4, 3)])
    shapes = [(4, 3), (3,), (4, 3)]

    assert match(wanted, named(["arr_0", "arr_1", "arr_2"], shapes)).pairs["e/kernel"] == "arr_2"
    assert match(wanted, named(["arr_0", "arr_1"], shapes)).pairs.get("e/kernel") is None


def test_scalars_are_not_told_by_shape():
    """Being the only scalar on both sides makes no pair."""
    assert match(named(["temperature"], [()]), named(["step"], [()])).pairs == {}
    assert match(named(["scale"], [(3,)]), named(["offset"], [(3,)])).pairs == {}


def test_shapes_decide_between_schemes():
    """A name that fits in nothing but itself gives way to a scheme in which everything fits."""
    automatic = ["dense_1", "dense_2"]
    wanted = named(["dense_1/kernel", "dense_2/kernel"], [(4, 8), (8, 2)], automatic)
    found = named(["dense/kernel", "dense_1/kernel"], [(4, 8), (8, 2)])

    assert match(wanted, found).pairs["dense_1/kernel"] == "dense/kernel"


@pytest.mark.parametrize(
    "name",
    [
        "layer_with_weights-0/kernel/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE",
        "optimizer/_variables/3/.ATTRIBUTES/VARIABLE_VALUE",
        "model/optimizer/_iterations",
        "optimizer/vars/12",
        "optimizer_weights/training/Adam/dense/kernel/m:0",
        "Adam/m/dense/kernel:0",
        "adam/dense_1_kernel_momentum",
        "dense/kernel/Adam_1",
        "dense/kernel/Momentum",
        "beta1_power",
        "global_step",
        "save_counter/.ATTRIBUTES/VARIABLE_VALUE",
        "_CHECKPOINTABLE_OBJECT_GRAPH",
    ],
)
def test_training_state(name):
    """What optimizers keep is known by its name."""
    assert is_training_state(name)


@pytest.mark.parametrize(
    "name",
    [
        "dense/kernel",
        "optimizer/_trainable_variables/3/.ATTRIBUTES/VARIABLE_VALUE",
        "adam/kernel",
        "madam/m/kernel",
        "batch_normalization/beta",
        "optimizers.weight",
        "momentum_encoder/bias",
    ],
)
def test_weights_are_no_training_state(name):
    """What looks like it but is a weight, is a weight."""
    assert not is_training_state(name)


def test_fits():
    """Unknown sizes fit all."""
    assert fits((None, 3), (7, 3))
    assert fits(None, (1,))
    assert not fits((3,), (3, 1))
    assert not fits((3,), (4,))


@pytest.mark.parametrize("leaf", ["²", "1" * 5000])
def test_leaves_that_are_no_numbers(leaf):
    """A digit that Python reads no number from, and more of them than it reads, are names."""
    wanted = named(["dense/kernel", "dense/bias"], [(4, 3), (3,)])
    found = named([f"other/{leaf}", "other/0"], [(4, 3), (3,)])

    assert match(wanted, found).pairs == {
        "dense/kernel": f"other/{leaf}",
        "dense/bias": "other/0",
    }
