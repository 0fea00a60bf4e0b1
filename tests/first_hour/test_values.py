"""Values as people have them: tensors of strings, numbers and lists, typed literally."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file

import tensorferry as ferry

# Formats of tensors that hold more than one, by a name that says the format.
NAMED = ("x.npz", "x.safetensors", "x.arrow", "x.parquet", "x.ckpt")


def test_a_serialized_tensor_of_tensorflow_is_its_bytes(tf):
    """`loads(tf.io.serialize_tensor(t))` gives the tensor, as `tf.io.parse_tensor` does."""
    t = tf.random.uniform((3, 4))

    result = ferry.loads(tf.io.serialize_tensor(t))

    np.testing.assert_array_equal(result, tf.io.parse_tensor(tf.io.serialize_tensor(t), tf.float32))
    assert result.dtype == np.float32


def test_a_tensor_of_one_string_is_its_bytes(tf, tmp_path):
    """An object array, a variable and a tensor of one element are bytes wherever bytes are."""
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    data = ferry.dumps(array)
    one = np.array(data, object)
    request = ferry.serving.PredictRequest("m", {"x": array}).to_bytes()

    for given in (one, one.reshape(1, 1), np.bytes_(data), tf.constant([data]), tf.Variable(data)):
        np.testing.assert_array_equal(ferry.loads(given), array)
        np.testing.assert_array_equal(ferry.load(given), array)
    np.testing.assert_array_equal(ferry.tfio.parse_tensor(one), array)
    read = ferry.serving.PredictRequest.from_bytes(np.array(request, object))
    np.testing.assert_array_equal(read.inputs["x"], array)


def test_bytes_as_a_tensor_of_numbers(tf):
    """A tensor of uint8 of any framework is bytes, as `torch.frombuffer` makes one."""
    torch = pytest.importorskip("torch")
    data = ferry.dumps(np.arange(3.0))

    for given in (
        np.frombuffer(data, np.uint8),
        tf.io.decode_raw(data, tf.uint8),
        torch.frombuffer(bytearray(data), dtype=torch.uint8),
    ):
        np.testing.assert_array_equal(ferry.loads(given), np.arange(3.0))


def test_several_strings_are_refused(tf):
    """A tensor of two strings, of text or of objects is no bytes, and its memory is not read."""
    data = ferry.dumps(np.zeros(3))
    several = [np.array([data, data], object), tf.constant([data, data]), np.zeros(0, object)]
    for given in (*several, np.array("text", object), np.array("text"), np.array(None)):
        with pytest.raises(ferry.UnsupportedError, match="expected bytes"):
            ferry.loads(given)


def test_loads_of_a_name_says_load():
    """`loads("a.npy")` names the function that reads files."""
    with pytest.raises(TypeError, match=r"hint: tensorferry\.load\('a\.npy'\) reads a file"):
        ferry.loads("a.npy")
    with pytest.raises(ferry.UnsupportedError, match="expected bytes"):
        ferry.loads(3)


def test_a_list_of_numbers_is_an_array_as_numpy_saves_it(tmp_path, monkeypatch):
    """`save([1.0, 2.0], "x.npy")` writes the bytes that `np.save` writes."""
    monkeypatch.chdir(tmp_path)
    for value in ([1.0, 2.0], 3.5, 3, True, 1 + 2j, [[1, 2], [3, 4]], (1, 2.5), [True, False]):
        ferry.save(value, "x.npy")
        np.save("numpy.npy", value)

        assert (tmp_path / "x.npy").read_bytes() == (tmp_path / "numpy.npy").read_bytes()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["numpy.npy", "x.npy"]


@pytest.mark.parametrize("name", NAMED)
def test_numbers_and_lists_in_a_dict_are_tensors(tmp_path, name):
    """One rule in every format: NumPy's dtype and shape, and nothing hidden in a note."""
    value = {"a": [1.0, 2.0], "b": 3.5, "c": [[1, 2], [3, 4]], "d": 7}
    path = tmp_path / name

    ferry.save(value, path, **({"format": "checkpoint"} if name == "x.ckpt" else {}))
    result = ferry.load(path)

    assert set(result) == set(value)
    for key, expected in value.items():
        found, wanted = result[key], np.asarray(expected)
        assert isinstance(found, np.ndarray)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(found, wanted)
    with ferry.open(path) as bundle:
        assert set(bundle) == set(value)


