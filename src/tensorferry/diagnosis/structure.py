"""What a model is made of: a walk over it that stays out of what frameworks keep for themselves.

Layers, modules and tables of a framework are looked into as far as they are the user's: attributes
that the user set, methods that the user wrote, functions that the user gave.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

from tensorferry.diagnosis.object_walk import Part, Walk, attribute_parts, held, parts
from tensorferry.errors import FerryError
from tensorferry.frameworks.variables import attributes, used

# Packages whose functions and objects are no place for trouble of the user's.
LIBRARIES = ("tensorflow", "keras", "tf_keras", "torch", "jax", "jaxlib", "numpy", "tensorferry")


def tracking_of(name: str) -> Any:
    """What we know of how a framework tracks objects, if the program uses it."""
    if used(name) is None:
        return None
    if name == "keras":
        from tensorferry.frameworks.keras import tracking as keras_tracking

        return keras_tracking
    from tensorferry.frameworks.tensorflow import tracking as tensorflow_tracking

    return tensorflow_tracking


class Structure:
    """What an object is made of, without what frameworks keep in it for themselves.

    Attributes:
        root: The object.
        walk: Over all of it.
        first: The attributes, items or layers of the object itself.
    """

    def __init__(self, root: Any) -> None:
        self.root = root
        self.tensorflow = tracking_of("tensorflow")
        self.keras = tracking_of("keras")
        self._tracked = used("tensorflow")
        self._torch = used("torch")
        known = (self._tracked, self._torch, used("jax"))
        self._modules = [module for module in known if module is not None]
        self.walk = Walk(root, self._parts)
        found = held(self._parts, root) or ()
        self.first = [part for part in found if not part.step.startswith("type(")]

    def is_saveable(self, value: Any) -> bool:
        """Whether Keras has its own way of saving it."""
        return self.keras is not None and bool(self.keras.is_saveable(value))

    def is_bulk(self, value: Any) -> bool:
        """Whether it is a tensor of numbers, which every pickler keeps."""
        if self.tensorflow is not None and self.tensorflow.is_bulk(value):
            return True
        torch = self._torch
        return torch is not None and bool(torch.is_bulk(value))

    def is_tracked(self, value: Any) -> bool:
        """Whether TensorFlow knows the parts of it."""
        return self._tracked is not None and bool(self._tracked.is_tracked(value))

    def is_function(self, value: Any) -> bool:
        """Whether it is a `tf.function`."""
        return self.tensorflow is not None and bool(self.tensorflow.is_function(value))

    def is_variable(self, value: Any) -> bool:
        """Whether it is a variable of a framework, other than a plain array."""
        modules = [module for module in (self._tracked, self._torch) if module is not None]
        if self.keras is not None and self.keras.is_variable(value):
            return True
        return any(module.is_variable(value) for module in modules)

    def is_sealed(self, value: Any) -> bool:
        """Whether it is an object of TensorFlow's own, such as an optimizer."""
        if not self.is_tracked(value) or isinstance(value, list | dict | tuple):
            return False
        return bool(self.tensorflow.is_own(type(value))) and not self.tensorflow.is_module(value)

    def tracked_children(self, value: Any) -> dict[str, Any]:
        """See `tensorferry.frameworks.tensorflow.tensors`."""
        found: dict[str, Any] = self._tracked.tracked_children(value)
        return found

    def keras_roots(self) -> Iterator[int]:
        """The places of Keras' objects that are in no other of them."""
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
            function = self.tensorflow.python_function(value)
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
        return self._torch is not None and bool(self._torch.is_model(value))

    def _is_data(self, value: Any) -> bool:
        return any(module.owns(value) for module in self._modules)

    def _tracked_parts(self, value: Any) -> Iterator[Part]:
        tensorflow, own = self.tensorflow, self.is_sealed(value)
        try:
            names = set(self.tracked_children(value))
        except FerryError:
            names = set()
        for part in attribute_parts(value):
            name = part.step.removeprefix("{}.")
            hidden = name.startswith(("_self_", "_tf_api", "__dict__")) or name in _OF_MODULES
            if name in names or not (own or hidden):
                yield part
        if not own:
            for name, step, _ in tensorflow.class_functions(value):
                yield Part(step, class_attribute(value, name))
            yield from self._class_resources(value)

    def _class_resources(self, value: Any) -> Iterator[Part]:
        """Variables and tables that all instances of a class share: nobody tracks them."""
        own = {name for name, _ in attributes(value)}
        for kind in type(value).__mro__:
            if str(kind.__module__).split(".")[0] in (*LIBRARIES, "builtins"):
                continue
            for name, child in vars(kind).items():
                handle = self.tensorflow and self.tensorflow.handle(child)
                if name not in own and (self.is_variable(child) or handle is not None):
                    yield Part(f"{{}}.{name}", child)


_OF_MODULES = ("_name", "_name_scope", "_obj_reference_counts_dict", "_keras_api_names")


def class_attribute(value: Any, name: str) -> Any:
    """What an object's class has under a name, without asking descriptors."""
    return next(vars(kind)[name] for kind in type(value).__mro__ if name in vars(kind))


def type_name(value: Any) -> str:
    """The name of a type, with its module where that says something."""
    kind = type(value)
    name = kind.__qualname__.replace("<locals>.", "")
    module = str(kind.__module__)  # a class in C may have a descriptor there
    return (
        name if module in ("builtins", "__main__") else f"{module.lstrip('_').split('.')[0]}.{name}"
    )
