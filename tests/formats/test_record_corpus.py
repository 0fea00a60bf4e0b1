"""Files of records that others wrote, beside tf.data."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import CORPUS

import tensorferry as ferry
from tensorferry.rows.schema import Feature


def corpus_files():
    """TFRecord files that others wrote."""
    names = []
    for folder in ("tfx", "tfds", "tensorflow"):
        for file in sorted((CORPUS / folder).rglob("*")):
            named = "record" in file.name or "transformed_examples" in file.name
            if named and file.is_file() and file.suffix not in (".json", ".pbtxt", ".txt", ".py"):
                names.append(file)
    return names


def values_of(feature):
    """The values of a tf.train.Feature."""
    kind = feature.WhichOneof("kind")
    return [] if kind is None else list(getattr(feature, kind).value)


def flatten(value):
    """The values of a row of ours, as a list."""
    if value is None:
        return []
    if isinstance(value, ferry.RaggedTensor):
        value = value.flat_values
    return np.asarray(value, object if isinstance(value, bytes) else None).reshape(-1).tolist()


@pytest.mark.parametrize("file", corpus_files(), ids=lambda file: file.name)
def test_corpus(tf, file):
    """Others' files: the records are tf.data's, the values are tf.train.Example's."""
    head = file.read_bytes()[:2]
    kind = "GZIP" if head == b"\x1f\x8b" else ""
    expected = list(tf.data.TFRecordDataset(str(file), kind).as_numpy_iterator())
    with ferry.open(file, raw=True) as records:
        assert list(records) == expected
    if "vocabulary" in file.name:
        return
    sequences = "sequence" in str(file)
    message = tf.train.SequenceExample if sequences else tf.train.Example
    # Serialized tensors stay strings here: the schema is that of the lists.
    with ferry.open(file, infer="all") as found:
        plain = [
            Feature(f.name, "bytes", (), "string", optional=f.optional)
            if f.encoding == "tensor"
            else f
            for f in found.schema.values()
        ]
    schema = {feature.name: feature for feature in plain}
    with ferry.open(file, schema=schema) as records:
        count = 0
        for row, record in zip(records, expected, strict=True):
            parsed = message.FromString(record)
            features = parsed.context.feature if sequences else parsed.features.feature
            for name, feature in features.items():
                if values_of(feature):
                    np.testing.assert_array_equal(flatten(row[name]), values_of(feature))
            if sequences:
                for name, steps in parsed.feature_lists.feature_list.items():
                    flat = [value for step in steps.feature for value in values_of(step)]
                    np.testing.assert_array_equal(flatten(row[name]), flat)
            count += 1
        assert count == len(expected)
