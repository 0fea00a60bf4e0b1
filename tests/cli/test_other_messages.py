"""TFRecords of other messages than Examples, which parse as Examples without features.

Protobuf passes over fields that it does not know. DeepVariant's `CallVariantsOutput` has a message
in its field 1, as Examples have, and that message has no field 1.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import tensorferry as ferry


@pytest.fixture(scope="module")
def message():
    """The class of a message as DeepVariant writes them, made by protobuf itself."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="calls.proto", package="calls", syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto
    variant = file.message_type.add(name="Variant")
    for name, number, kind in (
        ("reference_bases", 6, field.TYPE_STRING),
        ("end", 13, field.TYPE_INT64),
        ("reference_name", 14, field.TYPE_STRING),
        ("start", 16, field.TYPE_INT64),
    ):
        variant.field.add(name=name, number=number, type=kind, label=field.LABEL_OPTIONAL)
    output = file.message_type.add(name="Output")
    output.field.add(
        name="variant",
        number=1,
        type=field.TYPE_MESSAGE,
        type_name=".calls.Variant",
        label=field.LABEL_OPTIONAL,
    )
    output.field.add(
        name="probabilities", number=3, type=field.TYPE_DOUBLE, label=field.LABEL_REPEATED
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("calls.Output"))


@pytest.fixture
def calls(message, tmp_path):
    """Two files of different messages, of the same number."""

    def write(name: str, first: int):
        path = tmp_path / name
        with ferry.writer(path, durable=False) as out:
            for start in range(first, first + 30):
                record = message(probabilities=[0.9, 0.1])
                record.variant.reference_name = "chr20"
                record.variant.start, record.variant.end = start, start + 1
                record.variant.reference_bases = "A"
                out.write(record.SerializeToString())
        return path

    return write("a.tfrecord", 100), write("b.tfrecord", 200)


def test_tensorflow_takes_them_for_examples(calls):
    """What this is about: TensorFlow parses each as an Example without features."""
    import tensorflow as tf

    for record in tf.data.TFRecordDataset(str(calls[0])).take(3):
        assert not tf.train.Example.FromString(record.numpy()).features.feature


def test_every_command_sees_bytes(call, calls, tmp_path):
    """All commands agree: 30 records, one column with their bytes, and a note that says so."""
    first, second = calls
    with ferry.open(first, raw=True) as records:
        expected = list(records)

    info = json.loads(call("info", first, "--json").out)["files"][0]
    assert info["count"] == 30
    assert [tensor["name"] for tensor in info["tensors"]] == ["record"]
    assert "record 0 is no Example: it has no features" in info["notes"][0]

    rows = [json.loads(line) for line in call("head", first, "-n", 30).out.splitlines()]
    assert len(rows) == 30
    assert all(list(row) == ["record"] for row in rows)

    stats = json.loads(call("stats", first, "--json").out)["files"][0]
    (column,) = stats["columns"]
    assert (column["name"], column["values"]["count"]) == ("record", 30)
    assert column["values"]["distinct"] == len(set(expected))

    assert call("diff", first, second).code == 1
    assert call("diff", first, first).code == 0

    own = tmp_path / "own.npz"
    ferry.save({"record": np.array(expected, object)}, own, durable=False)
    digests = [call("hash", path).out.split()[0] for path in (first, second, own)]
    assert digests[0] == digests[2] != digests[1]

    assert "record" in call("schema", first).out

    table = tmp_path / "out.parquet"
    assert call("convert", first, table, "--verify").code == 0
    import pyarrow.parquet as pq

    assert pq.read_table(table)["record"].to_pylist() == expected


def test_open_refuses_them(calls):
    """The library says so, too: a record without features is no row without columns."""
    with (
        ferry.open(calls[0]) as records,
        pytest.raises(ferry.FormatError, match="record 0 is no Example: it has no features"),
    ):
        list(records)


@pytest.mark.parametrize("infer", ["first", "all"])
def test_one_among_examples(message, tmp_path, infer):
    """A message among Examples that each have other features is found; empty records are fine."""
    import tensorflow as tf

    path = tmp_path / "mixed.tfrecord"

    def made(name: str) -> bytes:
        feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 2]))
        features = tf.train.Features(feature={name: feature})
        return tf.train.Example(features=features).SerializeToString()

    stranger = message(probabilities=[0.5])
    stranger.variant.start = 7
    records = [made("a"), b"", made("b"), b"\n\0", made("c")]

    def schema(given: list[bytes], **options):
        with ferry.writer(path, durable=False) as out:
            for record in given:
                out.write(record)
        with ferry.open(path, infer=infer, **options) as found:
            return list(found.schema)

    assert schema(records) == ["a", "b", "c"]
    records.insert(3, stranger.SerializeToString())
    with pytest.raises(ferry.FormatError, match="record 3 is no Example"):
        schema(records)
    assert schema(records, on_error="skip") == ["a", "b", "c"]
