"""SavedModels of others: what TensorFlow's loader says of them, good and damaged."""

from __future__ import annotations

import pytest
from conftest import CORPUS
from savedmodels import DAMAGED, GOOD, check_graph, named, needs_corpus, parse
from strategies import same

from tensorferry import errors
from tensorferry.formats.savedmodel import model as savedmodel
from tensorferry.formats.savedmodel.reader import open_variables
from tensorferry.storage.place import Place


@needs_corpus
@pytest.mark.parametrize("path", GOOD, ids=named(GOOD))
def test_models_of_others(tf, path):
    """Tags, versions, signatures, functions, ops and constants are what TensorFlow parses."""
    model = savedmodel.read(path)
    proto = parse(tf, path)

    assert len(model.meta_graphs) == len(proto.meta_graphs)
    for graph, expected in zip(model.meta_graphs, proto.meta_graphs, strict=True):
        constants = check_graph(graph, expected)
        for name, node in constants.items():
            stored = graph.constants[name]
            value = tf.make_ndarray(node.attr["value"].tensor)
            assert stored.shape == value.shape
            assert same(stored.read(), value)
        named_assets = {(a.filename, a.tensor_info.name) for a in expected.asset_file_def}
        assert {(a.name, a.tensor) for a in model.assets if a.tensor} == named_assets
        assert graph.custom_ops == ()
        assert graph.recursive_functions == ()
    assert all(asset.problem is None and asset.size is not None for asset in model.assets)


@needs_corpus
@pytest.mark.parametrize("path", GOOD, ids=named(GOOD))
def test_variables_of_others(tf, path):
    """Variables have the values that TensorFlow's reader of checkpoints gives, by their paths."""
    model = savedmodel.read(path)
    variables = model.meta_graphs[0].variables
    with open_variables(model.place) as opened:
        if not model.has_variables:
            assert not opened.stored
            return
        reader = tf.train.load_checkpoint(str(path / "variables/variables"))
        expected = reader.get_variable_to_shape_map()
        expected.pop("_CHECKPOINTABLE_OBJECT_GRAPH", None)
        assert set(opened.keys.values()) == set(expected)
        for name, key in opened.keys.items():
            assert same(opened.stored[name].read(), reader.get_tensor(key))
        for name in variables.keys() & opened.stored.keys():
            assert variables[name].dtype == opened.stored[name].dtype
        # What has no value was never initialised, and what has one is a variable.
        missing = variables.keys() - opened.stored.keys()
        assert missing == (
            {"uninitialized_variable", "sub_module/uninitialized_variable"}
            if path.name == "UninitializedVariable"
            else set()
        )
        assert opened.stored.keys() <= variables.keys()


@needs_corpus
@pytest.mark.parametrize("path", DAMAGED, ids=named(DAMAGED))
def test_damaged_models(tf, path):
    """What fuzzers made is refused, with the node and what is wrong; TensorFlow does too."""
    with pytest.raises(errors.FormatError, match=r"without a tensor|dimension 0 is -1") as caught:
        savedmodel.read(path)

    assert caught.value.path == str(path / "saved_model.pb")
    assert caught.value.offset
    assert caught.value.tensor
    with pytest.raises(ValueError, match=r"missing attr|not fully defined|inconsistent"):
        tf.saved_model.load(str(path))


@needs_corpus
def test_variables_beside_a_damaged_graph():
    """The variables are given although the graph is damaged: it is not looked at."""
    path = CORPUS / "tensorflow/saved_model/fuzz_generated/negative_shape"

    with open_variables(Place(path)) as opened:
        assert opened.stored
