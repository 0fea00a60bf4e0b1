"""Ops of a SavedModel: which only compute, and what the others do.

A graph is a program. Most ops only compute; some read and write files, reach other machines, run
Python code or a program that stands in a string, and a model from a stranger can have them
anywhere. Here they are named, never run. `ops.txt` beside this module has every op that TensorFlow
2.16 to 2.21 registers, in groups:

    computes      fine everywhere
    placed        saves and restores variables, or fills tables from assets, which SavedModels do;
                  what such an op does elsewhere, `tensorferry.models.loading` finds out
    conditional   fine unless one of its attributes says otherwise (`ATTRIBUTES`)
    refused       does more

All but the first have a kind, which `EFFECT_OF` lists. An op that is not in the file is a custom
op: its code comes from a library that whoever loads the model must have loaded first. The list of
definitions inside a SavedModel cannot tell: the exporter puts custom ops there like all others.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping
from typing import Literal

from tensorferry.classes import NamedTuple, dataclass

Kind = Literal[
    "python",
    "native",
    "process",
    "graph",
    "dataset",
    "device",
    "internal",
    "read",
    "write",
    "network",
]
Place = Literal["computes", "placed", "conditional", "refused"]

# What an op of a kind does, in words.
EFFECT_OF: dict[str, str] = {
    "python": "runs Python",
    "native": "runs native code",
    "process": "ends the process",
    "graph": "runs a program that stands in a string",
    "dataset": "runs datasets",
    "device": "uses accelerators",
    "internal": "uses internal ops",
    "read": "reads files",
    "write": "writes files",
    "network": "uses network",
}

# The attribute that makes an op do more than compute, and the values with which it does not. An
# attribute that is not there has the first value.
ATTRIBUTES: dict[str, tuple[str, tuple[bytes, ...]]] = {
    "PrintV2": (
        "output_stream",
        (b"stderr", b"stdout", b"log(info)", b"log(warning)", b"log(error)"),
    ),
    "FixedUnigramCandidateSampler": ("vocab_file", (b"",)),
    "DecodeProtoV2": ("descriptor_source", (b"local://", b"")),
    "EncodeProto": ("descriptor_source", (b"local://", b"")),
}


class Group(NamedTuple):
    """What an op is: where it is fine, and the kind of thing that it does elsewhere."""

    place: Place
    kind: Kind | None


@dataclass(frozen=True, slots=True)
class Risk:
    """An op that does more than compute.

    Attributes:
        op: Its name.
        count: How often it is in the graph and its functions.
        effect: What it does.
        expected: Whether SavedModels have it for their own variables and tables, or its attributes
            say that it does nothing of that here.
    """

    op: str
    count: int
    effect: str
    expected: bool


@functools.cache
def groups() -> Mapping[str, Group]:
    """The group of every op of TensorFlow by name."""
    # `importlib.resources` takes longer to import than a model takes to inspect.
    path = os.path.join(os.path.dirname(__file__), "ops.txt")
    with open(path, "rb") as file:
        lines = file.read().decode().splitlines()
    found: dict[str, Group] = {}
    group = Group("refused", "internal")
    for line in lines:
        if line.startswith("["):
            place, _, kind = line[1:].rstrip("]").partition(":")[0].partition(" ")
            group = Group(place, kind or None)  # type: ignore[arg-type]  # the file is ours
        elif not line.startswith("#"):
            found.update(dict.fromkeys(line.split(), group))
    return found


def placed() -> frozenset[str]:
    """The ops that are fine where a SavedModel has them for its own variables and tables."""
    return frozenset(op for op, group in groups().items() if group.place == "placed")


@functools.cache
def _kinds() -> Mapping[str, Kind]:
    """The kind of every op that has one."""
    return {op: group.kind for op, group in groups().items() if group.kind is not None}


def find_risks(ops: Mapping[str, int], unusual: Mapping[str, int]) -> tuple[Risk, ...]:
    """The ops that do more than compute, those that nobody expects first.

    Args:
        ops: How often each op is used.
        unusual: How often those of `ATTRIBUTES` have another value than the harmless ones.
    """
    risks = []
    for op in ops.keys() & _kinds().keys():
        place = groups()[op].place
        fine = place == "placed" or (place == "conditional" and op not in unusual)
        risks.append(Risk(op, ops[op], EFFECT_OF[_kinds()[op]], fine))
    return tuple(sorted(risks, key=lambda risk: (risk.expected, risk.effect, risk.op)))


def find_custom(ops: Iterable[str]) -> tuple[str, ...]:
    """The ops that are not TensorFlow's own."""
    known = groups()
    return tuple(sorted([op for op in ops if op not in known]))
