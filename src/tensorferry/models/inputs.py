"""The inputs of a model: which columns it takes, by their names and never by their order.

    takes = inputs_of(model)
    takes.names                        # ("sentences",)
    takes.call({"sentences": s, "id": ids}, keep=("id",))

Signatures, functional Keras models and Python functions say what they take. A model of one input
also takes a lone column of another name. Everything else that is not clear is refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

from tensorferry import frameworks
from tensorferry.classes import dataclass
from tensorferry.errors import MismatchError
from tensorferry.frameworks import table
from tensorferry.frameworks.programs import DEFAULT
from tensorferry.models.loaded import LoadedModel, LoadedSignature

# How a model is called: arguments by name, one tensor, a list or a dict of tensors.
Form = Literal["names", "one", "list", "dict"]

# Arguments of Keras that are no inputs.
_SETTINGS = ("training", "mask")


@dataclass(frozen=True)
class Inputs:
    """What a model takes.

    Attributes:
        names: The names of the inputs that it needs; None if it does not say.
        optional: The names of the inputs that it takes, too.
        open: Whether it takes inputs of any other name.
        form: How it is called.
        function: The model.
    """

    names: tuple[str, ...] | None
    optional: tuple[str, ...]
    open: bool
    form: Form
    function: Callable[..., Any]

    def call(self, batch: Any, keep: Collection[str] = ()) -> Any:
        """The result of the model for a tensor, or for those of a dict's columns that it takes.

        Raises:
            MismatchError: It is not clear which columns the model takes.
        """
        if not isinstance(batch, Mapping):
            return self.function(batch)
        given = self.pick(batch, keep)
        if self.form == "names":
            return self.function(**given)
        if self.form == "dict":
            return self.function(given)
        values = list(given.values())
        return self.function(values[0] if self.form == "one" else values)

    def pick(self, columns: Mapping[str, Any], keep: Collection[str] = ()) -> dict[str, Any]:
        """The columns that the model takes, by its own names and in its own order.

        Raises:
            MismatchError: It is not clear which columns those are.
        """
        others = [name for name in columns if name not in keep]
        if self.names is None:
            return {name: columns[name] for name in others}
        missing = [name for name in self.names if name not in columns]
        if not missing:
            known = (*self.names, *self.optional)
            more = [name for name in others if name not in known] if self.open else []
            return {name: columns[name] for name in (*known, *more) if name in columns}
        loose = [name for name in others if name not in self.optional]
        if len(self.names) == len(loose) == 1:
            return {self.names[0]: columns[loose[0]]}
        raise MismatchError(
            f"the model takes {_listed(self.names)}, and the inputs are {_listed(columns)}",
            hint=f"name the inputs as the model does, {_listed(missing)} is missing; "
            "keep= carries other columns along",
        )

    def named(self, parts: list[Any] | tuple[Any, ...]) -> dict[str, Any]:
        """A list of inputs by their names.

        Raises:
            MismatchError: The model takes another number of inputs.
        """
        names = self.names or ()
        if len(parts) != len(names):
            raise MismatchError(
                f"{len(parts)} inputs in a list, the model takes {_listed(names)}",
                hint="a dict gives each input by its name",
            )
        return dict(zip(names, parts, strict=True))


def _listed(names: Collection[str]) -> str:
    shown = [repr(name) for name in list(names)[:8]]
    return ", ".join(shown) + (", ..." if len(names) > len(shown) else "") if shown else "nothing"


def inputs_of(model: Any) -> Inputs:
    """What a model takes that can be called."""
    if isinstance(model, LoadedSignature):
        return Inputs(tuple(model.inputs), (), False, "names", model)
    if isinstance(model, LoadedModel) and model.format == "keras":
        return _of_keras(model.model, model)
    if isinstance(model, LoadedModel) and DEFAULT in model.signatures:
        return _of_loaded(model, model.signatures[DEFAULT])
    if table.in_use("keras") and table.keras_models().is_layer(model):
        return _of_keras(model, model)
    specs = getattr(model, "structured_input_signature", None)  # of TensorFlow's signatures
    if isinstance(specs, tuple) and len(specs) == 2 and not specs[0]:
        return Inputs(tuple(specs[1]), (), False, "names", model)
    is_torch = frameworks.framework_of(model) == "torch"
    return _of_function(model.forward if is_torch else model, model)


def _of_loaded(model: LoadedModel, signature: LoadedSignature) -> Inputs:
    """A program of several signatures; inputs by name mean the one that servers use."""

    def call(given: Any) -> Any:
        return signature(**given) if isinstance(given, Mapping) else model(given)

    return Inputs(tuple(signature.inputs), (), False, "dict", call)


def _of_keras(model: Any, function: Callable[..., Any]) -> Inputs:
    known = table.keras_models().known_inputs(model)
    if isinstance(known, Mapping):
        return Inputs(tuple(known), (), False, "dict", function)
    if isinstance(known, list | tuple):
        return Inputs(tuple(one.name for one in known), (), False, "list", function)
    of_call = _of_function(model.call, function)
    if known is None:
        # A model that was never called takes a tensor, or a dict of them.
        form: Form = "dict" if len(of_call.names or ()) == 1 else "names"
        return Inputs(None if form == "dict" else of_call.names, (), False, form, function)
    # A subclassed model has no names but those of its arguments.
    own = table.keras_models().names_inputs(model) or not of_call.names
    return Inputs((known.name,) if own else of_call.names, (), False, "one", function)


def _of_function(function: Any, model: Callable[..., Any]) -> Inputs:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of C
        return Inputs(None, (), True, "names", model)
    named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    named = [one for one in named if one.name not in _SETTINGS]
    needed = tuple(one.name for one in named if one.default is one.empty)
    optional = tuple(one.name for one in named if one.default is not one.empty)
    is_open = any(one.kind == one.VAR_KEYWORD for one in parameters)
    if not needed and any(
        one.kind in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL) for one in parameters
    ):
        if is_open:
            return Inputs(None, (), True, "names", model)
        name = next(iter(parameters)).name
        return Inputs((name,), (), False, "one", model)
    if not needed and optional and not is_open:
        # def f(x=None): the first argument is what it takes, unless others are given.
        return Inputs(optional[:1], optional[1:], False, "names", model)
    return Inputs(needed, optional, is_open, "names", model)
