"""SavedModels that hide what they do in functions, and in objects that name them."""

from __future__ import annotations

import pytest
import tensorflow as tf
from hostile.graphs import change, refused, write, write_v1


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
