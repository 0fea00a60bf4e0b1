"""SavedModels that hide what they do: each attack is a file that TensorFlow itself would run."""

from __future__ import annotations

import gc
import os
import shutil
import stat

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import tensorferry as ferry
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.models import private

v1 = tf.compat.v1
FLOAT = tf.TensorSpec([], tf.float32)


def refused(path, *kinds, **options):
    """The error for a model; nothing but these kinds of danger are named."""
    with pytest.raises(UnsupportedError, match="was not loaded, because") as caught:
        ferry.load_model(path, **options)
    lines = caught.value.message.splitlines()[1:]
    assert {line.strip().partition(":")[0] for line in lines} == set(kinds), lines
    return caught.value


def write(path, function, spec=FLOAT, **parts):
    """A SavedModel of one function, by TensorFlow itself."""
    module = tf.Module()
    module.value = tf.Variable([1.0, 2.0])
    for name, part in parts.items():
        setattr(module, name, part)
    module.run = tf.function(lambda x: function(x, module), input_signature=[spec])
    tf.saved_model.save(module, str(path), signatures={"serving_default": module.run})
    return path


def change(path, edit):
    """Edits the message of a model."""
    file = path / "saved_model.pb"
    message = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    edit(message.meta_graphs[0])
    file.write_bytes(message.SerializeToString())
    return path


def write_v1(path, build, edit=None):
    """A SavedModel of TensorFlow 1.

    Args:
        path: Of the model.
        build: Adds to the graph and gives the outputs, from the input and the variable.
        edit: Changes the MetaGraph.
    """
    graph = tf.Graph()
    with graph.as_default(), v1.Session(graph=graph) as session:
        x = v1.placeholder(tf.float32, [], name="x")
        variable = v1.get_variable("v", initializer=2.0, use_resource=True)
        outputs = build(x, variable)
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(path))
        infos = {name: v1.saved_model.build_tensor_info(one) for name, one in outputs.items()}
        signature = v1.saved_model.build_signature_def(
            {"x": v1.saved_model.build_tensor_info(x)}, infos, "tensorflow/serving/predict"
        )
        builder.add_meta_graph_and_variables(
            session, ["serve"], signature_def_map={"serving_default": signature}
        )
        builder.save()
    return path if edit is None else change(path, edit)


def saving(target):
    """An op that writes a file, although it looks as if it saved variables."""
    return tf.raw_ops.SaveV2(
        prefix=str(target), tensor_names=["x"], shape_and_slices=[""], tensors=[tf.constant(1.0)]
    )


# Ops


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


def test_functions_that_the_model_does_not_have(tmp_path):
    """A function is one of the model's own library, not an op or one that the process has."""

    def edit(graph):
        for function in graph.graph_def.library.function:
            for node in function.node_def:
                if node.op == "StatefulPartitionedCall" and "run" in function.signature.name:
                    node.attr["f"].func.name = "WriteFile"
                    return
        function = graph.graph_def.library.function[0]
        node = function.node_def.add(name="call", op="PartitionedCall")
        node.attr["f"].func.name = "WriteFile"

    path = change(write(tmp_path / "model", lambda x, module: {"y": x}), edit)
    error = refused(path, "native")
    assert "calls the function 'WriteFile', which is not in the model" in error.message


def test_functions_with_the_name_of_an_op(tmp_path):
    """A function called as an op would hide every use of that op."""

    def edit(graph):
        graph.graph_def.library.function.add().signature.name = "ReadFile"
        node = graph.graph_def.library.function[0].node_def.add(name="read", op="ReadFile")
        node.input.append("x")

    path = change(write(tmp_path / "model", lambda x, module: {"y": x}), edit)
    error = refused(path, "native")
    assert "the function ReadFile has the name of an op" in error.message


# What is run when a model is loaded by its graph


def test_a_plain_graph_of_tensorflow_1(tmp_path):
    """Without a trick, such a model is loaded: its restore op reads its variables."""
    path = write_v1(tmp_path / "model", lambda x, variable: {"y": x * variable})
    assert ferry.load_model(path)(np.float32(4))["y"] == 8


