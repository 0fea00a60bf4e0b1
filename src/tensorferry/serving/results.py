"""What Classify and Regress answer with, as arrays: labels with scores, and values.

    ClassificationResult  1 classifications, for each example { 1 classes { 1 label  2 score } }
    RegressionResult      1 regressions, for each example { 1 value }

A score or value of 0 and an empty label are not written, as protobuf has it.
"""

from __future__ import annotations

from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np

from tensorferry import frameworks
from tensorferry.codecs.json_text import describe, to_utf8
from tensorferry.codecs.protobuf import Span, utf8, varint
from tensorferry.dtypes import BY_NAME
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.formats.json.bodies import from_leaves, to_leaves
from tensorferry.serving.messages import WRITER, Reader, as_dense
from tensorferry.tensors.values import Array, RaggedTensor

# The bytes of a class that has an empty label in so many words, and a score.
SHORTEST = 9

FLOAT32 = BY_NAME["float32"]

_EXAMPLE = WRITER.tag("ClassificationResult", "classifications")
_CLASS = WRITER.tag("Classifications", "classes")
_LABEL, _SCORE = WRITER.tag("Class", "label"), WRITER.tag("Class", "score")

# A regression whose value is not 0: its tag and size, then the value's tag.
_REGRESSION = np.frombuffer(b"\x0a\x05\x0d", np.uint8)


def write_classes(labels: Any, scores: Any) -> bytes:
    """A ClassificationResult."""
    names, numbers, lengths = _flat(labels, scores)
    bits = numbers.view("V4").tolist()
    # Most labels come again and again, and there may be very many classes: not through the writer.
    texts = {label: _field(_LABEL, label) if label else b"" for label in set(names)}
    if numbers.view(np.uint32).all():
        heads = {
            label: _CLASS + varint(len(text) + 5) + text + _SCORE for label, text in texts.items()
        }
        classes = [heads[label] + score for label, score in zip(names, bits, strict=True)]
    else:
        classes = [
            _field(_CLASS, texts[label] + _SCORE + score if any(score) else texts[label])
            for label, score in zip(names, bits, strict=True)
        ]
    ends = [0, *accumulate(lengths)]
    return b"".join(_field(_EXAMPLE, b"".join(classes[a:b])) for a, b in pairwise(ends))


def _field(tag: bytes, data: bytes) -> bytes:
    return tag + varint(len(data)) + data


def _flat(labels: Any, scores: Any) -> tuple[list[bytes], Array, list[int]]:
    """The labels and scores of all classes, and how many classes each example has."""
    if labels is None and scores is None:
        raise UnsupportedError("neither labels nor scores, expected one of them or both")
    names: list[bytes] = []
    numbers: Array = np.zeros(0, np.float32)
    lengths: list[int] = []
    if labels is not None:
        names, lengths = _classes(labels, "labels")
    others = lengths
    if scores is not None:
        numbers, others = _classes(scores, "scores")
    if labels is None:
        names, lengths = [b""] * len(numbers), others
    if scores is None:
        numbers = np.zeros(len(names), np.float32)
    if lengths != others:
        raise UnsupportedError(
            f"labels for {len(lengths)} examples and {sum(lengths)} classes, scores for "
            f"{len(others)} and {sum(others)}, expected a score for each label"
        )
    return names, numbers, lengths


def _classes(values: Any, what: str) -> tuple[Any, list[int]]:
    """Labels or scores, flat, and how many each example has."""
    flat: Any
    if type(values) is list and set(map(type, values)) == {list}:
        flat, lengths = list(chain.from_iterable(values)), list(map(len, values))
        if what == "labels" and set(map(type, flat)) == {str}:
            return [utf8(label) for label in flat], lengths
        flat = as_dense(flat, what)
        shape, fits = (len(lengths), None, *flat.shape[1:]), flat.ndim == 1
    elif isinstance(accepted := frameworks.accept(values), RaggedTensor):
        flat, shape = accepted.flat_values, accepted.shape
        lengths, fits = accepted.row_lengths.tolist(), len(shape) == 2
    else:
        flat = as_dense(accepted, what)
        shape, fits = flat.shape, flat.ndim == 2
        lengths = [shape[1]] * shape[0] if fits else []
    if not fits:
        raise UnsupportedError(f"{what} of shape {list(shape)}, expected [examples, classes]")
    if what == "labels":
        return _labels(flat.ravel()), lengths
    return np.ascontiguousarray(as_floats(flat, what)).ravel(), lengths


