"""Keras layouts: which datasets of an HDF5 file are weights, and what Keras calls them.

Three ways to keep weights are in use:

    Keras 3      layers/dense/vars/0       groups by the attributes that lead to a layer, its
                                           variables by number; the layer's name is an attribute of
                                           `vars`
    Keras 2.12+  _layer_checkpoint_dependencies/dense/vars/0
    legacy       model_weights/first/first/kernel:0
                                           groups by the names of layers (attribute `layer_names`),
                                           variables by their own names (`weight_names`); without
                                           `model_weights` if there is no model in the file

A variable is called as in `variable.path` of Keras 3, "inner/dense/kernel": the names of the layers
that lead to it, without the model's, and its own. Files of Keras 3 have only its number; of Keras'
own layers the name follows from that. Otherwise, and where two would have the same name, it is
called by its path in the file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from tensorferry.classes import dataclass, field
from tensorferry.errors import FerryError, UnsupportedError
from tensorferry.formats.keras import config as keras_config

if TYPE_CHECKING:
    from tensorferry.codecs.hdf5.file import Node

VARIABLES = "vars"
OPTIMIZER = "optimizer"
LEGACY_MODEL, LEGACY_OPTIMIZER = "model_weights", "optimizer_weights"
LEGACY_TOP = "top_level_model_weights"
OLD_LAYERS = "_layer_checkpoint_dependencies"

_BIAS = "bias"
_KERNEL = ("kernel", _BIAS)
_CELL = ("kernel", "recurrent_kernel", _BIAS)

# The variables of Keras' own layers, in the order of their numbers; a bias may be missing.
VARIABLE_NAMES: dict[str, tuple[str, ...]] = {
    "dense": _KERNEL,
    "einsum_dense": _KERNEL,
    "query_dense": _KERNEL,  # in a MultiHeadAttention, which says nothing of their class
    "key_dense": _KERNEL,
    "value_dense": _KERNEL,
    "output_dense": _KERNEL,
    "conv1d": _KERNEL,
    "conv2d": _KERNEL,
    "conv3d": _KERNEL,
    "conv1d_transpose": _KERNEL,
    "conv2d_transpose": _KERNEL,
    "conv3d_transpose": _KERNEL,
    "depthwise_conv1d": _KERNEL,
    "depthwise_conv2d": _KERNEL,
    "separable_conv1d": ("depthwise_kernel", "pointwise_kernel", _BIAS),
    "separable_conv2d": ("depthwise_kernel", "pointwise_kernel", _BIAS),
    "embedding": ("embeddings",),
    "batch_normalization": ("gamma", "beta", "moving_mean", "moving_variance"),
    "layer_normalization": ("gamma", "beta"),
    "group_normalization": ("gamma", "beta"),
    "lstm_cell": _CELL,
    "gru_cell": _CELL,
    "simple_rnn_cell": _CELL,
    "normalization": ("mean", "variance", "count"),
    "p_re_lu": ("alpha",),
}

# Whether a layer has a variable is an option of these.
_OPTIONS = {"gamma": "scale", "beta": "center", _BIAS: "use_bias"}

# Groups of the file that are no layers.
TRAINING = (OPTIMIZER, "metrics")

Layout = Literal["keras3", "keras2", "legacy"]


@dataclass(frozen=True, slots=True)
class Link:
    """A member of a group that is kept elsewhere.

    Attributes:
        path: Where the link is in the file.
        error: Why it is not followed.
    """

    path: str
    error: UnsupportedError


Classes = Mapping[str, tuple[str, dict[str, Any]]]


@dataclass(slots=True)
class Found:
    """The weights of a file.

    Attributes:
        layout: Which of the three it has.
        datasets: By name, those of the model first; links stand for what they lead to.
        optimizer: The names among them that belong to the optimizer or to metrics.
        layers: The name of the layer that each group of variables belongs to.
    """

    layout: Layout
    datasets: dict[str, Node | Link] = field(default_factory=dict)
    optimizer: tuple[str, ...] = ()
    layers: dict[str, str] = field(default_factory=dict)


def weights_group(root: Node) -> Node | None:
    """The group that has a legacy file's layers; None for a file of another layout."""
    for group in (root, root.members.get(LEGACY_MODEL)):
        if group is not None and {"layer_names", "layer_names0"} & group.attributes.keys():
            return group
    return None