def test_restore_ops(tmp_path):
    """The restore op is run when a model is loaded; it may be any op that the file names."""
    trace = tmp_path / "trace"

    def build(x, variable):
        with tf.control_dependencies([saving(trace)]):
            tf.no_op("evil")
        return {"y": x * variable}

    def edit(graph):
        graph.saver_def.restore_op_name = "evil"

    path = write_v1(tmp_path / "model", build, edit)
    error = refused(path, "write")
    assert "SaveV2 writes files that are not the model's own" in error.message
    assert not os.path.exists(f"{trace}.index")


def test_restore_ops_that_read_other_files(tmp_path):
    """The restore op reads the variables of the model, no path that the file has."""

    def edit(graph):
        nodes = graph.graph_def.node
        path = nodes.add(name="path", op="Const")
        path.attr["dtype"].type = tf.string.as_datatype_enum
        path.attr["value"].tensor.CopyFrom(tf.make_tensor_proto("/secret/variables"))
        for node in nodes:
            if node.op == "RestoreV2":
                node.input[0] = "path"

    path = write_v1(tmp_path / "model", lambda x, variable: {"y": x * variable}, edit)
    error = refused(path, "read")
    assert "RestoreV2 reads files that are not the model's own" in error.message


@pytest.mark.parametrize(
    "collection", ["table_initializer", "legacy_init_op", "saved_model_main_op"]
)
def test_initializers(tmp_path, collection):
    """Whatever a collection of initializers has is run when a model is loaded."""

    def build(x, variable):
        with tf.control_dependencies([saving(tmp_path / "trace")]):
            tf.no_op("evil")
        return {"y": x * variable}

    def edit(graph):
        graph.collection_def[collection].node_list.value[:] = ["evil"]

    refused(write_v1(tmp_path / "model", build, edit), "write")


def test_initializers_of_local_variables(tmp_path):
    """Local variables are initialized when a model is loaded that has no other initializer."""

    def build(x, variable):
        with tf.control_dependencies([saving(tmp_path / "trace")]):
            value = tf.constant(1.0)
        v1.get_variable(
            "local",
            initializer=lambda: tf.identity(value),
            collections=[v1.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
        )
        with tf.control_dependencies([saving(tmp_path / "trace")]):
            v1.local_variables()[0].assign(value, name="assign")
        return {"y": x * variable}

    refused(write_v1(tmp_path / "model", build), "write")


def test_outputs_in_parts(tmp_path):
    """A sparse output is three tensors, each of which is computed."""

    def build(x, variable):
        with tf.control_dependencies([saving(tmp_path / "trace")]):
            values = tf.reshape(x, [1])
        return {"y": tf.SparseTensor([[0]], values, [1])}

    refused(write_v1(tmp_path / "model", build), "write")


def build_table(secret, swap=False, called=True):
    """A table of a file whose path is a constant, filled in a call or by an initializer."""

    def build(x, variable):
        path = tf.constant(str(secret), name="path")
        other = tf.constant("other", name="other")
        table = tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64)
        given = tf.raw_ops.IdentityN(input=[other, path], name="both")[1] if swap else path
        filled = tf.raw_ops.InitializeTableFromTextFileV2(
            table_handle=table, filename=given, key_index=-2, value_index=-1
        )
        with tf.control_dependencies([filled]):
            tf.no_op("fill")
        with tf.control_dependencies([filled] if called else []):
            keys, _ = tf.raw_ops.LookupTableExportV2(
                table_handle=table, Tkeys=tf.string, Tvalues=tf.int64
            )
        return {"y": x * variable, "keys": keys}

    return build


def as_asset(tensor):
    """Says that a tensor is the path of an asset, and fills the table when the model is loaded."""

    def edit(graph):
        asset = graph.asset_file_def.add(filename="words.txt")
        asset.tensor_info.name = tensor
        graph.collection_def["legacy_init_op"].node_list.value[:] = ["fill"]

    return edit


def test_constants_that_pose_as_assets(tmp_path):
    """An asset's path is given to initializers alone: a call reads what the constant says."""
    secret = tmp_path / "secret"
    secret.write_text("password\n")
    path = write_v1(tmp_path / "model", build_table(secret), as_asset("path:0"))
    (path / "assets").mkdir()
    (path / "assets/words.txt").write_text("a\nb\n")
    error = refused(path, "read")
    assert "InitializeTableFromTextFileV2 reads files that are not the model's own" in error.message