def _labels(array: Array) -> list[bytes]:
    if array.dtype != object:
        raise UnsupportedError(f"labels of {array.dtype}, expected strings")
    labels: list[bytes] = array.tolist()
    for label in set(labels):
        try:
            label.decode()
        except UnicodeDecodeError:
            raise UnsupportedError(
                f"a label is {label[:60]!r}, expected UTF-8", hint="Predict carries any bytes"
            ) from None
    return labels


def as_floats(array: Array, what: str) -> Array:
    """Numbers as float32, unless that would change them.

    Raises:
        UnsupportedError: It would, or they are no numbers.
    """
    if array.dtype == np.float32:
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = array.astype(np.float32) if array.dtype != object else None
        if narrow is None or not np.array_equal(narrow.astype(array.dtype), array, equal_nan=True):
            raise UnsupportedError(
                f"{what} of {array.dtype}, expected float32",
                hint=f'pass {what}.astype("float32") if they may be rounded',
            )
    return narrow


def read_classes(reader: Reader, span: Span) -> tuple[Any, Any]:
    """The labels and the scores of a ClassificationResult."""
    rows = _Rows(reader)
    for row in reader.each("ClassificationResult", "classifications", span):
        rows.read(row)
        if len(rows.lengths) == 1 and len(rows.ends) == len(rows.labels) > 0:
            alike = _read_alike(rows.data, span, row, rows.ends)
            if alike is not None:
                return _arrange(rows.labels * len(alike), alike, rows.lengths * len(alike))
    scores = np.frombuffer(b"".join(rows.scores), np.float32)
    return _arrange(rows.labels, scores, rows.lengths)