def find(root: Node, config: Any = None) -> Found:
    """The weights of a file.

    Args:
        root: Its outermost group.
        config: Of the model, where it is known.
    """
    group = weights_group(root)
    if group is None:
        return find_by_path([root], config)
    inner = config.get("config") if isinstance(config, dict) else None
    name = inner.get("name") if isinstance(inner, dict) else None
    return _find_legacy(root, group, f"{name}/")


# Legacy


def listed(group: Node, name: str) -> list[str]:
    """A list of names in an attribute, or in several if it is longer than one may be.

    Raises:
        FormatError: It is no list of strings.
    """
    attributes = group.attributes
    keys = [name]
    if name not in attributes:
        count = 0
        while f"{name}{count}" in attributes:
            count += 1
        keys = [f"{name}{number}" for number in range(count)]
    names: list[str] = []
    for key in keys:
        value = attributes[key]
        if value is None:  # an empty list is one of float64
            continue
        if not isinstance(value, list):
            group.file.fail(group.address, f"attribute {key!r} is no list of names")
        names += value
    return names


def _find_legacy(root: Node, group: Node, prefix: str) -> Found:
    found = Found("legacy")
    pairs: list[tuple[str, str, Node | Link]] = []
    layers = listed(group, "layer_names")
    for layer in [*layers, *([LEGACY_TOP] if LEGACY_TOP in group.members else [])]:
        inner = descend(group, layer)
        if isinstance(inner, Link):
            pairs.append((layer, layer, inner))
            continue
        found.layers[inner.path] = layer
        weights = listed(inner, "weight_names")
        # A layer may be listed without end, with all its weights.
        group.file.count(len(pairs) + len(weights), "weights of layers", group.address)
        pairs += [(layer, name, descend(inner, name)) for name in weights]
    names = [_without_output(name) for _, name, _ in pairs]
    if all(name.startswith(prefix) for name in names):
        names = [name.removeprefix(prefix) for name in names]
    counts = Counter(names)
    longer = [
        name if counts[name] == 1 else f"{layer}/{name}"
        for (layer, _, _), name in zip(pairs, names, strict=True)
    ]
    _add(found, longer, [node for _, _, node in pairs])
    found.optimizer = _add_optimizer(found, root)
    return found


def _add_optimizer(found: Found, root: Node) -> tuple[str, ...]:
    """Adds the values of the optimizer; what cannot be found of them hides no weights."""
    if LEGACY_OPTIMIZER in root.links:
        link = Link(LEGACY_OPTIMIZER, root.links[LEGACY_OPTIMIZER])
        return _add(found, [LEGACY_OPTIMIZER], [link])
    optimizer = root.members.get(LEGACY_OPTIMIZER)
    if optimizer is None:
        return ()
    try:
        listing = listed(optimizer, "weight_names")
    except FerryError as error:
        return _add(found, [LEGACY_OPTIMIZER], [Link(LEGACY_OPTIMIZER, unreadable(error))])
    optimizer.file.count(len(listing), "weights of an optimizer", optimizer.address)
    nodes: list[Node | Link] = []
    for name in listing:
        try:
            # Keras 2.0 also wrote absolute names, which h5py takes from the root on.
            absolute = name.startswith("/")
            nodes.append(descend(root if absolute else optimizer, name.lstrip("/")))
        except FerryError as error:
            nodes.append(Link(f"{optimizer.path}/{name}", unreadable(error)))
    stems = [f"{OPTIMIZER}/{_without_output(name.strip('/'))}" for name in listing]
    return _add(found, stems, nodes)


