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
