"""What several attacks start from."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def genuine(tmp_path_factory):
    """A sound model in both kinds of files."""
    import keras

    folder = tmp_path_factory.mktemp("genuine")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile("adam", keras.losses.MeanSquaredError())
    model.save(folder / "x.keras")
    model.save(folder / "x.h5")
    return folder


@pytest.fixture
def vocabulary(tmp_path):
    """A sound SavedModel with an asset."""
    import tensorflow as tf
    from hostile.graphs import Vocabulary

    import tensorferry as ferry

    (tmp_path / "words.txt").write_text("a\nb\n")
    tf.saved_model.save(Vocabulary(str(tmp_path / "words.txt")), str(tmp_path / "model"))
    assert ferry.load_model(tmp_path / "model")(["b"]).tolist() == [1]
    return tmp_path / "model"