def test_lists_in_safetensors_are_read_by_safetensors(tmp_path):
    """`{"a": [1.0, 2.0]}` into safetensors is a tensor for its own library, in a structure too."""
    path = tmp_path / "x.safetensors"

    ferry.save({"a": [1.0, 2.0]}, path)
    np.testing.assert_array_equal(load_file(path)["a"], np.array([1.0, 2.0]))

    value = {"a": [1.0, 2.0], "name": "en-de", "deep": {"steps": [1, 2]}, "b": [[1], [2]]}
    ferry.save(value, path)
    assert {name: array.tolist() for name, array in load_file(path).items()} == {
        "a": [1.0, 2.0],
        "b": [[1], [2]],
    }
    assert ferry.load(path) == value


@pytest.mark.parametrize("name", ["x.npz", "x.safetensors", "x.arrow"])
def test_nested_structures_come_back_as_they_were(tmp_path, name):
    """A structure of more than tensors keeps the types of Python."""
    value = {
        "step": 7,
        "losses": [0.5, 0.25],
        "flags": [True, False],
        "both": [1, 0.5, True],
        "config": {"layers": 3, "rate": 0.1, "dims": [64, 64], "pair": (1, 2)},
        "ragged": [[1], [2, 3]],
        "words": ["a", "b"],
        "mixed": [1, "a", None],
        "empty": [],
        "large": 2**70,
        "nothing": None,
    }
    ferry.save(value, tmp_path / name)

    result = ferry.load(tmp_path / name)
    assert result == value
    assert [type(number) for number in result["both"]] == [int, float, bool]


def test_where_a_number_has_no_place(tmp_path):
    """`save(3.5, "v.h5")` says what is wrong with the name, or with a value without one."""
    for name, expected in (
        ("v.h5", r"v\.h5: other HDF5 files .* not written\nhint: .* name it \S*v\.weights\.h5"),
        ("v.weights.h5", "no place for a tensor without a name\nhint: save a dict"),
        ("v.csv", r"csv holds rows, expected a DataFrame(?s:.*)by its name: \{'x': tensor\}"),
    ):
        with pytest.raises(ferry.UnsupportedError, match=expected):
            ferry.save(3.5, tmp_path / name)
    with pytest.raises(ferry.UnsupportedError, match="npz and safetensors take every name"):
        ferry.save({"a": [1.0, 2.0]}, tmp_path / "v.weights.h5")
    with pytest.raises(ferry.UnsupportedError, match="no place for metadata"):
        ferry.save({"layers/d/vars/0": [1.0]}, tmp_path / "v.weights.h5", metadata={"step": 1})
    assert list(tmp_path.iterdir()) == []


def test_a_device_stays_with_its_tensor(tf, tmp_path):
    """Numbers beside a variable do not take its origin."""
    path = tmp_path / "x.safetensors"
    for value in ({"n": 3}, {"n": 3, "l": [1, 2]}, {"l": [1, 2], "s": "text"}):
        ferry.save({**value, "v": tf.Variable([1.0], name="weight"), "m": [1]}, path)

        with ferry.open(path) as bundle:
            assert bundle.info["v"].origin["name"] == "weight"
            assert all(not bundle.info[name].origin for name in bundle if name != "v")


def test_tensorflow_decides_in_its_own_message(tf, tmp_path):
    """A TensorProto of a list is `tf.io.serialize_tensor`'s, byte for byte."""
    for value in ([1.0, 2.0], 3.5, [1, 2], True):
        ferry.save(value, tmp_path / "x.pb")
        assert (tmp_path / "x.pb").read_bytes() == tf.io.serialize_tensor(value).numpy()


def test_bytes_of_a_list_hold_the_list():
    """Without a format, and in JSON, Python's values stay Python's."""
    for value in ([1.0, 2.0], 3.5, {"a": [1, 2]}):
        assert ferry.loads(ferry.dumps(value)) == value
        assert ferry.loads(ferry.dumps(value, format="json"), format="json") == value
    assert ferry.dumps([1.0, 2.0], format="raw") == np.array([1.0, 2.0]).tobytes()
