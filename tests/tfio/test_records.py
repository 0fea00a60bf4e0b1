"""TFRecord files under the names of tf.io, against tf.io."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import given, strategies as st

import tensorferry as ferry
from tensorferry import tfio

RECORDS = st.lists(st.binary(max_size=300), max_size=20)
COMPRESSIONS = ["", "GZIP", "ZLIB"]


def test_signatures(tf):
    """The arguments are those of tf.io, in its order."""
    for ours, theirs in [
        (tfio.TFRecordOptions, tf.io.TFRecordOptions),
        (tfio.TFRecordWriter, tf.io.TFRecordWriter),
        (tfio.tf_record_iterator, tf.compat.v1.io.tf_record_iterator),
    ]:
        assert list(inspect.signature(ours).parameters) == list(
            inspect.signature(theirs).parameters
        )


@pytest.mark.parametrize("compression", COMPRESSIONS)
@given(records=RECORDS)
def test_tensorflow_reads_ours(tf, tmp_path_factory, compression, records):
    """TFRecordDataset gives back what TFRecordWriter was given."""
    path = str(tmp_path_factory.mktemp("records") / "file")
    with tfio.TFRecordWriter(path, tfio.TFRecordOptions(compression)) as writer:
        for record in records:
            writer.write(record)

    dataset = tf.data.TFRecordDataset(path, compression_type=compression)
    assert [record.numpy() for record in dataset] == records


@pytest.mark.parametrize("compression", COMPRESSIONS)
@given(records=RECORDS)
def test_reads_tensorflows(tf, tmp_path_factory, compression, records):
    """tf_record_iterator gives back what TensorFlow wrote; the same bytes, if uncompressed."""
    path = str(tmp_path_factory.mktemp("records") / "file")
    with tf.io.TFRecordWriter(path, compression) as writer:
        for record in records:
            writer.write(record)

    assert list(tfio.tf_record_iterator(path, compression)) == records
    if not compression:
        with open(path, "rb") as file:
            assert ferry.dumps(records, format="tfrecord") == file.read()


def test_unknown_compression():
    """What TensorFlow does not read is refused under its names."""
    with pytest.raises(ferry.UnsupportedError, match="ZSTD"):
        tfio.TFRecordOptions("ZSTD")


def test_nothing_appears_before_closing(tmp_path):
    """A writer that fails leaves no file."""
    with pytest.raises(ZeroDivisionError), tfio.TFRecordWriter(tmp_path / "file") as writer:
        writer.write(b"a")
        writer.flush()
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_record(tf, tmp_path):
    """What TensorFlow refuses as no bytes is refused likewise, and after closing everything is."""
    writers = tfio.TFRecordWriter(tmp_path / "ours"), tf.io.TFRecordWriter(str(tmp_path / "theirs"))
    for writer in writers:
        for wrong in ({"a": 1}, 5, None):
            with pytest.raises(TypeError):
                writer.write(wrong)
        writer.write(bytearray(b"x"))
        writer.close()
    with pytest.raises(ValueError, match="closed"):
        writers[0].write(b"x")
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_after_closing(tf, tmp_path):
    """A closed writer refuses what TensorFlow's refuses, and may be closed again as there."""

    def refused(writer) -> list[str]:
        writer.write(b"x")
        writer.close()
        met = []
        for name, arguments in (("write", [b"y"]), ("flush", []), ("close", [])):
            try:
                getattr(writer, name)(*arguments)
            except (ValueError, tf.errors.FailedPreconditionError) as error:
                assert "closed" in str(error)
                met.append(name)
        return met

    ours = refused(tfio.TFRecordWriter(tmp_path / "ours"))
    assert ours == refused(tf.io.TFRecordWriter(str(tmp_path / "theirs"))) == ["write", "flush"]
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
