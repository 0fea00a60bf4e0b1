"""The object graph of a checkpoint: which objects hold which tensors.

`tf.train.Checkpoint` and Keras save objects, and keep beside their tensors a string scalar with a
TrackableObjectGraph, so that restoring finds each variable by its way from the root:

    1 nodes, the root first:
        1 children: 1 node_id | 2 local_name
        2 attributes: 1 name | 2 full_name | 3 checkpoint_key
        3 slot_variables: 1 original_variable_node_id | 2 slot_name | 3 slot_variable_node_id
        5 has_checkpoint_values: 1 value

The keys are these ways, in which a name's "." is ".." and its "/" is ".S":

    encoder/kernel/.ATTRIBUTES/VARIABLE_VALUE
    encoder/kernel/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE

A user is shown "encoder/kernel" for the first. The second, what an optimizer keeps for a variable,
is "optimizer/m/encoder/kernel".
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

from tensorferry import _native
from tensorferry.budget import allowed
from tensorferry.classes import NamedTuple
from tensorferry.codecs.protobuf import varint
from tensorferry.errors import FormatError
from tensorferry.expressions import expression
from tensorferry.formats.checkpoint.messages import WRITER, Reader
from tensorferry.tensors.infos import ROOT

KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
VALUE = "VARIABLE_VALUE"
# Lists in which layers and optimizers of Keras 3 hold variables that have a name elsewhere. The
# shortest way to a variable deep in a model, which is its key, is often one of an optimizer's.
REFERENCES = frozenset({"_trainable_variables", "_non_trainable_variables"})
_IN_REFERENCES = expression("(^|/)_(non_)?trainable_variables/")
# All such ways together are no longer: in a damaged graph they could be, by far.
MAX_WAYS = 1 << 24
ATTRIBUTES = ".ATTRIBUTES/"
SLOT = "/.OPTIMIZER_SLOT/"

_ESCAPED = expression(r"\.([.S])")
_VALUE_END = f"/{ATTRIBUTES}{VALUE}"

OBJECT = 1 << 12
"""As so many bytes each object counts."""

_NODE = WRITER.tag("TrackableObjectGraph", "nodes")
_CHILD, _ATTRIBUTE = (WRITER.tag("TrackableObject", name) for name in ("children", "attributes"))
_NODE_ID, _LOCAL_NAME = (WRITER.tag("ObjectReference", name) for name in ("node_id", "local_name"))
_ATTRIBUTE_TEXTS = [
    WRITER.tag("SerializedTensor", name) for name in ("name", "full_name", "checkpoint_key")
]
_HAS_VALUES = WRITER.encode("TrackableObject", has_checkpoint_values={"value": True})

# The names from the root to an object.
Path = tuple[str, ...]


class Slot(NamedTuple):
    """What an optimizer keeps for a variable.

    Attributes:
        variable: The name of the variable.
        optimizer: The name of the optimizer.
        slot: What it is, such as "m".
    """

    variable: str
    optimizer: str
    slot: str


def escape(name: str) -> str:
    """A local name as it stands in a key."""
    return name.replace(".", "..").replace("/", ".S")


def unescape(text: str) -> str:
    """Local names, with slashes between them, from a key."""
    if "." not in text:
        return text
    return _ESCAPED.sub(lambda found: "." if found[1] == "." else "/", text)


def key_of(path: Path) -> str:
    """The key of the variable at a path."""
    return "/".join((*map(escape, path), f"{ATTRIBUTES}{VALUE}"))


def describe(key: str) -> tuple[str, Slot | None]:
    """The name that a user is shown for a key, and the slot that it is."""
    way, found, attribute = key.rpartition(ATTRIBUTES)
    if not found or (way and not way.endswith("/")):
        return key, None
    owner, is_slot, slot = way.removesuffix("/").partition(SLOT)
    name = unescape(owner)
    if is_slot:
        optimizer, _, kind = slot.rpartition("/")
        described = Slot(name, unescape(optimizer), unescape(kind))
        shown = "/".join(filter(None, (described.optimizer, described.slot, name)))
        return shown if attribute == VALUE else f"{shown}/{attribute}", described
    if attribute != VALUE:
        return f"{name}/{attribute}" if name else attribute, None
    return name or ROOT, None


def names_of(
    keys: Collection[str], graph: Callable[[], Graph]
) -> tuple[dict[str, str], dict[str, Slot]]:
    """The keys of a checkpoint by the names that a user is shown, and the slots among them.

    Where two keys would have one name, the later one stays as it is.

    Args:
        keys: Of the tensors.
        graph: Gives the objects, if other names have to be looked for.
    """
    names: dict[str, str] = {}
    slots: dict[str, Slot] = {}
    # The first test is quicker, and nearly no key passes it.
    referred = {key for key in keys if "trainable_variables/" in key and _IN_REFERENCES.search(key)}
    better = _better_names(referred, graph()) if referred else {}
    for key in keys:
        if key in better and better[key] not in names:
            names[better[key]] = key
            continue
        name, slot = key.removesuffix(_VALUE_END), None
        if "." in name or len(name) == len(key):  # few
            name, slot = describe(key)
        if name in names:
            name = key
        names[name] = key
        if slot is not None:
            slots[name] = slot
    return names, slots


def _better_names(keys: Collection[str], graph: Graph) -> dict[str, str]:
    """Names for keys that lead through a list of references, from the ways that do not."""
    ways = find_ways([node.children for node in graph.nodes])
    room = MAX_WAYS
    better: dict[str, str] = {}
    for number in ways:
        for attribute, _, key in graph.nodes[number].attributes:
            if attribute != VALUE or key not in keys:
                continue
            names = []
            above = number
            while above > 0 and room > 0:
                above, name = ways[above]
                names.append(name)
                room -= len(name) + 1
            if room <= 0:
                return better
            better[key] = "/".join(reversed(names)) or ROOT
    return better


NO_CHILDREN: Mapping[str, int] = MappingProxyType({})


class Node(NamedTuple):
    """An object.

    Attributes:
        children: The numbers of other nodes, by name.
        attributes: Its tensors: the name there, the variable's own name, and the key of each.
        slots: Of an optimizer: the variable's node, the name and the node of each slot.
    """

    children: Mapping[str, int] = NO_CHILDREN
    attributes: Sequence[tuple[str, str, str]] = ()
    slots: Sequence[tuple[int, str, int]] = ()


# The same as `Node(...)`, in a third of the time.
_new: Any = tuple.__new__


class Graph:
    """The objects of a checkpoint.

    Args:
        data: A TrackableObjectGraph.

    Attributes:
        data: The same.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data

    @cached_property
    def natively(self) -> _native.TrackedObjects | None:
        """The same objects, parsed by native code; None if they are unusual."""
        most = min(allowed(len(self.data)) // OBJECT, sys.maxsize)
        return _native.tracked_objects(self.data, most=most)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self.nodes == other.nodes

    __hash__ = None  # type: ignore[assignment]  # its nodes have lists

    @cached_property
    def nodes(self) -> list[Node]:
        """The objects, the root first."""
        return _read_nodes(self.data)

    def full_names(self) -> dict[str, str]:
        """The variables' own names, such as "dense/kernel", by key."""
        return {key: full for node in self.nodes for _, full, key in node.attributes if full}


def find_ways(children: Sequence[Mapping[str, int]]) -> dict[int, tuple[int, str]]:
    """The object above each one, and its name there, on the shortest way from the root.

    Ways through a list of references are taken only where there is no other.

    Args:
        children: The numbers of others by name, for each object.
    """
    above = {0: (-1, "")} if children else {}
    queue = list(above)
    while queue:
        references = []
        for number in queue:
            for name, child in children[number].items():
                if name in REFERENCES:
                    references.append((number, name, child))
                elif child not in above:
                    above[child] = number, name
                    queue.append(child)
        queue = []
        for number, name, child in references:
            if child not in above:
                above[child] = number, name
                queue.append(child)
    return above


def parse(data: bytes) -> Graph:
    """The graph that a TrackableObjectGraph is.

    Raises:
        FormatError: It is none, or leads to objects that it does not have.
        LimitError: It has more objects than its bytes justify.
    """
    graph = Graph(data)
    if graph.natively is None:
        _ = graph.nodes  # which are unusual, or have the error
    return graph


def _read_nodes(data: bytes) -> list[Node]:
    reader = Reader(data)
    whole = (0, len(data))
    spans = reader.counted("TrackableObjectGraph", "nodes", whole, size=OBJECT, what="objects")
    count = len(spans)
    return [
        _new(Node, (find_children(children, slots, count), attributes, slots))
        if children or slots
        else _new(Node, (NO_CHILDREN, attributes, ()))  # nearly all: variables have none
        for children, attributes, slots, _ in reader.rows("TrackableObject", spans)
    ]


def find_children(
    references: Sequence[tuple[int, str]], slots: Sequence[tuple[int, str, int]], count: int
) -> Mapping[str, int]:
    """The children of an object by name.

    Args:
        references: Their numbers and names.
        slots: The slots of the object.
        count: How many objects there are.

    Raises:
        FormatError: The object leads to one that is not there.
    """
    children = {name: number for number, name in references}
    targets: Iterable[int] = children.values()
    if slots:
        targets = (*targets, *(target for first, _, last in slots for target in (first, last)))
    for target in targets:
        if not 0 <= target < count:
            raise FormatError(f"an object leads to object {target}, there are {count}")
    return children


# Writing


def encode(variables: Iterable[Path], containers: Iterable[Path] = ()) -> bytes:
    """The graph of variables at these paths, in the order in which TensorFlow numbers objects.

    Args:
        variables: From the root to each variable.
        containers: Objects beside those on the way, which may be empty.
    """
    root = _Object()
    for path in containers:
        root.reach(path)
    for path in variables:
        root.reach(path).path = path
    queue = [root]
    for number, found in enumerate(queue):
        found.number = number
        queue += found.children.values()
    return b"".join(_field(_NODE, found.encode()) for found in queue)


class _Object:
    def __init__(self) -> None:
        self.children: dict[str, _Object] = {}
        self.path: Path | None = None
        self.number = 0

    def reach(self, path: Path) -> _Object:
        found = self
        for name in path:
            following = found.children.get(name)
            if following is None:
                following = found.children[name] = _Object()
            found = following
        return found

    def encode(self) -> bytes:
        """Its node."""
        # Not through the writer, with which a graph takes 1.8 times as long to encode.
        parts = []
        for name, child in self.children.items():
            number = _NODE_ID + varint(child.number) if child.number else b""
            parts.append(_field(_CHILD, number + _field(_LOCAL_NAME, name.encode())))
        if self.path is not None:
            name, key = "/".join(self.path), key_of(self.path)
            texts = zip(_ATTRIBUTE_TEXTS, (VALUE, name, key), strict=True)
            attribute = b"".join(_field(tag, text.encode()) for tag, text in texts)
            parts.append(_field(_ATTRIBUTE, attribute))
        if parts:
            parts.append(_HAS_VALUES)
        return b"".join(parts)


def _field(tag: bytes, data: bytes) -> bytes:
    return tag + varint(len(data)) + data
