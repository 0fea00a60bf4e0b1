"""Ragged tensors as NumPy users expect them, compared with TensorFlow's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import ragged_tensors

import tensorferry as ferry

ROWS = [[1, 2, 3], [], [4]]


@settings(max_examples=25)
@given(ragged=ragged_tensors())
def test_to_dense_as_tensorflow(tf, ragged):
    """`to_dense()` is `to_tensor()`, at every depth."""
    theirs = tf.RaggedTensor.from_nested_row_splits(
        tf.zeros(ragged.flat_values.shape, tf.int32) + 7, ragged.nested_row_splits
    )
    sevens = ferry.RaggedTensor(
        np.full(ragged.flat_values.shape, 7, np.int32), ragged.nested_row_splits
    )

    np.testing.assert_array_equal(sevens.to_dense(), theirs.to_tensor())
    np.testing.assert_array_equal(sevens.to_dense(-1), theirs.to_tensor(-1))
    lengths = [2] * ragged.ragged_rank
    wanted = theirs.to_tensor(-1, shape=[None, *lengths, *ragged.flat_values.shape[1:]])
    np.testing.assert_array_equal(sevens.pad_to(lengths, -1), wanted)


def test_pad_to():
    """`pad_to(2)` fills and cuts; strings are filled with strings."""
    ragged = ferry.RaggedTensor.from_rows(ROWS)
    texts = ferry.RaggedTensor.from_rows([[b"a", b"b"], [b"c"]])

    assert ragged.pad_to(2).tolist() == [[1, 2], [0, 0], [4, 0]]
    assert ragged.pad_to(4, pad=-1).tolist() == [[1, 2, 3, -1], [-1] * 4, [4, -1, -1, -1]]
    assert texts.to_dense().tolist() == [[b"a", b"b"], [b"c", b""]]
    assert texts.to_dense("<pad>").tolist() == [[b"a", b"b"], [b"c", b"<pad>"]]
    with pytest.raises(ferry.OptionError, match="expected 1 sizes"):
        ragged.pad_to((2, 2))


def test_a_dense_form_has_a_budget(monkeypatch):
    """One long row among many does not take all memory."""
    lengths = np.zeros(1_000_001, np.int64)
    lengths[-1] = 1_000_000
    ragged = ferry.RaggedTensor(np.zeros(1_000_000), (np.cumsum(lengths),))
    with pytest.raises(ferry.LimitError, match="the dense form takes"):
        ragged.to_dense()


def test_len_iteration_and_indexing(tf):
    """Rows, slices, lists of rows and masks, as TensorFlow's and NumPy's."""
    ragged = ferry.RaggedTensor.from_rows([[[1], [2, 3]], [], [[4]]])
    theirs = tf.ragged.constant([[[1], [2, 3]], [], [[4]]])

    assert len(ragged) == 3
    assert ragged.ndim == 3
    assert ragged.size == 4
    assert [row.to_list() for row in ragged] == [row.to_list() for row in theirs]
    assert ragged[1:].to_list() == theirs[1:].to_list()
    assert ragged[::-1].to_list() == theirs[::-1].to_list()
    assert ragged[[2, 0]].to_list() == tf.gather(theirs, [2, 0]).to_list()
    assert ragged[np.array([True, False, True])].to_list() == [[[1], [2, 3]], [[4]]]
    assert ragged[-1].to_list() == [[4]]
    assert ragged[0, 1].tolist() == [2, 3]
    assert ragged[0, 1, 1] == 3
    assert ragged.tolist() == ragged.to_list()
    for wrong in (3, -4, (slice(1), 0)):
        with pytest.raises(IndexError):
            ragged[wrong]


def test_comparison(tf):
    """Element by element, ragged again, as in TensorFlow; `equals` is one answer."""
    ragged = ferry.RaggedTensor.from_rows(ROWS)
    theirs = tf.ragged.constant(ROWS)

    assert (ragged == 3).to_list() == (theirs == 3).to_list()
    assert (ragged >= 2).to_list() == (theirs >= 2).to_list()
    assert (ragged != ragged).any() is False
    assert (ragged == ferry.RaggedTensor.from_rows(ROWS)).all()
    assert ragged.equals(ferry.RaggedTensor.from_rows(ROWS))
    assert not ragged.equals(ferry.RaggedTensor.from_rows([[1, 2], [3], [4]]))
    assert not ragged.equals(ROWS)
    with pytest.raises(ValueError, match="differ in length"):
        ragged == ferry.RaggedTensor.from_rows([[1, 2], [3], [4]])  # noqa: B015
    with pytest.raises(ValueError, match="ambiguous"):
        bool(ragged == ragged)
    texts = ferry.RaggedTensor.from_rows([[b"a", b"b"], [b"a"]])
    assert (texts == "a").to_list() == [[True, False], [True]]


def test_printing():
    """Short and readable; of many rows the first and the last."""
    ragged = ferry.RaggedTensor.from_rows(ROWS)

    assert repr(ragged) == "RaggedTensor([[1, 2, 3], [], [4]], dtype=int32)"
    assert str(ragged) == "[[1 2 3] [] [4]]"
    nested = ferry.RaggedTensor.from_rows([[[1], [2, 3]], []])
    assert repr(nested) == "RaggedTensor([[[1], [2, 3]], []], dtype=int32)"
    large = ferry.RaggedTensor.from_rows([[number] for number in range(5000)])
    assert repr(large) == (
        "RaggedTensor([[0], [1], [2], ..., [4997], [4998], [4999]], dtype=int32)"
    )


def test_the_names_of_the_package():
    """`dir(ferry)` is what the package offers, and `MissingDtypeError` is one of its names."""
    names = [name for name in dir(ferry) if not name.startswith("__")]

    assert sorted(names) == sorted(name for name in ferry.__all__ if not name.startswith("__"))
    with pytest.raises(ferry.MissingDtypeError, match="pass its dtype"):
        ferry.loads(b"1234", format="raw")
