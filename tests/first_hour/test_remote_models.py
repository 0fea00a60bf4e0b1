"""Models to and from URLs: the calls of local paths, on a real S3."""

from __future__ import annotations

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry import storage

X = np.ones((2, 3), np.float32)


@pytest.fixture
def model(tf):
    """A small Keras model."""
    import keras

    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])


@pytest.mark.parametrize("name", ["m.keras", "encoder"])
def test_there_and_back(s3, model, name):
    """`save_model(m, "s3://...")` and `load_model("s3://...")` give the model, piece by piece."""
    url = f"s3://{s3.bucket}/models/{name}"

    sent, fetched = [], []
    report = ferry.save_model(model, url, progress=lambda *how: sent.append(how))
    loaded = ferry.load_model(url, progress=lambda *how: fetched.append(how))

    for told in (sent, fetched):  # all bytes of all files
        assert told[-1][0] == told[-1][1] > report.nbytes
    assert report.path == loaded.path == url
    np.testing.assert_allclose(loaded(X), model.predict(X, verbose=0), rtol=1e-6)
    with pytest.raises(FileExistsError):
        ferry.save_model(model, url, overwrite=False)


def test_what_is_there_is_not_mixed(s3, model):
    """A SavedModel in a store is not replaced; a .keras file is, in one step."""
    url = f"s3://{s3.bucket}/models/encoder"
    ferry.save_model(model, url)
    with pytest.raises(ferry.UnsupportedError, match="cannot be replaced in one step"):
        ferry.save_model(model, url)
    for _ in range(2):
        ferry.save_model(model, f"{url}.keras")


def test_no_model(s3, model):
    """A name without a model is not found; half of a SavedModel is none."""
    url = f"s3://{s3.bucket}/models/half"
    with storage.open_sink(f"{url}/variables/variables.index") as sink:
        sink.write(b"x")
    for name in (url, f"{url}/none", f"{url}/none.keras"):
        with pytest.raises(FileNotFoundError):
            ferry.load_model(name)
