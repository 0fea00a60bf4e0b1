"""Cycles in a graph: functions that can come to call themselves."""

from __future__ import annotations

from collections.abc import Mapping


def find_cycles(calls: Mapping[str, tuple[str, ...]]) -> set[str]:
    """The names that a way leads back to: Tarjan's components, without recursion."""
    calls = {name: called for name, called in calls.items() if called}
    if not any(name in calls for called in calls.values() for name in called):
        return set()  # nearly always: those that are called call nobody
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    component: list[str] = []
    places: dict[str, int] = {}
    inside: set[str] = set()
    found = {name for name, called in calls.items() if name in called}
    for root in calls:
        if root in order:
            continue
        stack = [(root, iter(calls[root]))]
        while stack:
            name, rest = stack[-1]
            if name not in order:
                order[name] = lowest[name] = len(order)
                places[name] = len(component)
                component.append(name)
                inside.add(name)
            for called in rest:
                if called not in order:
                    stack.append((called, iter(calls.get(called, ()))))
                    break
                if called in inside:
                    lowest[name] = min(lowest[name], order[called])
            else:
                stack.pop()
                if stack:
                    above = stack[-1][0]
                    lowest[above] = min(lowest[above], lowest[name])
                if lowest[name] == order[name]:
                    place = places.pop(name)
                    members = component[place:]
                    del component[place:]
                    inside.difference_update(members)
                    if len(members) > 1:
                        found.update(members)
    return found
