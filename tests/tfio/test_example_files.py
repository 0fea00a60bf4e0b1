"""Examples in files of others, parsed in every way."""

from __future__ import annotations

import pytest
from conftest import CORPUS
from tfio.oracle import check
from tfio.records import strings

FILES = {
    "tfx/csv_example_gen/Split-eval/data_tfrecord-00000-of-00012.gz": "GZIP",
    "tfx/penguin/data/Split-eval/data_tfrecord-00000-of-00001.gz": "GZIP",
    "tfx/mnist/data/mnist.tfrecord": "",
    "tfds/datasets/nsynth/dummy_data/test/nsynth-test.tfrecord": "",
    "tfds/robotics/dummy_data/bridge/1.0.0/bridge-train.tfrecord-00000-of-00001": "",
    "tfx/tfrecord_sequence/Split-eval/data_tfrecord_eval.gz": "GZIP",
}


def descriptions_of(features):
    """Every way to parse what some stored features hold."""
    held = {}
    for key, value in features:
        kind = value.WhichOneof("kind")
        if kind is not None:
            held.setdefault(key, []).append((kind, len(getattr(value, kind).value)))
    names = {"bytes_list": "string", "float_list": "float32", "int64_list": "int64"}
    dtypes_of = {key: names[lists[0][0]] for key, lists in held.items()}
    lengths = {key: {length for _, length in lists} for key, lists in held.items()}
    yield {key: ("VarLenFeature", {"dtype": dtype}) for key, dtype in dtypes_of.items()}
    yield {key: ("RaggedFeature", {"dtype": dtype}) for key, dtype in dtypes_of.items()}
    yield {
        key: ("FixedLenSequenceFeature", {"shape": [], "dtype": dtype, "allow_missing": True})
        for key, dtype in dtypes_of.items()
    }
    yield {
        key: ("FixedLenFeature", {"shape": [max(lengths[key])], "dtype": dtype})
        for key, dtype in dtypes_of.items()
    }


@pytest.mark.parametrize("name", FILES)
def test_files_of_others(tf, name):
    """Records that others wrote parse as tf.io parses them."""
    if not (CORPUS / name).exists():
        pytest.skip("the corpus is not there")
    data = tf.data.TFRecordDataset(str(CORPUS / name), FILES[name]).take(50)
    records = strings([record.numpy() for record in data])
    assert len(records)

    protos = [tf.train.SequenceExample.FromString(record) for record in records]
    context = [pair for proto in protos for pair in proto.context.feature.items()]
    steps = [
        (key, step)
        for proto in protos
        for key, value in proto.feature_lists.feature_list.items()
        for step in value.feature
    ]
    parsed = 0
    for described in descriptions_of(context) if context else ():
        parsed += check(tf, "parse_example", records, described) is not None
        check(tf, "parse_single_example", records[0], described)
    for described in descriptions_of(steps) if steps else ():
        parsed += check(tf, "parse_sequence_example", records, {}, described) is not None
        check(tf, "parse_single_sequence_example", records[0], {}, described)
    assert parsed >= 3