def unreadable(error: FerryError) -> UnsupportedError:
    """An error of a part of a file, as the reason why that part is listed and not read."""
    if isinstance(error, UnsupportedError):
        return error
    return UnsupportedError(
        error.message, path=error.path, offset=error.offset, tensor=error.tensor, hint=error.hint
    )


def descend(group: Node, path: str) -> Node | Link:
    """What a path of names leads to; the first link on the way, if there is one.

    Raises:
        FormatError: There is nothing.
    """
    node = group
    for part in path.split("/"):
        if part in node.links:
            return Link(f"{group.path}/{path}".lstrip("/"), node.links[part])
        if part not in node.members:
            group.file.fail(group.address, f"no {path[:100]!r} in {group.path[:100]!r}")
        node = node.members[part]
    return node


def _without_output(name: str) -> str:
    """TensorFlow's name of a variable without the ":0" of its value."""
    return re.sub(r":0$", "", name)


# By path


def find_by_path(roots: Sequence[Node], config: Any = None) -> Found:
    """The weights of one or several files that have them by path.

    Args:
        roots: The outermost group of each.
        config: Of the model, where it is known.

    Raises:
        FormatError: Two files have the same variable.
    """
    found = Found("keras2" if any(OLD_LAYERS in root.members for root in roots) else "keras3")
    nodes: dict[str, Node | Link] = {}
    for root in roots:
        inside = list(_walk(root))
        for node in inside:
            group, _, key = node.path.rpartition("/")
            name = node.attributes.get("name") if key == VARIABLES else None
            if isinstance(name, str):
                found.layers[group] = name
        # Keras makes them one after the other, and a group lists them by name.
        for node in sorted(inside, key=lambda node: node.address):
            if node.is_dataset:
                if node.path in nodes:
                    node.file.fail(node.address, f"{node.path[:200]!r} is in another file too")
                nodes[node.path] = node
        for node in (root, *inside):
            for key, error in node.links.items():
                path = f"{node.path}/{key}".lstrip("/")
                nodes.setdefault(path, Link(path, error))
    names = found.layers or dict(pair for root in roots for pair in _named(root, config))
    paths, found.optimizer = name_variables(nodes, names, config)
    found.datasets = {name: nodes[path] for name, path in paths.items()}
    return found


