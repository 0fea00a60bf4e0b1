"""Dangers: what loading a model would do besides computing.

A SavedModel is a program, and the config of a Keras model names classes and functions to call. Both
are read here as data before TensorFlow or Keras sees the file. Anything that could run code, or
reach files and machines, is a danger of one of these kinds, and refused unless the caller allows
that kind:

    lambda      a Lambda layer with Python bytecode in the file
    pickle      a pickled object, which can run anything
    class       a class without a module that is not in `custom_objects`
    module      a class of a module outside of Keras that is not in `custom_objects`
    function    a function that is neither Keras' own nor in `custom_objects`
    gadget      a function or class of Keras that is no part of a model
    registered  a class or function that a program registers, under a name from the file
    python      ops that call Python functions
    native      ops that run native code, custom ops among them
    graph       ops that run a program which stands in a string: a graph, StableHLO, TFLite
    dataset     ops that make and run datasets
    device      ops of TPUs and of meshes of devices
    internal    ops that TensorFlow makes itself, and no exporter writes
    process     ops that end the process
    read        ops and layers that read files
    write       ops that write files
    network     ops that reach other machines
    asset       files of the model that are missing, or lie outside of its directory
    version     a Keras whose own loading of files has known holes

What is no danger is known by lists of what only computes: the ops in
`tensorferry.formats.savedmodel.ops`, the classes and functions of Keras in
`tensorferry.formats.keras.names`. Whatever is in no list is a danger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Protocol

from tensorferry.classes import dataclass
from tensorferry.errors import UnsupportedError
from tensorferry.formats.keras import config as keras_config
from tensorferry.formats.keras.config import Finding
from tensorferry.formats.keras.names import VALUES, is_class, package_of
from tensorferry.formats.savedmodel import model as savedmodel, ops as savedmodel_ops

KINDS = (
    "lambda",
    "pickle",
    "class",
    "module",
    "function",
    "gadget",
    "registered",
    "python",
    "native",
    "graph",
    "dataset",
    "device",
    "internal",
    "process",
    "read",
    "write",
    "network",
    "asset",
    "version",
)

Allow = bool | str | Iterable[str]

_OF_EFFECT = {effect: kind for kind, effect in savedmodel_ops.EFFECT_OF.items()}
_OF_FINDING = {"bytecode": "lambda", "file": "read"}
# The first Keras without known holes in what it does with a config that was found harmless. Older
# ones read vocabularies from paths, ran Lambda layers of .h5 files whatever safe_mode said, and
# followed links in weights: CVE-2024-3660, CVE-2025-1550, CVE-2025-8747, CVE-2025-9905,
# CVE-2025-9906, CVE-2025-12058, CVE-2025-12060, CVE-2026-0897.
OLDEST_KERAS = (3, 12, 1)
# How many dangers an error names.
SHOWN = 8


@dataclass(frozen=True, slots=True)
class Danger:
    """Something that loading or calling a model would do.

    Attributes:
        kind: One of `KINDS`: see the top of this module.
        place: Where in the file; "" if there is no single place.
        detail: What would happen.
    """

    kind: str
    place: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}{f' (in {self.place})' if self.place else ''}"


def allowed_kinds(allow: Allow) -> frozenset[str]:
    """The kinds that a caller allows.

    Raises:
        UnsupportedError: There is no such kind.
    """
    if isinstance(allow, bool):
        return frozenset(KINDS if allow else ())
    kinds = frozenset((allow,) if isinstance(allow, str) else allow)
    for kind in sorted(kinds - {*KINDS}):
        raise UnsupportedError(
            f"allow= has {kind!r}, which is no kind of danger", hint=f"expected {', '.join(KINDS)}"
        )
    return kinds


def refuse(dangers: Iterable[Danger], allow: frozenset[str], path: str) -> tuple[Danger, ...]:
    """The dangers, each once, if all of them are allowed.

    Raises:
        UnsupportedError: Some are not allowed; the error names them.
    """
    found = tuple(dict.fromkeys(dangers))
    refused = [danger for danger in found if danger.kind not in allow]
    if not refused:
        return found
    lines = [f"\n  {danger}" for danger in refused[:SHOWN]]
    if len(refused) > SHOWN:
        lines.append(f"\n  and {len(refused) - SHOWN} more")
    kinds = dict.fromkeys(danger.kind for danger in refused)
    hints = []
    if {"class", "module", "function", "registered"} & {*kinds}:
        hints.append("give classes and functions in custom_objects=")
    trusted = ", ".join(repr(kind) for kind in kinds if kind != "class")
    if trusted:
        hints.append(f"if you trust whoever made the file, allow=({trusted},)")
    raise UnsupportedError(
        f"the model was not loaded, because of what it needs or would do:{''.join(lines)}",
        path=path,
        hint="; ".join(hints),
    )


def in_savedmodel(
    model: savedmodel.SavedModel,
    graph: savedmodel.MetaGraph,
    problems: Iterable[tuple[str, str]] = (),
) -> list[Danger]:
    """The dangers in one graph of a SavedModel and in its files.

    Args:
        model: The model.
        graph: The graph of it that is loaded.
        problems: Files that lie elsewhere, and why they do.
    """
    found = [
        Danger(_OF_EFFECT[risk.effect], "", f"the op {risk.op} {risk.effect}, {risk.count} times")
        for risk in graph.risks
        if not risk.expected
    ]
    found += [
        Danger("native", "", f"the op {name[:100]} is not TensorFlow's own")
        for name in graph.custom_ops
    ]
    found += [
        Danger("native", "", f"the function {name} has the name of an op")
        for name in graph.functions
        if name in savedmodel_ops.groups()
    ]
    elsewhere = dict(problems)
    found += [Danger("asset", name[:100], problem) for name, problem in elsewhere.items()]
    found += [
        Danger("asset", asset.name[:100], asset.problem)
        for asset in model.assets
        if asset.problem is not None and f"assets/{asset.name}" not in elsewhere
    ]
    return found


def in_keras(version: tuple[int, ...]) -> list[Danger]:
    """The danger that Keras itself is, if it is too old."""
    if version >= OLDEST_KERAS:
        return []
    found, needed = (".".join(map(str, one)) for one in (version, OLDEST_KERAS))
    detail = f"Keras {found} has known holes in loading models; {needed} is the first without"
    return [Danger("version", "", detail)]


class Known(Protocol):
    """The names that Keras knows: a part of `tensorferry.frameworks.contract.KerasModels`."""

    def registered_names(self) -> set[str]:
        """The names of the classes and functions that the program registered for configs."""

    def imports(self, module: str) -> bool:
        """Whether a module of Keras is there, and not imported yet."""


def in_config(
    config: Any, findings: Iterable[Finding], custom_objects: Mapping[str, Any], known: Known
) -> list[Danger]:
    """The dangers in the config of a Keras model.

    Args:
        config: The config, as read from the file.
        findings: What `tensorferry.formats.keras.config` found in it.
        custom_objects: The classes and functions that the caller supplies, by name.
        known: The names that Keras knows.
    """
    found = []
    supplied = {*supply(config, custom_objects)}
    registered = known.registered_names() - supplied
    for finding in findings:
        if finding.kind in ("module", "function", "registered") and finding.name in supplied:
            continue
        if finding.kind in ("function", "registered") and finding.name in registered:
            continue  # it is named below
        kind = _OF_FINDING.get(finding.kind, finding.kind)
        found.append(Danger(kind, finding.place, finding.detail))
    texts = keras_config.texts(config)
    texts |= {text.lower() for text in texts}  # as Keras looks up optimizers
    for name in sorted(texts & registered):
        detail = f"uses {name[:100]!r}, which this program registered"
        found.append(Danger("registered", "", detail))
    known_keys, harmless = supplied | registered, VALUES | {"__lambda__"}
    # Of its own modules: for others there is a finding.
    imports = cache(lambda module: package_of(module) is not None and known.imports(module))
    for one in keras_config.names(config):
        if one.key in known_keys or one.name in harmless:
            continue
        if one.module and imports(one.module):
            detail = f"imports {one.module[:100]!r} for {one.name[:100]!r}"
            found.append(Danger("module", one.place, detail))
        if not one.is_function and one.module is None and not _is_own(one):
            detail = f"needs the class {one.name[:100]!r}, which custom_objects does not have"
            found.append(Danger("class", one.place, detail))
    return found


def _is_own(one: keras_config.Named) -> bool:
    """Whether a class without a module is one of Keras', or judged elsewhere."""
    if one.name in keras_config.JUDGED:
        return one.key == one.name
    return is_class(one.name)


def supply(config: Any, custom_objects: Mapping[str, Any]) -> dict[str, Any]:
    """The caller's classes and functions, also under the names by which Keras looks them up.

    A class that was registered as "package>Name" is looked up by that name, and known as "Name".
    No other name that a file has for a class of the caller's is heeded: it may be one of Keras'.
    """
    found = dict(custom_objects)
    if not found:
        return found
    for one in keras_config.names(config):
        if one.name in custom_objects and ">" in one.key:
            found.setdefault(one.key, custom_objects[one.name])
    return found
