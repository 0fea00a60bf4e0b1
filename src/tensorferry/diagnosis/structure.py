"""Structure: what a model is made of, without the attributes that frameworks add for themselves.

Only the user's parts of a framework's layers, modules and tables are examined: attributes that the
user set, methods that the user wrote, functions that the user passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

from tensorferry.diagnosis.object_walk import Part, Walk, attribute_parts, held, parts
from tensorferry.errors import FerryError
from tensorferry.frameworks import table
from tensorferry.frameworks.contract import Functions, KerasTracking, Objects
from tensorferry.frameworks.variables import attributes

# Packages whose functions and objects are not the user's, and not looked into.
LIBRARIES = ("tensorflow", "keras", "tf_keras", "torch", "jax", "jaxlib", "numpy", "tensorferry")


# Frameworks whose variables are more than plain arrays.
_VARIABLES = ("keras", "tensorflow", "torch")


class Structure:
    """The parts of an object, without the attributes that frameworks add for themselves.

    Attributes:
        root: The object.
        walk: The walk over everything in it.
        first: The attributes, items or layers of the object itself.
    """

    def __init__(self, root: Any) -> None:
        self.root = root
        self._uses = {name: table.in_use(name) for name in ("tensorflow", "keras", "torch")}
        self._variables = [table.variables(name) for name in _VARIABLES if self._uses[name]]
        self._tensors = [table.tensors(name) for name in table.NAMES if table.in_use(name)]
        self.walk = Walk(root, self._parts)
        found = held(self._parts, root) or ()
        self.first = [part for part in found if not part.step.startswith("type(")]

    @property
    def functions(self) -> Functions:
        """TensorFlow's functions, for objects that it tracks."""
        return table.functions()

    @property
    def objects(self) -> Objects:
        """TensorFlow's object graph, for objects that it tracks."""
        return table.objects()

    @property
    def keras(self) -> KerasTracking:
        """What Keras' files keep, for objects that Keras saves."""
        return table.keras_tracking()

    def is_saveable(self, value: Any) -> bool:
        """Whether Keras has its own way of saving an object."""
        return self._uses["keras"] and self.keras.is_saveable(value)

    def is_bulk(self, value: Any) -> bool:
        """Whether a value is a tensor that every pickler is known to keep."""
        return any(tensors.is_bulk(value) for tensors in self._tensors)

    def is_tracked(self, value: Any) -> bool:
        """Whether TensorFlow knows the parts of an object."""
        return self._uses["tensorflow"] and self.objects.is_tracked(value)

    def is_function(self, value: Any) -> bool:
        """Whether a value is a `tf.function`."""
        return self._uses["tensorflow"] and self.functions.is_function(value)

    def is_variable(self, value: Any) -> bool:
        """Whether a value is a variable of a framework, other than a plain array."""
        return any(variables.is_variable(value) for variables in self._variables)

    def is_keras_variable(self, value: Any) -> bool:
        """Whether a value is a variable of Keras, with a variable of the backend inside."""
        return self._uses["keras"] and table.variables("keras").is_variable(value)

    def is_sealed(self, value: Any) -> bool:
        """Whether an object is TensorFlow's own, such as an optimizer."""
        if not self.is_tracked(value) or isinstance(value, list | dict | tuple):
            return False
        return self.functions.is_own(type(value)) and not self.functions.is_module(value)

    def keras_roots(self) -> Iterator[int]:
        """The places of the outermost objects of Keras."""
        for place, node in enumerate(self.walk.nodes):
            if self.is_saveable(node.value):
                line = self.walk.line(place)[:-1]
                if not any(self.is_saveable(self.walk.nodes[at].value) for at in line):
                    yield place

    def _parts(self, value: Any) -> Iterator[Part]:
        if isinstance(value, type | ModuleType) or self.is_variable(value) or self._is_data(value):
            return
        package = getattr(value, "__module__", None) or type(value).__module__
        is_library = isinstance(package, str) and package.split(".")[0] in LIBRARIES
        if self.is_saveable(value):
            yield from (Part(*part) for part in self.keras.parts(value))
            yield from self._class_resources(value)
        elif self.is_function(value):
            function = self.functions.python_function(value)
            if function is not None:
                yield Part("{}.python_function", function)
        elif isinstance(value, dict | list | tuple | set):
            yield from (part for part in parts(value) if not part.step.startswith("{}._self_"))
        elif isinstance(value, FunctionType):
            if not is_library:
                yield from parts(value)
        elif self.is_tracked(value):
            yield from self._tracked_parts(value)
        elif not is_library or self._is_torch_module(value):
            yield from parts(value)

    def _is_torch_module(self, value: Any) -> bool:
        return self._uses["torch"] and table.variables("torch").is_model(value)

    def _is_data(self, value: Any) -> bool:
        return any(tensors.owns(value) for tensors in self._tensors)

    def _tracked_parts(self, value: Any) -> Iterator[Part]:
        own = self.is_sealed(value)
        try:
            names = set(self.objects.tracked_children(value))
        except FerryError:
            names = set()
        for part in attribute_parts(value):
            name = part.step.removeprefix("{}.")
            hidden = name.startswith(("_self_", "_tf_api", "__dict__")) or name in _OF_MODULES
            if name in names or not (own or hidden):
                yield part
        if not own:
            for name, step, _ in self.functions.class_functions(value):
                yield Part(step, class_attribute(value, name))
            yield from self._class_resources(value)

    def _class_resources(self, value: Any) -> Iterator[Part]:
        """Variables and tables that all instances of a class share, which nobody tracks."""
        own = {name for name, _ in attributes(value)}
        for kind in type(value).__mro__:
            if str(kind.__module__).split(".")[0] in (*LIBRARIES, "builtins"):
                continue
            for name, child in vars(kind).items():
                if name not in own and (self.is_variable(child) or self._has_handle(child)):
                    yield Part(f"{{}}.{name}", child)

    def _has_handle(self, value: Any) -> bool:
        return self._uses["tensorflow"] and self.functions.handle(value) is not None


# Attributes that every `tf.Module` has.
_OF_MODULES = ("_name", "_name_scope", "_obj_reference_counts_dict", "_keras_api_names")


def class_attribute(value: Any, name: str) -> Any:
    """The attribute of an object's class, without calling descriptors."""
    return next(vars(kind)[name] for kind in type(value).__mro__ if name in vars(kind))


def type_name(value: Any) -> str:
    """The name of a value's type, with its package unless that is obvious."""
    kind = type(value)
    name = kind.__qualname__.replace("<locals>.", "")
    module = str(kind.__module__)  # a class in C may have a descriptor there
    return (
        name if module in ("builtins", "__main__") else f"{module.lstrip('_').split('.')[0]}.{name}"
    )