def name_variables(
    paths: Iterable[str], layers: Mapping[str, str], config: Any = None
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The path of each variable by its name, and the names of those of optimizers and metrics.

    Args:
        paths: Of all variables, in their order.
        layers: The name of the layer that each group belongs to.
        config: Of the model, where it is known.
    """
    model: list[str] = []
    training: list[str] = []
    for path in paths:
        (training if path.partition("/")[0] in TRAINING else model).append(path)
    named: dict[str, str] = {}
    if layers:
        counts = Counter([path.rpartition("/")[0] for path in (*model, *training)])
        namer = _Namer(layers, keras_config.classes(config), counts)
        names = [namer.name(path) for path in model]
        used = Counter(names)
        for name, path in zip(names, model, strict=True):
            named[path if used[name] > 1 or name in named else name] = path
    else:
        named.update(zip(model, model, strict=True))
    named.update(zip(training, training, strict=True))
    return named, tuple(training)


def _named(group: Node, config: Any) -> Iterator[tuple[str, str]]:
    """The names of layers by their groups, in a file without them: their order is the config's.

    Groups are named after classes and numbered, from one version of Keras to the next in other
    ways, but always in the model's order.
    """
    inner = config.get("config") if isinstance(config, dict) else None
    layers = inner.get("layers") if isinstance(inner, dict) else None
    container = group.members.get("layers", group.members.get(OLD_LAYERS))
    if container is None or not isinstance(layers, list):
        return
    kinds: dict[str, list[Any]] = {}
    for layer in layers:
        kind = layer.get("class_name") if isinstance(layer, dict) else None
        kinds.setdefault(keras_config.snake_case(str(kind)), []).append(layer)
    for kind, several in kinds.items():
        keys = [key for key in container.members if _stem(key) == kind]
        keys.sort(key=lambda key: (len(key), key))
        if len(keys) != len(several):
            continue
        for key, layer in zip(keys, several, strict=True):
            inner = layer.get("config")
            name = inner.get("name") if isinstance(inner, dict) else None
            if isinstance(name, str):
                yield container.members[key].path, name
                yield from _named(container.members[key], layer)


def _stem(key: str) -> str:
    """The name of a group or layer without its number."""
    stem, line, number = key.rpartition("_")
    return stem if line and number.isdecimal() else key


def _walk(node: Node) -> Iterator[Node]:
    for member in node.members.values():
        yield member
        yield from _walk(member)


@dataclass(frozen=True, slots=True)
class _Namer:
    layers: Mapping[str, str]
    classes: Classes
    counts: Counter[str]
    # By the group of variables: what their names start with, and their own names if known.
    known: dict[str, tuple[str, Mapping[str, str]] | None] = field(default_factory=dict)
    prefixes: dict[str, str] = field(default_factory=dict)

    def name(self, path: str) -> str:
        """What Keras calls the variable of a path, or the path."""
        head, _, key = path.rpartition("/")
        if head not in self.known:
            self.known[head] = self._group(head)
        found = self.known[head]
        if found is None:
            return path
        prefix, names = found
        if key in names:
            return prefix + names[key]
        return path if key.isdecimal() else prefix + key

    def _group(self, head: str) -> tuple[str, Mapping[str, str]] | None:
        group, _, last = head.rpartition("/")
        if last != VARIABLES or group not in self.layers:
            return None
        return self._prefix(group), _numbered(self._variables(group, self.counts[head]))

    def _prefix(self, group: str) -> str:
        """The names of the layers that a group is in, and of its own."""
        if group not in self.prefixes:
            above, _, _ = group.rpartition("/")
            own = f"{self.layers[group]}/" if group in self.layers else ""
            self.prefixes[group] = (self._prefix(above) if above else "") + own
        return self.prefixes[group]

    def _variables(self, group: str, count: int) -> tuple[str, ...]:
        """The names of a layer's variables in their order; empty if they are not known."""
        layer = self.layers[group]
        if layer in self.classes:
            kind, config = self.classes[layer]
            names = _variables_of(keras_config.snake_case(kind), config, count)
            if names is not None:
                return names
        # In a list of layers a group is named after the class; a layer is too, unless it was given
        # a name.
        for word in (group.rpartition("/")[2], layer):
            names = _variables_of(_stem(word), {}, count)
            if names is not None:
                return names
        return ()


@cache
def _numbered(names: tuple[str, ...]) -> Mapping[str, str]:
    """Names by their numbers, which are the keys of variables."""
    return {str(number): name for number, name in enumerate(names)}


def _variables_of(kind: str, config: dict[str, Any], count: int) -> tuple[str, ...] | None:
    """The variables of a layer that has so many; None if they are not known for sure."""
    names = VARIABLE_NAMES.get(kind)
    if names is None:
        return None
    if config:
        names = tuple(name for name in names if config.get(_OPTIONS.get(name, ""), True))
    elif len(names) == count + 1 and names[-1] == _BIAS:
        names = names[:-1]
    return names if len(names) == count else None


def _add(found: Found, names: list[str], nodes: list[Node | Link]) -> tuple[str, ...]:
    """Adds datasets under names; where two have the same, under their paths."""
    counts = Counter(names)
    used = []
    for name, node in zip(names, nodes, strict=True):
        if counts[name] > 1 or name in found.datasets:
            name = node.path
        found.datasets[name] = node
        used.append(name)
    return tuple(used)
