"""Tracking: what frameworks keep of a living object in SavedModels, .keras files and weights.

Each view goes over the same walk (`Structure`) and says for every object whether its way keeps it,
and if not, why. A framework keeps what it tracks: attributes that are variables, layers, modules,
tables, and lists and dicts of those. A variable inside any other Python object is hidden.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any

from tensorferry.diagnosis.object_walk import Part, attribute_parts, closure_name, parts, used_names
from tensorferry.diagnosis.structure import LIBRARIES, Structure, class_attribute, type_name
from tensorferry.errors import FerryError, UnsupportedError
from tensorferry.frameworks import table
from tensorferry.frameworks.contract import KerasProblem
from tensorferry.frameworks.variables import find_variables, list_variables

# Methods that set an object up, and do not run when it is saved.
_SETTING_UP = ("__init__", "build", "get_config")


class View:
    """What one way of saving keeps.

    Attributes:
        structure: The structure of the object.
        applies: Whether the way is for such objects at all.
        reason: Why the way is not for such objects, or cannot keep anything.
        blamed: Why the way fails, by place in the structure's walk.
        lost: Why the way leaves out something that the user would miss, by place.
    """

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.applies = True
        self.reason: str | None = None
        self.blamed: dict[int, str] = {}
        self.lost: dict[int, str] = {}
        self._kept: set[int] = set()
        self._steps: set[tuple[int, str]] = set()

    def keeps(self, holder: Any, part: Part) -> bool:
        """Whether a part of an object is kept."""
        return id(part.value) in self._kept or (id(holder), part.step) in self._steps

    def path(self, place: int) -> str:
        """The path of an object; a method counts as an attribute of its object."""
        walk = self.structure.walk
        node = walk.nodes[place]
        found = re.fullmatch(r"type\(\{\}\).*__dict__\['(\w+)'\]", node.step)
        if found is None or node.holder is None:
            return walk.path(place)
        return f"{walk.path(node.holder)}.{found[1]}"

    def _hidden(self, place: int) -> str:
        """Where a variable is hidden."""
        walk = self.structure.walk
        for at in walk.line(place)[1:]:
            node = walk.nodes[at]
            assert node.holder is not None
            holder = walk.nodes[node.holder].value
            if self.keeps(holder, Part(node.step, node.value)):
                continue
            name = closure_name(node.step, holder)
            if name is not None:
                return f"only a function has it, which closes over {name}"
            if "__globals__" in node.step:
                return "only a function has it, as a global"
            return f"in {walk.path(at)}, a {type_name(node.value)}, nothing is tracked"
        return "it is not tracked"


class WeightsView(View):
    """What `save_weights` writes."""

    def __init__(self, structure: Structure) -> None:
        super().__init__(structure)
        try:
            list_variables(structure.root)
            self._kept = set(map(id, find_variables(structure.root).holders))
        except FerryError as error:
            self.reason = error.message
            return
        except Exception as error:  # a mapping of the user's may raise anything
            self.reason = f"looking for variables raises {type(error).__name__}: {error}"
            return
        walk = structure.walk
        places = {place for place, node in enumerate(walk.nodes) if id(node.value) in self._kept}
        self._kept |= {id(walk.nodes[place].value) for place in walk.above(places)}
        for place, node in enumerate(walk.nodes):
            # Learning rates and the like are not the user's.
            sealed = structure.is_sealed(walk.nodes[node.holder or 0].value)
            kept = sealed or id(node.value) in self._kept
            if structure.is_variable(node.value) and not kept:
                self.lost[place] = f"a hidden variable: {self._hidden(place)}"


class KerasView(View):
    """What a .keras file has.

    Attributes:
        problems: The problems that Keras has with each outermost object of Keras, by id.
    """

    def __init__(self, structure: Structure) -> None:
        super().__init__(structure)
        self.problems: dict[int, list[KerasProblem]] = {}
        walk = structure.walk
        self.applies = structure.is_saveable(structure.root)
        for place in structure.keras_roots():
            value = walk.nodes[place].value
            self.problems[id(value)] = structure.keras.problems(value)
            self._keep(value)
        if not self.applies:
            self.reason = "it is no model or layer of Keras 3"
        for place, node in enumerate(walk.nodes):
            if not structure.is_variable(node.value) or id(node.value) in self._kept:
                continue
            if any(structure.is_saveable(walk.nodes[at].value) for at in walk.line(place)):
                self.lost[place] = f"a hidden variable: {self._hidden(place)}"

    def _keep(self, root: Any) -> None:
        queue = deque([root])
        self._kept.add(id(root))
        while queue:
            value = queue.popleft()
            children: Iterable[tuple[str, Any]] = ()
            if isinstance(value, dict | list | tuple):
                children = ((part.step, part.value) for part in parts(value))
            elif self.structure.is_saveable(value):
                children = self.structure.keras.kept(value)
            for step, child in children:
                self._steps.add((id(value), step))
                if id(child) not in self._kept:
                    self._kept.add(id(child))
                    queue.append(child)


class SavedModelView(View):
    """What a SavedModel has."""

    def __init__(self, structure: Structure) -> None:
        super().__init__(structure)
        root = structure.root
        self.applies = structure.is_tracked(root) and not structure.is_variable(root)
        if not self.applies:
            self.reason = "TensorFlow saves a tf.Module or another object that it tracks"
            return
        if structure.is_saveable(root) and not table.keras_models().is_built(root):
            self.blamed[0] = "it was not built yet: call it once, or model.build(input_shape)"
        self._owners: list[Any] = []
        self._follow(root)
        self._untraced = False
        self._captured: set[int] = set()
        self._judge_functions()
        self._judge_resources()

    def _follow(self, root: Any) -> None:
        queue = deque([root])
        self._kept.add(id(root))
        walk = self.structure.walk
        while queue:
            value = queue.popleft()
            self._owners.append(value)
            try:
                children = self._children(value)
            except FerryError as error:
                self.blamed[walk.places.get(id(value), 0)] = _lower(error.message)
                continue
            place = walk.places.get(id(value))
            if place is not None and self.structure.functions.is_iterator(value):
                self.blamed[place] = "a position in a dataset cannot be exported"
            for name, child in children.items():
                self._steps |= {(id(value), f"{{}}.{name}"), (id(value), f"{{}}[{name}]")}
                self._steps.add((id(value), f"{{}}[{name!r}]"))
                if id(child) not in self._kept:
                    self._kept.add(id(child))
                    queue.append(child)
        self._follow_tuples()

    def _children(self, value: Any) -> dict[str, Any]:
        """The parts that a SavedModel follows; it converts Keras' lists and dicts to its own.

        Raises:
            UnsupportedError: TensorFlow cannot tell the parts.
        """
        if self.structure.is_tracked(value):
            found = self.structure.objects.tracked_children(value)
            is_layer = self.structure.is_saveable(value)
            return {**found, **self.structure.keras.collections(value)} if is_layer else found
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        followed = {name: item for name, item in pairs if self._is_followed(item)}
        if isinstance(value, dict) and not all(isinstance(name, str) for name in followed):
            raise UnsupportedError("the dict has a non-string key to something that is tracked")
        return {str(name): item for name, item in followed.items()}

    def _is_followed(self, value: Any) -> bool:
        return isinstance(value, list | dict | tuple | set) or self.structure.is_tracked(value)

    def _follow_tuples(self) -> None:
        """Marks items of tuples, which are tracked as copies, and variables of Keras as kept."""
        walk = self.structure.walk
        for node in walk.nodes[1:]:
            assert node.holder is not None
            holder = walk.nodes[node.holder].value
            if self.structure.is_keras_variable(node.value):
                if id(self.structure.keras.backing(node.value)) in self._kept:
                    self._kept.add(id(node.value))
            elif isinstance(node.value, tuple) and self.keeps(holder, Part(node.step, node.value)):
                self._steps |= {(id(node.value), part.step) for part in parts(node.value)}

    def _judge_functions(self) -> None:
        functions, walk = self.structure.functions, self.structure.walk
        for owner in self._owners:
            found = [(step, one, one) for step, one in self._own_functions(owner)]
            found += [
                (step, class_attribute(owner, name), one)
                for name, step, one in functions.class_functions(owner)
            ]
            for step, part, function in found:
                place = walk.places.get(id(part))
                if place is None:
                    continue
                self._captured |= functions.captured(function)
                python = functions.python_function(part)
                names = self._reached_names(owner, python) if python is not None else set()
                if not functions.is_exportable(function):
                    self.lost[place] = "never called, no input_signature: it has no graph to save"
                    self._kept.discard(id(part))
                    self._steps.discard((id(owner), step))
                    continue
                self._kept.add(id(part))
                self._steps.add((id(owner), step))
                self._untraced |= not functions.traces(function)
                if functions.calls_python(function) or names & {"py_function", "numpy_function"}:
                    self.blamed[place] = "it calls Python code, which stays in this process"

    def _reached_names(self, owner: Any, function: FunctionType) -> set[str]:
        """The names in a function's code, and in the code of functions and methods it names."""
        methods = {method.__name__: method for method in self._methods(owner)}
        found: set[str] = set()
        queue, seen = [function], {function}
        while queue:
            one = queue.pop()
            names = used_names(one.__code__)
            found |= names
            for name in names:
                known = methods.get(name) or one.__globals__.get(name)
                if not isinstance(known, FunctionType) or known in seen:
                    continue
                if str(known.__module__).split(".")[0] not in LIBRARIES:
                    seen.add(known)
                    queue.append(known)
        return found

    def _own_functions(self, owner: Any) -> Iterator[tuple[str, Any]]:
        for step, child, _ in attribute_parts(owner):
            if self.structure.is_function(child) and not step.startswith("{}._"):
                yield step, child

    def _judge_resources(self) -> None:
        structure, walk = self.structure, self.structure.walk
        for place, node in enumerate(walk.nodes):
            value = node.value
            if structure.is_saveable(value) and structure.keras.draws_seeds(value):
                self.blamed[place] = "a function uses its seed for dropout, which is untracked"
            if structure.is_keras_variable(value):
                value = structure.keras.backing(value)
            handle = structure.functions.handle(value)
            if handle is None or id(node.value) in self._kept or id(value) in self._kept:
                continue
            if node.holder is not None and self.keeps(
                walk.nodes[node.holder].value, Part(node.step, node.value)
            ):
                continue
            line = walk.line(place)
            kind = "variable" if structure.is_variable(node.value) else type_name(node.value)
            hidden = self._hidden(place)
            if id(handle) in self._captured or self._is_used(line):
                self.blamed[place] = f"a function uses this untracked {kind}: {hidden}"
            else:
                self.lost[place] = f"a hidden {kind}: {hidden}"

    def _is_used(self, line: list[int]) -> bool:
        """Whether the code that will be traced names the attribute that leads to a resource."""
        walk, structure = self.structure.walk, self.structure
        # Code refers to the items of a tracked list by the name of the list.
        owners = [
            at
            for at, place in enumerate(line[:-1])
            if id(walk.nodes[place].value) in self._kept
            and not isinstance(walk.nodes[place].value, list | dict | tuple)
        ]
        last = owners[-1]
        owner = walk.nodes[line[last]].value
        step = walk.nodes[line[last + 1]].step
        if structure.is_function(owner):
            return not structure.functions.traces(owner)
        is_layer = structure.is_saveable(owner) and structure.keras.is_built(owner)
        if not (self._untraced or is_layer):
            return False
        if (
            is_layer
            and isinstance(walk.nodes[line[last + 1]].value, FunctionType)
            and not (step.startswith("type("))
        ):
            return True
        if step.startswith("type("):
            name = step.split("'")[1]
            return is_layer and name not in _SETTING_UP
        name = step.removeprefix("{}.").split("[")[0]
        return any(name in used_names(function.__code__) for function in self._methods(owner))

    def _methods(self, owner: Any) -> Iterator[FunctionType]:
        for kind in type(owner).__mro__:
            if kind.__module__.split(".")[0] in LIBRARIES:
                continue
            for name, child in vars(kind).items():
                if self.structure.is_function(child):
                    child = self.structure.functions.python_function(child)
                if isinstance(child, FunctionType) and name not in _SETTING_UP:
                    yield child


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
