"""The program of a SavedModel of tensors: variables, and a signature that returns all of them.

    model = tf.saved_model.load("predictions")
    model.logits                                    a tf.Variable
    model.signatures["serving_default"]()           {"logits": ..., "text": ...}

What is written here is the part of saved_model.pb that TensorFlow needs for that:

    graph_def           a variable of each tensor, ops that restore and save them for TensorFlow 1
                        and Serving, and a function that reads them
    saver_def           the names of these ops
    signature_def       what the signature returns, by name
    object_graph_def    the same variables and the function as objects, for `tf.saved_model.load`

No op does more than read, restore or save variables. The values are in the checkpoint beside
(`tensorferry.formats.savedmodel.writer`), whose objects become those of the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from tensorferry.classes import NamedTuple
from tensorferry.codecs.protobuf import Writer, parse_schema
from tensorferry.dtypes import STRING, DType, as_dtype
from tensorferry.errors import UnsupportedError
from tensorferry.expressions import expression
from tensorferry.formats.checkpoint.graph import VALUE, Node
from tensorferry.formats.messages import STRUCTURES, TENSORS
from tensorferry.formats.savedmodel.messages import SCHEMA

MAX_SIZE = 2**31 - 1

SIGNATURES, SIGNATURE = "signatures", "serving_default"
FUNCTION = "__inference_signature_wrapper_0"
METHOD = "tensorflow/serving/predict"

OPS = frozenset(
    (
        *("Placeholder", "Const", "Identity", "NoOp", "RestoreV2", "SaveV2"),
        *("VarHandleOp", "ReadVariableOp", "AssignVariableOp"),
    )
)
"""All that are in a program of ours."""

# Messages with fields that readers do not look into.
_WRITTEN = """
MetaInfoDef: 4 tags *text
SaverDef: 1 filename_tensor_name text, 2 save_tensor_name text, 3 restore_op_name text,
    7 version uint
OpDef: 1 name text, 2 input_arg *ArgDef, 3 output_arg *ArgDef, 17 is_stateful bool
ArgDef: 1 name text, 3 type dtype, 17 handle_data *HandleData
HandleData: 1 dtype dtype, 2 shape TensorShapeProto
SavedUserObject: 1 identifier text, 2 version VersionDef
SavedConcreteFunction: 2 bound_inputs *int, 3 canonicalized_input_signature StructuredValue,
    4 output_signature StructuredValue
