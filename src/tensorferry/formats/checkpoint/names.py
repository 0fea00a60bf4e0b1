"""What the tensors of a checkpoint are called, by those who read it and by those who write it.

A tensor has a key in the index. A checkpoint of objects has a graph of them, too, in which a
variable can be called by the path that leads to it, and in which it has the name that its program
gave to it:

    paths       encoder/kernel
    keys        encoder/kernel/.ATTRIBUTES/VARIABLE_VALUE
    variables   dense_3/kernel, where only one variable has that name; otherwise its path

Tensors that were saved by name have just that name. Writing, the layout "names" makes keys of names
as they are, and "objects" adds a graph in which "a/b" is the variable b of the object a. The graph
is `tensorferry.formats.checkpoint.graph`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal

from tensorferry.formats.checkpoint import graph as graphs
from tensorferry.formats.checkpoint.graph import Graph, Slot

Names = Literal["paths", "keys", "variables"]
Layout = Literal["names", "objects"]


def names_of(
    keys: Mapping[str, object], graph: bytes | None, names: Names
) -> tuple[dict[str, str], dict[str, Slot]]:
    """The key of each tensor by the name that a user is shown, and the slots by name.

    Args:
        keys: Those of the index.
        graph: The object graph, as it is stored; None if there is none.
        names: See above.
    """
    if graph is None or names == "keys":
        return {key: key for key in keys}, {}
    shown, slots = graphs.names_of(keys, partial(graphs.parse, graph))
    return (
        _by_variable(shown, slots, graphs.parse(graph)) if names == "variables" else (shown, slots)
    )


def _by_variable(
    shown: dict[str, str], slots: dict[str, Slot], graph: Graph
) -> tuple[dict[str, str], dict[str, Slot]]:
    """The same by the names of variables, where only one variable has the name."""
    full = graph.full_names()
    counts: dict[str, int] = dict.fromkeys(shown, 1)
    for name in full.values():
        counts[name] = counts.get(name, 0) + 1
    new = {}
    for name, key in shown.items():
        own = full.get(key, name)
        new[name] = own if own == name or counts[own] == 1 else name
    return (
        {new[name]: key for name, key in shown.items()},
        {new[name]: slot for name, slot in slots.items()},
    )