def test_assets_of_initializers(tmp_path):
    """The same table is fine if an initializer alone fills it."""
    build = build_table(tmp_path / "secret", called=False)
    path = write_v1(tmp_path / "model", build, as_asset("path:0"))
    (path / "assets").mkdir()
    (path / "assets/words.txt").write_text("a\nb\n")
    found = ferry.load_model(path)(np.float32(1))
    assert sorted(found["keys"].tolist()) == [b"a", b"b"]


@pytest.mark.parametrize("tensor", ["other:0", "both:0", "path:1"])
def test_another_tensor_of_the_same_node(tmp_path, tensor):
    """An asset is one tensor: neither another output of its node nor another input."""
    secret = tmp_path / "secret"
    secret.write_text("password\n")
    build = build_table(secret, swap=True, called=False)
    path = write_v1(tmp_path / "model", build, as_asset(tensor))
    (path / "assets").mkdir()
    (path / "assets/words.txt").write_text("a\nb\n")
    refused(path, "read")


def test_assets_in_collections(tmp_path):
    """Old models have their assets in a collection, where a name may lead out, too."""
    from tensorflow.core.protobuf import meta_graph_pb2

    def edit(graph):
        asset = meta_graph_pb2.AssetFileDef(filename="../../secret")
        asset.tensor_info.name = "path:0"
        graph.collection_def["saved_model_assets"].any_list.value.add().Pack(asset)
        graph.collection_def["legacy_init_op"].node_list.value[:] = ["fill"]

    build = build_table(tmp_path / "secret", called=False)
    refused(write_v1(tmp_path / "model", build, edit), "asset")


def test_several_graphs_with_objects(tmp_path):
    """TensorFlow loads the second of two graphs by its nodes, whatever objects it has."""
    path = write(tmp_path / "model", lambda x, module: {"y": x + module.value})
    file = path / "saved_model.pb"
    message = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    other = message.meta_graphs.add()
    other.CopyFrom(message.meta_graphs[0])
    other.meta_info_def.tags[:] = ["train"]
    first = message.meta_graphs[0]
    saves = next(
        node.name
        for node in first.graph_def.node
        if "save" in node.attr["f"].func.name and "restore" not in node.attr["f"].func.name
    )
    first.collection_def["saved_model_main_op"].node_list.value[:] = [saves]
    file.write_bytes(message.SerializeToString())
    refused(path, "write", tags=["serve"])


# What is run when a model is loaded by its objects


def test_functions_that_only_an_object_names(tmp_path):
    """The function that saves is called by no object; one that names it would run it."""

    def edit(graph):
        saves = next(
            one.signature.name
            for one in graph.graph_def.library.function
            if "traced_save" in one.signature.name
        )
        for node in graph.object_graph_def.nodes:
            if node.WhichOneof("kind") == "function":
                node.function.concrete_functions[:] = [saves]

    path = change(write(tmp_path / "model", lambda x, module: {"y": x + module.value}), edit)
    refused(path, "write")


def name_in_functions(name, functions):
    """Each attribute by which TensorFlow may run a function in the place of another."""
    functions[name].attr["api_implements"].s = b"same"


def name_in_a_text(name, functions):
    """The name of a function as a text."""
    for one in functions.values():
        one.attr["backward_function_name"].s = name.encode()


@pytest.mark.parametrize("edit_one", [name_in_functions, name_in_a_text])
def test_functions_in_the_place_of_others(tmp_path, edit_one):
    """A function that TensorFlow may exchange for one that is called is judged as if called."""

    def edit(graph):
        functions = {one.signature.name: one for one in graph.graph_def.library.function}
        edit_one(next(name for name in functions if "traced_save" in name), functions)

    path = change(write(tmp_path / "model", lambda x, module: {"y": x + module.value}), edit)
    refused(path, "write")


def test_functions_in_the_place_of_others_in_a_graph(tmp_path):
    """The same in a model of TensorFlow 1, which has functions that nothing calls."""

    def edit(graph):
        function = graph.graph_def.library.function.add()
        function.signature.name = "evil"
        function.attr["api_implements"].s = b"same"
        function.node_def.add(name="save", op="SaveV2")

    path = write_v1(tmp_path / "model", lambda x, variable: {"y": x * variable}, edit)
    refused(path, "write")