"""
_WRITER = Writer(parse_schema(TENSORS, STRUCTURES, SCHEMA, _WRITTEN))
_encode = _WRITER.encode

# That of TensorFlow 2.8: what is used here is older.
_VERSIONS = {"producer": 987, "min_consumer": 12}
_OBJECT = {"producer": 1, "min_consumer": 1}
_V2 = 2
_RESOURCE = as_dtype("resource")
_FILENAME, _SAVE, _RESTORE = "saver_filename", "save", "restore"

# The attributes by which TensorFlow tracks an object, or tells what kind it is: a variable cannot
# take their place.
TAKEN = frozenset(
    (
        *("_add_trackable_child", "_add_variable_with_custom_getter"),
        *("_checkpoint_adapter", "_checkpoint_dependencies", "_copy_trackable_to_cpu"),
        *("_deferred_dependencies", "_delete_tracking", "_deserialization_dependencies"),
        *("_deserialize_from_proto", "_export_to_saved_model_graph"),
        *("_gather_saveables_for_checkpoint", "_handle_deferred_dependencies"),
        *("_lookup_dependency", "_maybe_initialize_trackable"),
        *("_name_based_attribute_restore", "_name_based_restores", "_no_dependency"),
        *("_object_identifier", "_preload_simple_restoration", "_restore_from_tensors"),
        *("_self_name_based_restores", "_self_saveable_object_factories"),
        *("_self_setattr_tracking", "_self_unconditional_checkpoint_dependencies"),
        *("_self_unconditional_deferred_dependencies",),
        *("_self_unconditional_dependency_names", "_self_update_uid"),
        *("_serialize_to_proto", "_serialize_to_tensors", "_setattr_tracking"),
        *("_tf_api_names", "_tf_api_names_v1", "_track_trackable", "_trackable_children"),
        *("_tracking_metadata", "_unconditional_checkpoint_dependencies", "get_slot_names"),
        *("_unconditional_dependency_names", "_update_uid"),
    )
)
# At the root, beside those: what TensorFlow itself puts there.
_ROOT = frozenset(
    (SIGNATURES, "graph", "graph_debug_info", "tensorflow_git_version", "tensorflow_version")
)
# Of these TensorFlow has tensors, and no op that sets a variable.
UNSET = frozenset(("qint16", "quint16", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz"))
# What stands between the name of an object and that of an attribute, in the key of a checkpoint.
_ATTRIBUTES = ".ATTRIBUTES"
_SCOPE = expression(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
_SPECIAL = expression(r"\W")


class Held(NamedTuple):
    """A variable of the model.

    Attributes:
        name: Of its tensor, and of the result of the signature.
        key: In the checkpoint.
        dtype: Of its value.
        shape: Of its value.
    """

    name: str
    key: str
    dtype: DType
    shape: tuple[int, ...]


def encode(variables: Sequence[Held], nodes: Sequence[Node]) -> bytes:
    """The bytes of saved_model.pb.

    Args:
        variables: The tensors of the checkpoint.
        nodes: Its objects.

    Raises:
        UnsupportedError: TensorFlow could not set a variable of such a name or dtype.
    """
    for one in variables:
        if one.dtype.name in UNSET:
            raise UnsupportedError(
                f"TensorFlow has no variables of {one.dtype.name}",
                tensor=one.name,
                hint="a checkpoint (.ckpt) holds such tensors",
            )
    # The results of a function are in the order of their names.
    results = sorted(range(len(variables)), key=lambda number: variables[number].name)
    outputs = [
        {
            "key": one.name,
            "value": {
                "name": f"{_read(number)}:0",
                "dtype": one.dtype.enum,
                "tensor_shape": _shape(one.shape),
            },
        }
        for number, one in ((number, variables[number]) for number in results)
    ]
    signature = {"key": SIGNATURE, "value": {"outputs": outputs, "method_name": METHOD}}
    meta_graph = {
        "meta_info_def": {"tags": ["serve"]},
        "graph_def": {
            "node": [*_nodes(variables)],
            "library": {"function": [_function(variables, results)]},
            "versions": _VERSIONS,
        },
        "saver_def": {
            "filename_tensor_name": f"{_FILENAME}:0",
            "save_tensor_name": f"{_SAVE}:0",
            "restore_op_name": _RESTORE,
            "version": _V2,
        },
        "signature_def": [signature],
        "object_graph_def": _objects(variables, results, nodes),
    }
    data = _encode("SavedModel", saved_model_schema_version=1, meta_graphs=[meta_graph])
    if len(data) > MAX_SIZE:
        raise UnsupportedError(
            f"the names of {len(variables)} tensors make a program of {len(data)} bytes, and "
            "TensorFlow parses less than 2 GiB",
            hint="a checkpoint (.ckpt) holds them",
        )
    return data


# Messages that come again and again


@lru_cache(maxsize=1024)
def _shape(shape: tuple[int, ...]) -> bytes:
    return _encode("TensorShapeProto", dim=[{"size": size} for size in shape])


@lru_cache(maxsize=1024)
def _kind(key: str, dtype: DType) -> bytes:
    """An attribute that is a dtype."""
    return _encode("AttrEntry", key=key, value={"type": dtype.enum})


def _kinds(variables: Sequence[Held]) -> dict[str, Any]:
    """An attribute with the dtypes of all variables."""
    return {"key": "dtypes", "value": {"list": {"type": [one.dtype.enum for one in variables]}}}


def _node(name: str, op: str, inputs: Sequence[str] = (), attributes: Sequence[Any] = ()) -> bytes:
    return _encode("NodeDef", name=name, op=op, input=inputs, attr=attributes)


def _texts(name: str, texts: Sequence[str]) -> bytes:
    """A constant of strings."""
    tensor = {
        "dtype": STRING.enum,
        "tensor_shape": _shape((len(texts),)),
        "string_val": [text.encode() for text in texts],
    }
    value = {"key": "value", "value": {"tensor": tensor}}
    return _node(name, "Const", (), [value, _kind("dtype", STRING)])


# The graph


def _variable(number: int) -> str:
    return f"variable_{number}"


def _read(number: int) -> str:
    return f"variable_{number}/read"


def _nodes(variables: Sequence[Held]) -> Iterator[bytes]:
    """The variables, and the ops of TensorFlow 1 that restore and save all of them."""
    scalar = {"key": "shape", "value": {"shape": _shape(())}}
    yield _node(_FILENAME, "Placeholder", (), [_kind("dtype", STRING), scalar])
    for number, one in enumerate(variables):
        name, dtype = _variable(number), _kind("dtype", one.dtype)
        shape = {"key": "shape", "value": {"shape": _shape(one.shape)}}
        shared = {"key": "shared_name", "value": {"s": name.encode()}}
        yield _node(name, "VarHandleOp", (), [dtype, shape, shared])
        yield _node(_read(number), "ReadVariableOp", [name], [dtype])
    restored: list[str] = []
    saved: list[str] = []
    if variables:
        given, dtypes = [_FILENAME, "keys", "slices"], _kinds(variables)
        yield _texts("keys", [one.key for one in variables])
        yield _texts("slices", [""] * len(variables))
        yield _node("restored", "RestoreV2", given, [dtypes])
        for number, one in enumerate(variables):
            inputs, dtype = [_variable(number), f"restored:{number}"], _kind("dtype", one.dtype)
            name = f"{_variable(number)}/assign"
            yield _node(name, "AssignVariableOp", inputs, [dtype])
            restored.append(f"^{name}")
        reads = [_read(number) for number in range(len(variables))]
        yield _node("saved", "SaveV2", [*given, *reads], [dtypes])
        saved.append("^saved")
    yield _node(_RESTORE, "NoOp", restored)
    yield _node(_SAVE, "Identity", [_FILENAME, *saved], [_kind("T", STRING)])


def _function(variables: Sequence[Held], results: Sequence[int]) -> bytes:
    """The function of the signature: it takes all variables, and returns their values.

    Args:
        variables: Its arguments.
        results: The numbers of the variables in the order in which their values are returned.
    """
    arguments = [
        {
            "name": f"resource_{number}",
            "type": _RESOURCE.enum,
            "handle_data": [{"dtype": one.dtype.enum, "shape": _shape(one.shape)}],
        }
        for number, one in enumerate(variables)
    ]
    returned, nodes, returns = [], [], []
    for number in results:
        dtype = variables[number].dtype
        result, copy, read = f"result_{number}", f"copy_{number}", f"read_{number}"
        returned.append({"name": result, "type": dtype.enum})
        nodes.append(_node(read, "ReadVariableOp", [f"resource_{number}"], [_kind("dtype", dtype)]))
        nodes.append(_node(copy, "Identity", [f"{read}:value:0"], [_kind("T", dtype)]))
        returns.append({"key": result, "value": f"{copy}:output:0"})
    signature = {
        "name": FUNCTION,
        "input_arg": arguments,
        "output_arg": returned,
        "is_stateful": True,
    }
    return _encode("FunctionDef", signature=signature, node_def=nodes, ret=returns)


# The objects


def _objects(
    variables: Sequence[Held], results: Sequence[int], nodes: Sequence[Node]
) -> dict[str, Any]:
    """The objects of the checkpoint, and behind them the signature."""
    numbers = {one.key: number for number, one in enumerate(variables)}
    places: dict[int, int] = {}  # the object of each variable
    paths = [""] * len(nodes)  # each with a slash behind it
    objects: list[dict[str, Any]] = []
    for place, node in enumerate(nodes):
        held = next((numbers[key] for name, _, key in node.attributes if name == VALUE), None)
        kind: dict[str, Any] = _user_object("_generic_user_object")
        if held is not None:
            if node.children:
                _refuse_below(variables[held].name, next(iter(node.children)))
            kind, places[held] = {"variable": _saved_variable(variables[held])}, place
        for name, number in node.children.items():
            paths[number] = f"{paths[place]}{name}/"
        children = [_child(number, name, paths[place]) for name, number in node.children.items()]
        objects.append({"children": children, **kind})
    last = len(objects)
    objects[0]["children"].append({"node_id": last, "local_name": SIGNATURES})
    signatures = [{"node_id": last + 1, "local_name": SIGNATURE}]
    objects.append({"children": signatures, **_user_object("signature_map")})
    objects.append({"bare_concrete_function": {"concrete_function_name": FUNCTION}})
    concrete = {
        "bound_inputs": [places[number] for number in range(len(variables))],
        "canonicalized_input_signature": {
            "tuple_value": {"values": [{"tuple_value": {}}, {"dict_value": {}}]}
        },
        "output_signature": {
            "dict_value": {"fields": [_result(variables[number]) for number in results]}
        },
    }
    functions = [{"key": FUNCTION, "value": concrete}]
    return {"nodes": objects, "concrete_functions": functions}


def _refuse_below(name: str, child: str) -> None:
    raise UnsupportedError(
        f"{name!r} is a tensor, too, and TensorFlow restores nothing below a variable",
        tensor=f"{name}/{child}",
        hint="rename or drop one of the two; a checkpoint (.ckpt) holds both",
    )


def _user_object(identifier: str) -> dict[str, Any]:
    return {"user_object": {"identifier": identifier, "version": _OBJECT}}


def _saved_variable(one: Held) -> dict[str, Any]:
    return {
        "dtype": one.dtype.enum,
        "shape": _shape(one.shape),
        "trainable": True,
        # TensorFlow makes a scope of it.
        "name": one.name if _SCOPE.fullmatch(one.name) else None,
    }


def _child(number: int, name: str, above: str) -> dict[str, Any]:
    """A reference to an object, which becomes an attribute of the one above.

    Args:
        number: Of the object.
        name: Of the attribute.
        above: The path of the other object, for errors; empty for the root.
    """
    if name.endswith(_ATTRIBUTES):
        raise UnsupportedError(
            f"{name!r} ends like the name of an attribute, which TensorFlow does not restore",
            tensor=f"{above}{name}",
            hint="rename it; a checkpoint (.ckpt) holds tensors of every name",
        )
    if name in TAKEN or name.startswith("__") or (not above and name in _ROOT):
        raise UnsupportedError(
            f"{name!r} is an attribute of every object that TensorFlow loads",
            tensor=f"{above}{name}",
            hint="rename it: the tensors of a SavedModel are attributes of the loaded object",
        )
    return {"node_id": number, "local_name": name}


def _result(one: Held) -> dict[str, Any]:
    spec = {
        "name": _SPECIAL.sub("_", one.name),
        "shape": _shape(one.shape),
        "dtype": one.dtype.enum,
    }
    return {"key": one.name, "value": {"tensor_spec_value": spec}}
