"""Ops of SavedModels that do more than compute, whatever hides them."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hostile.graphs import change, refused, write
from tensorflow.core.protobuf import saved_model_pb2

import tensorferry as ferry
from tensorferry.errors import FormatError


def test_graphs_in_strings(tmp_path):
    """A graph in a string is run by the op that makes a dataset of it, and no list shows it."""
    trace = tmp_path / "trace"

    def leave_trace(x):
        with tf.control_dependencies([tf.io.write_file(str(trace), "here")]):
            return tf.identity(x)

    dataset = tf.data.Dataset.from_tensors(1.0).map(leave_trace)
    hidden = tf.raw_ops.DatasetToGraphV2(
        input_dataset=dataset._variant_tensor, external_state_policy=1
    ).numpy()

    def run(x, module):
        nothing = tf.strings.substr(tf.strings.as_string(x), 0, 0)  # or else it is folded
        made = tf.raw_ops.DatasetFromGraph(graph_def=tf.strings.join([hidden, nothing]))
        (value,) = tf.raw_ops.DatasetToSingleElement(
            dataset=made, output_types=[tf.float32], output_shapes=[[]]
        )
        return {"y": x + value}

    path = write(tmp_path / "model", run)
    error = refused(path, "dataset", "graph")
    assert "DatasetFromGraph runs a program that stands in a string" in error.message
    assert not trace.exists()
    model = ferry.load_model(path, allow=("dataset", "graph"))
    assert model(np.float32(1))["y"] == 2
    assert trace.exists()


def sampler(secret):
    """Reads a vocabulary that an attribute names."""
    return tf.raw_ops.FixedUnigramCandidateSampler(
        true_classes=[[1]],
        num_true=1,
        num_sampled=2,
        unique=False,
        range_max=3,
        vocab_file=secret,
    )[1]


def decoder(secret):
    """Reads descriptors from a path in an attribute."""
    return tf.raw_ops.DecodeProtoV2(
        bytes=[b""],
        message_type="a.B",
        field_names=[],
        output_types=[],
        descriptor_source=secret,
    ).sizes


def matrix(secret):
    """Maps a file that an attribute names."""
    return tf.raw_ops.ImmutableConst(dtype=tf.float32, shape=[1], memory_region_name=secret)


@pytest.mark.parametrize("make", [sampler, decoder, matrix])
def test_paths_in_attributes(tmp_path, make):
    """Ops that read a file named by an attribute are known."""
    secret = tmp_path / "secret"
    secret.write_text("a,1\nb,1\nc,1\n")

    def run(x, module):
        return {"y": tf.cast(make(str(secret)), tf.float32) + x}

    refused(write(tmp_path / "model", run), "read")


def test_attributes_without_a_path(tmp_path, capfd):
    """The same op is fine if its attribute names no file, and so is printing to the screen."""

    def run(x, module):
        tf.print("seen:", x)
        sampled = tf.random.fixed_unigram_candidate_sampler([[1]], 1, 2, False, 3, unigrams=[1] * 3)
        return {"y": x + tf.reduce_sum(sampled.true_expected_count)}

    model = ferry.load_model(write(tmp_path / "model", run))
    assert model(np.float32(1))["y"] > 1
    assert "seen: 1" in capfd.readouterr().err


def test_printing_to_a_file(tmp_path):
    """tf.print writes to any path; nobody notices in the list of ops."""
    trace = tmp_path / "trace"

    def run(x, module):
        tf.print("here", output_stream=f"file://{trace}")
        return {"y": x}

    error = refused(write(tmp_path / "model", run), "write")
    assert "PrintV2 writes files" in error.message
    assert not trace.exists()


def test_attributes_in_two_parts(tmp_path):
    """Protobuf merges an entry that has two values; whoever sees the last alone is misled."""

    def run(x, module):
        tf.print("here", output_stream="file:///tmp/tensorferry-trace")
        return {"y": x}

    path = write(tmp_path / "model", run)
    data = (path / "saved_model.pb").read_bytes()
    value = b"file:///tmp/tensorferry-trace"
    entry = b"\n\routput_stream\x12\x1f\x12\x1d" + value
    assert entry in data
    # The same length: the name of the file is shorter, and an empty second value follows.
    two = b"\n\routput_stream\x12\x1d\x12\x1b" + value[:27] + b"\x12\x00"
    (path / "saved_model.pb").write_bytes(data.replace(entry, two))
    parsed = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    assert value[:27] in parsed.SerializeToString()
    with pytest.raises(FormatError, match="field 2 of an attribute comes twice"):
        ferry.load_model(path, allow=True)


def test_ops_that_end_the_process(tmp_path):
    """A call of such a model would end whoever serves it."""

    def run(x, module):
        with tf.control_dependencies([tf.raw_ops.Abort(error_msg="bye")]):
            return {"y": x + 1}

    error = refused(write(tmp_path / "model", run), "process")
    assert "the op Abort ends the process" in error.message


def test_ops_of_other_machines(tmp_path):
    """Debuggers, sends and collectives reach addresses that the file names."""

    def run(x, module):
        seen = tf.raw_ops.DebugIdentityV2(
            input=x, tfdbg_context_id="x", debug_urls=[f"file://{tmp_path}/trace"]
        )
        both = tf.raw_ops.CollectiveReduce(
            input=seen,
            group_size=2,
            group_key=1,
            instance_key=1,
            merge_op="Add",
            final_op="Id",
            subdiv_offsets=[0],
        )
        return {"y": both}

    refused(write(tmp_path / "model", run), "network")


def test_unknown_ops_are_refused_by_name(tmp_path):
    """An op that no list has is refused, even one that a newer TensorFlow may have."""

    def edit(graph):
        node = graph.graph_def.library.function[0].node_def.add(name="new", op="ReadFileV7")
        node.attr["T"].type = 1

    error = refused(change(write(tmp_path / "model", lambda x, module: {"y": x}), edit), "native")
    assert "the op ReadFileV7 is not TensorFlow's own" in error.message