def test_gradients(tmp_path):
    """A gradient function is run when somebody trains the model on."""

    def edit(graph):
        library = graph.graph_def.library
        saves = next(
            one.signature.name for one in library.function if "traced_save" in one.signature.name
        )
        library.registered_gradients.add(gradient_func=saves, registered_op_type="x")

    path = change(write(tmp_path / "model", lambda x, module: {"y": x + module.value}), edit)
    refused(path, "write")


class Vocabulary(tf.Module):
    """A table that is filled from a file, by a function with a branch."""

    def __init__(self, path):
        super().__init__()
        column = tf.lookup.TextFileIndex
        initializer = tf.lookup.TextFileInitializer(
            path, tf.string, column.WHOLE_LINE, tf.int64, column.LINE_NUMBER
        )
        self.table = tf.lookup.StaticHashTable(initializer, -1)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def __call__(self, words):
        return self.table.lookup(words)


@pytest.fixture
def vocabulary(tmp_path):
    """A sound model with an asset."""
    (tmp_path / "words.txt").write_text("a\nb\n")
    tf.saved_model.save(Vocabulary(str(tmp_path / "words.txt")), str(tmp_path / "model"))
    return tmp_path / "model"


def test_branches_that_pass_something_else(vocabulary):
    """The first input of If is its condition, which may be the asset while another is the path."""

    def edit(graph):
        library = graph.graph_def.library
        for function in library.function:
            for node in function.node_def:
                if not node.op.startswith("InitializeTableFromTextFile"):
                    continue
                inner = library.function.add()
                inner.signature.name = "inner"
                inner.signature.input_arg.add(name="path", type=tf.string.as_datatype_enum)
                inner.signature.input_arg.add(name="table", type=tf.resource.as_datatype_enum)
                moved = inner.node_def.add()
                moved.CopyFrom(node)
                table, path = node.input[0], node.input[1]
                moved.input[:] = ["table", "path"]
                inner.control_ret["done"] = moved.name
                inner.signature.control_output.append("done")
                secret = function.node_def.add(name="secret", op="Const")
                secret.attr["dtype"].type = tf.string.as_datatype_enum
                secret.attr["value"].tensor.CopyFrom(tf.make_tensor_proto("/etc/passwd"))
                node.op = "If"
                node.attr.clear()
                node.input[:] = [path, "secret:output:0", table]
                for key in ("then_branch", "else_branch"):
                    node.attr[key].func.name = "inner"
                node.attr["Tcond"].type = tf.string.as_datatype_enum
                types = [tf.string.as_datatype_enum, tf.resource.as_datatype_enum]
                node.attr["Tin"].list.type[:] = types
                node.attr["Tout"].list.SetInParent()
                return

    refused(change(vocabulary, edit), "read")


def test_registered_classes_of_objects(tmp_path):
    """An object of a class that the program registered is not made because a file names it."""
    from tensorflow.python.saved_model import registration
    from tensorflow.python.trackable import autotrackable

    made = []

    @registration.register_serializable(package="mine")
    class Sender(autotrackable.AutoTrackable):
        @classmethod
        def _deserialize_from_proto(cls, **options):
            made.append(options)
            return cls()

    def edit(graph):
        graph.object_graph_def.nodes[1].registered_name = "mine.Sender"

    path = change(write(tmp_path / "model", lambda x, module: {"y": x}), edit)
    refused(path, "registered")
    assert not made


# Files


def test_the_judged_bytes_are_loaded(tmp_path, monkeypatch):
    """A file that is replaced after it was judged changes nothing: a private copy is loaded."""
    path = write(tmp_path / "model", lambda x, module: {"y": x + module.value})
    trace = tmp_path / "trace"

    def leave_trace(x, module):
        with tf.control_dependencies([tf.io.write_file(str(trace), "here")]):
            return {"y": x * 100}

    evil = write(tmp_path / "evil", leave_trace)
    copy = private.copy_savedmodel
    copies = []

    def race(program, *, links):
        made = copy(program, links=links)
        copies.append(made.path)
        assert stat.S_IMODE(os.stat(os.path.dirname(made.path)).st_mode) == 0o700
        shutil.rmtree(path)
        shutil.copytree(evil, path)
        return made

    monkeypatch.setattr(private, "copy_savedmodel", race)
    model = ferry.load_model(path)
    assert model(np.float32(1))["y"].tolist() == [2, 3]
    assert not trace.exists()
    assert model.path == str(path)
    del model
    gc.collect()
    assert not os.path.exists(copies[0])