class _Rows:
    """Gathers the classes of examples, of which there may be very many.

    Most are as most writers have them: a short label, then a score. What stands before the score is
    kept, so that a label that comes again is known by its bytes.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.data = bytes(reader.data)  # itself, unless it is a view: slices of one take longer
        self.labels: list[bytes] = []
        self.scores: list[bytes] = []
        self.lengths: list[int] = []
        self.ends: list[int] = []  # of the scores of usual classes that were new
        self._heads: dict[bytes, bytes] = {}

    def read(self, span: Span) -> None:
        """Adds the classes of one example."""
        data, labels, scores, heads = self.data, self.labels, self.scores, self._heads
        before = len(labels)
        place, end = span
        while place + SHORTEST <= end:
            last = place + 2 + data[place + 1]
            label = heads.get(data[place : last - 4]) if last <= end else None
            if label is None:
                break
            labels.append(label)
            scores.append(data[last - 4 : last])
            place = last
        for found in self.reader.each("Classifications", "classes", (place, end)):
            self._add(found)
        self.lengths.append(len(labels) - before)

    def _add(self, span: Span) -> None:
        """Adds a class that was not there before."""
        data, (start, end) = self.data, span
        fields = self.reader.read("Class", span)
        label = fields.get("label", "").encode()
        self.labels.append(label)
        self.scores.append(fields.get("score", 0).to_bytes(4, "little"))
        size = end - start
        if size < 128 and data[start:end] == _field(_LABEL, label) + _SCORE + self.scores[-1]:
            self.ends.append(end)
            self._heads[_CLASS + bytes((size,)) + data[start : end - 4]] = label


def _read_alike(data: bytes, span: Span, first: Span, ends: list[int]) -> Array | None:
    """The scores [examples, classes] of a result whose examples differ in nothing else.

    Args:
        data: The buffer.
        span: The result.
        first: Its first example.
        ends: Where the scores of that one end.
    """
    stride = first.end - span.start
    if (span.end - span.start) % stride:
        return None
    grid = np.frombuffer(data, np.uint8, span.end - span.start, span.start).reshape(-1, stride)
    places = (np.array(ends)[:, None] - span.start + np.arange(-4, 0)).ravel()
    fixed = np.ones(stride, bool)
    fixed[places] = False
    if not (grid[:, fixed] == grid[0, fixed]).all():
        return None
    return np.ascontiguousarray(grid[:, places]).view(np.float32)


def _arrange(labels: list[bytes], scores: Array, lengths: list[int]) -> tuple[Any, Any]:
    """As arrays [examples, classes], or ragged ones."""
    names: Array = np.empty(len(labels), object)
    names[:] = labels
    if len(set(lengths)) <= 1:
        shape = len(lengths), lengths[0] if lengths else 0
        return names.reshape(shape), scores.reshape(shape)
    splits = np.cumsum([0, *lengths], dtype=np.int64)
    return RaggedTensor(names, (splits,)), RaggedTensor(scores, (splits,))


def classes_to_lists(labels: Any, scores: Any) -> list[Any]:
    """Pairs of label and score, as a REST body has them."""
    names, numbers, lengths = _flat(labels, scores)
    if not lengths:
        raise UnsupportedError("no examples, a REST answer has at least one")
    pairs = [
        [label.decode(), score] for label, score in zip(names, to_leaves(numbers), strict=True)
    ]
    return [pairs[start:end] for start, end in pairwise([0, *accumulate(lengths)])]


def classes_from_lists(rows: list[Any]) -> tuple[Any, Any]:
    """The labels and scores of a REST body."""
    for place, row in enumerate(rows):
        if type(row) is not list:
            raise FormatError(f"result {place} is {describe(row)}, expected a list of classes")
        for pair in row:
            if type(pair) is not list or len(pair) != 2 or type(pair[0]) is not str:
                found = describe(pair) if type(pair) is not list else f"a list of {len(pair)}"
                raise FormatError(
                    f"result {place} holds {found}, expected pairs of a label and a score"
                )
    pairs = list(chain.from_iterable(rows))
    scores = from_leaves([score for _, score in pairs], FLOAT32)
    return _arrange([to_utf8(label) for label, _ in pairs], scores, list(map(len, rows)))


def write_values(values: Any) -> bytes:
    """A RegressionResult."""
    floats = _values(values)
    bits = floats.view(np.uint32)
    grid = np.empty((len(floats), 7), np.uint8)
    grid[:, :3] = _REGRESSION
    grid[:, 3:] = bits.reshape(-1, 1).view(np.uint8)
    if bits.all():
        return grid.tobytes()
    return b"".join(row.tobytes() if row[3:].any() else b"\x0a\0" for row in grid)


def _values(values: Any) -> Array:
    array = as_dense(values, "values")
    if array.ndim != 1:
        raise UnsupportedError(f"values of shape {list(array.shape)}, expected [examples]")
    return np.ascontiguousarray(as_floats(array, "values"))


def read_values(reader: Reader, span: Span) -> Array:
    """The values of a RegressionResult."""
    raw = np.frombuffer(reader.data, np.uint8, span.end - span.start, span.start)
    if len(raw) % 7 == 0:
        grid = raw.reshape(-1, 7)
        if (grid[:, :3] == _REGRESSION).all():
            return np.ascontiguousarray(grid[:, 3:]).view(np.float32).reshape(-1)
    places = reader.each("RegressionResult", "regressions", span)
    bits = [reader.read("Regression", place).get("value", 0) for place in places]
    return np.array(bits, np.uint32).view(np.float32)


def values_to_list(values: Any) -> list[Any]:
    """Numbers, as a REST body has them."""
    floats = _values(values)
    if not len(floats):
        raise UnsupportedError("no examples, a REST answer has at least one")
    return to_leaves(floats)


def values_from_list(values: list[Any]) -> Array:
    """The values of a REST body."""
    return from_leaves(values, FLOAT32)