def test_no_copy_stays_behind(tmp_path, monkeypatch):
    """A refused model, and a damaged one, leave no copy; errors name the file of the caller."""
    path = write(tmp_path / "model", lambda x, module: {"y": tf.io.read_file("/x")})
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    assert str(refused(path, "read")).startswith(f"{path}: ")
    index = path / "variables/variables.index"
    index.write_bytes(index.read_bytes()[:-9])
    with pytest.raises(FormatError) as caught:
        ferry.load_model(path, allow=True)
    assert caught.value.path == str(index)
    assert os.listdir(tmp_path / "temporary") == []


def test_assets_live_as_long_as_the_model(vocabulary, tmp_path):
    """What was loaded can be saved again, with its assets."""
    model = ferry.load_model(vocabulary)
    shutil.rmtree(vocabulary)
    tf.saved_model.save(model.model, str(tmp_path / "again"))
    assert ferry.load_model(tmp_path / "again")(["b"]).tolist() == [1]


def test_files_with_holes(tmp_path):
    """A file that is all hole takes no room in the copy, and its bytes are what they are."""
    path = write(tmp_path / "model", lambda x, module: {"y": x + module.value})
    (path / "assets").mkdir(exist_ok=True)
    with open(path / "assets/sparse", "wb") as file:
        for place in (0, 3 << 20, 1 << 40):
            file.seek(place)
            file.write(b"data")
    copy = private.copy_savedmodel(str(path / "saved_model.pb"), links=False)
    found = os.stat(f"{copy.path}/assets/sparse")
    assert found.st_size == (1 << 40) + 4
    assert found.st_blocks * 512 < 1 << 20
    with open(f"{copy.path}/assets/sparse", "rb") as file:
        for place in (0, 3 << 20, 1 << 40):
            file.seek(place)
            assert file.read(5) in (b"data\0", b"data")
    copy.remove()
    model = ferry.load_model(path)
    assert model(np.float32(1))["y"].tolist() == [2, 3]


def test_children_leave_the_copy(vocabulary, monkeypatch):
    """A forked process that ends does not take the files of its parent's model along."""
    copy = private.copy_savedmodel(str(vocabulary / "saved_model.pb"), links=False)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        copy.remove()
    assert os.path.exists(copy.path)
    copy.remove()
    assert not os.path.exists(os.path.dirname(copy.path))


def test_links_in_a_model(tmp_path):
    """Variables that are a link out of the model are refused; inside of it, links are fine."""
    path = write(tmp_path / "model", lambda x, module: {"y": x + module.value})
    index = path / "variables/variables.index"
    index.rename(path / "kept")
    index.symlink_to("../kept")
    assert ferry.load_model(path)(np.float32(1))["y"].tolist() == [2, 3]
    index.unlink()
    (path / "kept").rename(tmp_path / "elsewhere")
    index.symlink_to(tmp_path / "elsewhere")
    error = refused(path, "asset")
    assert (
        "it is a link that leads out of the model (in variables/variables.index)" in error.message
    )
    assert ferry.load_model(path, allow="asset")(np.float32(1))["y"].tolist() == [2, 3]


def test_links_of_a_cache(tmp_path):
    """A snapshot of Hugging Face is made of links to blobs, which are its own files."""
    snapshot = tmp_path / "models--me--it/snapshots/0123"
    blobs = tmp_path / "models--me--it/blobs"
    blobs.mkdir(parents=True)
    write(snapshot, lambda x, module: {"y": x + module.value})
    for number, file in enumerate(sorted(snapshot.rglob("*"))):
        if file.is_file():
            file.rename(blobs / str(number))
            file.symlink_to(os.path.relpath(blobs / str(number), file.parent))
    assert ferry.load_model(snapshot)(np.float32(1))["y"].tolist() == [2, 3]


def test_files_that_are_none(tmp_path, vocabulary):
    """Pipes and devices among the files of a model are not opened and waited for."""
    asset = vocabulary / "assets/words.txt"
    asset.unlink()
    os.mkfifo(asset)
    with pytest.raises(FormatError, match="is no regular file"):
        ferry.load_model(vocabulary, allow=True)
    asset.unlink()
    asset.write_text("a\n")
    (vocabulary / "saved_model.pb").unlink()
    os.mkfifo(vocabulary / "saved_model.pb")
    with pytest.raises(FormatError, match="is no regular file"):
        ferry.load_model(vocabulary, allow=True)


# What is fine


class Everything(tf.Module):
    """What models of every day do."""

    def __init__(self):
        super().__init__()
        keys, values = tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64)
        initializer = tf.lookup.KeyValueTensorInitializer(keys, values)
        self.table = tf.lookup.StaticVocabularyTable(initializer, 2)
        self.mutable = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
        self.count = tf.Variable(0, dtype=tf.int64)
        self.generator = tf.random.Generator.from_seed(1)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def text(self, lines):
        clean = tf.strings.regex_replace(tf.strings.lower(lines), "[^a-z ]", "")
        words = tf.strings.split(clean)
        return {
            "ids": self.table.lookup(words).to_tensor(-1),
            "codes": tf.strings.unicode_decode(clean, "UTF-8").to_tensor(),
            "hashed": tf.strings.to_hash_bucket_fast(clean, 10),
            "numbers": tf.strings.to_number(tf.strings.as_string(tf.strings.length(clean))),
        }

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32)])
    def flow(self, x):
        self.count.assign_add(1)
        tf.debugging.assert_all_finite(x, "finite")
        tf.debugging.assert_greater(tf.size(x), 0)
        total = tf.constant(0.0)
        for row in x:
            if tf.reduce_sum(row) > 0:
                total += tf.reduce_max(row)
        noise = tf.random.normal([2]) + self.generator.normal([2])
        mapped = tf.map_fn(lambda row: tf.sort(row), x)
        halves = tf.switch_case(tf.cast(self.count % 2, tf.int32), [lambda: x, lambda: x / 2])
        return {"total": total, "noise": noise, "mapped": mapped, "halves": halves}

    @tf.function(input_signature=[tf.TensorSpec([], tf.string)])
    def image(self, data):
        pixels = tf.io.decode_image(data, expand_animations=False, channels=3)
        return {"small": tf.image.resize(tf.ensure_shape(pixels, [None, None, 3]), [2, 2])}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def remember(self, words):
        self.mutable.insert(words, tf.range(tf.size(words, tf.int64)))
        return {"size": self.mutable.size(), "found": self.mutable.lookup(words)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def parse(self, records):
        features = {
            "x": tf.io.FixedLenFeature([2], tf.float32),
            "w": tf.io.VarLenFeature(tf.string),
        }
        parsed = tf.io.parse_example(records, features)
        return {"x": parsed["x"], "w": tf.sparse.to_dense(parsed["w"])}


def test_models_of_every_day(tmp_path):
    """Text, control flow, tables, images, random numbers, Examples: nothing of it is a danger."""
    module = Everything()
    names = ("text", "flow", "image", "remember", "parse")
    signatures = {name: getattr(module, name) for name in names}
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=signatures)
    model = ferry.load_model(tmp_path / "model")
    assert model.dangers == ()
    assert model.signatures["text"](["A b!"])["ids"].shape == (1, 2)
    assert model.signatures["flow"](np.ones((3, 4), "float32"))["total"] == 3
    assert model.signatures["remember"](["a", "b"])["size"] == 2
    data = tf.io.encode_png(np.zeros((4, 4, 3), "uint8")).numpy()
    assert model.signatures["image"](data)["small"].shape == (2, 2, 3)


def test_exports_of_keras(tmp_path):
    """Recurrent and preprocessing layers as Keras exports them."""
    import keras

    layers = keras.layers
    text = layers.TextVectorization(output_sequence_length=4, vocabulary=["a", "b"])
    inputs = keras.Input((), dtype="string")
    ids = text(inputs)
    x = layers.GRU(3)(layers.Dropout(0.5)(layers.Embedding(5, 3)(ids)))
    model = keras.Model(inputs, layers.Dense(2, "softmax")(layers.BatchNormalization()(x)))
    model.export(str(tmp_path / "text"), verbose=False)
    assert ferry.load_model(tmp_path / "text")(["a b"]).shape == (1, 2)
    stateful = keras.Sequential(
        [keras.Input(batch_shape=(2, 3, 4)), layers.LSTM(5, stateful=True), layers.Dense(1)]
    )
    stateful.export(str(tmp_path / "stateful"), verbose=False)
    found = ferry.load_model(tmp_path / "stateful")(np.ones((2, 3, 4), "float32"))
    assert found.shape == (2, 1)
