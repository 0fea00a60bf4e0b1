"""Contracts: what a framework's modules provide to the rest of the library.

A framework is reached through modules. Each of them keeps one contract of this file, or several:
a module keeps a contract by having the contract's functions at its top level. `table` says which
module keeps which contract, and mypy compares both. Nothing here imports a framework.

    Tensors             tensors to our values and back
    Variables           variables of models, read and set in place
    Datasets            datasets as rows
    Objects             the object graph that checkpoints follow
    Programs            models into SavedModels
    Loading, Graphs     SavedModels back, and what TensorFlow sees in one
    KerasModels         models as Keras knows them, and .keras files
    Functions           tf.functions and resources, for diagnosis
    KerasTracking       what Keras' own files keep of an object, for diagnosis
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from tensorferry import dtypes
from tensorferry.classes import dataclass, field, replace
from tensorferry.errors import UnsupportedError
from tensorferry.tensors.values import Array, Tensor

if TYPE_CHECKING:
    from tensorferry.frameworks.programs import NotKept, Program, Seen

# Facts about a tensor besides its values, as JSON takes them: its device, a variable's name.
Origin = Mapping[str, Any]

# Stores another value where a value was found: in a dict, a list or an attribute.
Put = Callable[[Any], None]


@runtime_checkable
class Tensors(Protocol):
    """Tensors of a framework to our values and back."""

    def owns(self, value: Foreign) -> bool:
        """Whether a value is one of the framework's tensors."""

    def to_value(self, value: Foreign) -> Tensor:
        """A tensor as one of our values, sharing memory where possible.

        Raises:
            UnsupportedError: The tensor has no values yet, or none that can be read.
        """

    def quick(self) -> Mapping[type, Callable[[Foreign], Array]]:
        """Functions that return a view of dense tensors, by the exact class of the tensor.

        They save the questions that `owns` and `to_value` ask, which take longer than the work for
        small tensors. The view is only good to be read at once.
        """

    def from_value(self, value: Tensor) -> Foreign:
        """One of our values as a tensor of the framework.

        Raises:
            UnsupportedError: The framework has no such tensor.
        """

    def origin(self, value: Foreign) -> dict[str, Any]:
        """Facts about a tensor besides its values, to be kept with it; {} if there are none."""

    def restore(self, value: Tensor, origin: Origin) -> Foreign:
        """As `from_value`, with what `origin` gave; a framework that keeps nothing ignores it.

        Raises:
            UnsupportedError: The framework has no such tensor, or no such device here.
        """

    def is_bulk(self, value: Foreign) -> bool:
        """Whether a value is a tensor that every pickler is known to keep."""


Foreign = Any
"""An object of a framework or of a user: its types are theirs, and not ours."""


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable of a model.

    Attributes:
        name: The name that its framework gives it; unique in the model.
        shape: None for a dimension that is not fixed, or instead of the whole shape.
        dtype: The name of its dtype, as in `tensorferry.dtypes`.
        read: Returns its value; shares memory where possible.
        assign: Sets its value to an array of that shape and dtype.
        trainable: Whether training changes it by gradients.
        optimizer: Whether it is part of an optimizer's state.
        spellings: Its name in files of a kind: "keras" (.weights.h5) and "checkpoint".
        aliases: Its other names.
        tied: The other places where the model holds the same variable; a file may have it at each.
        repeated: Its other names in files of a kind, which have it at each of its places.
        automatic: The parts of its name that the framework made up and numbered. They differ
            between two copies of a model.
        fixed: Why it cannot be set; None if it can.
    """

    name: str
    shape: tuple[int | None, ...] | None
    dtype: str
    read: Callable[[], Array] = field(repr=False)
    assign: Callable[[Array], None] = field(repr=False)
    trainable: bool = True
    optimizer: bool = False
    spellings: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    tied: tuple[str, ...] = ()
    repeated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    automatic: frozenset[str] = frozenset()
    fixed: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the variable, its own first."""
        return tuple(dict.fromkeys((*self.places, *self.spellings.values(), *self.aliases)))

    @property
    def places(self) -> tuple[str, ...]:
        """The names under which a file may have it more than once."""
        again = [
            name
            for kind, others in self.repeated.items()
            for name in (self.spellings[kind], *others)
        ]
        return (self.name, *self.tied, *again)

    def under(self, prefix: str) -> Variable:
        """The same variable as part of a larger model."""
        if not prefix:
            return self
        return replace(
            self,
            name=f"{prefix}/{self.name}",
            spellings={kind: f"{prefix}/{name}" for kind, name in self.spellings.items()},
            aliases=tuple(f"{prefix}/{name}" for name in self.aliases),
            tied=tuple(f"{prefix}/{name}" for name in self.tied),
            repeated={
                kind: tuple(f"{prefix}/{name}" for name in names)
                for kind, names in self.repeated.items()
            },
        )


@runtime_checkable
class Datasets(Protocol):
    """Datasets of a framework."""

    def batches(self, value: Foreign) -> tuple[Iterator[Any], bool] | None:
        """The elements of a dataset, and whether they come as batches; None of anything else.

        Raises:
            UnsupportedError: The elements are neither dicts of tensors nor strings.
        """

    def elements(self, value: Foreign) -> Iterator[Any] | None:
        """The elements of a dataset as they are; None of anything else."""


@runtime_checkable
class Variables(Protocol):
    """Variables of a framework, and of the models that know their own."""

    def is_variable(self, value: Foreign) -> bool:
        """Whether a value is a variable of the framework."""

    def make_variable(self, value: Foreign, name: str, put: Put | None = None) -> Variable:
        """One of the framework's variables as ours.

        Args:
            value: The framework's variable.
            name: The name to give it.
            put: Stores another value in its place; None where nothing can. Only frameworks whose
                tensors never change need it.
        """

    def is_model(self, value: Foreign) -> bool:
        """Whether `list_variables` knows more about a value than its attributes tell."""

    def list_variables(
        self, model: Foreign, *, build_optimizer: bool = False
    ) -> list[tuple[Foreign, Variable]]:
        """The variables of a model, each beside the framework's own object.

        Args:
            model: A value for which `is_model` is true.
            build_optimizer: Let an optimizer that was not used yet create its variables.

        Raises:
            UnsupportedError: The model was not built yet.
        """


@runtime_checkable
class Objects(Protocol):
    """The object graph of TensorFlow: what an object tracks, and the paths in checkpoints."""

    def is_tracked(self, value: Foreign) -> bool:
        """Whether TensorFlow knows the parts of an object, as it does for a `tf.Module`."""

    def tracked_children(self, value: Foreign) -> dict[str, Any]:
        """The parts of a tracked object by their names in checkpoints.

        Raises:
            UnsupportedError: TensorFlow cannot tell the parts.
        """

    def object_paths(self, model: Foreign) -> dict[int, list[str]]:
        """The paths to each part of a tracked model by the part's id, the preferred one first."""


@runtime_checkable
class Programs(Protocol):
    """Models into SavedModels."""

    def plan(
        self,
        model: Foreign,
        *,
        signatures: Foreign = None,
        inputs: Foreign = None,
        forward: Callable[..., Any] | None = None,
        known: tuple[Foreign, ...] | None = None,
    ) -> Program:
        """Everything that writing a model needs, and what the file will keep of it."""

    def specs_of(self, structure: Foreign) -> Foreign:
        """Symbolic tensors of Keras as specs with the same names."""

    def write(self, program: Program, directory: str) -> None:
        """Writes a planned model to a directory that does not exist yet."""


@runtime_checkable
class Loading(Protocol):
    """SavedModels back as functions."""

    def load(self, path: str, tags: Iterable[str] | None) -> Foreign:
        """The objects of a SavedModel."""

    def signatures_of(self, loaded: Foreign) -> Mapping[str, Any]:
        """The signatures of a loaded model by name."""

    def describe_inputs(self, concrete: Foreign) -> dict[str, str]:
        """Dtype and shape of each argument of a signature by name."""

    def describe_results(self, concrete: Foreign) -> dict[str, str]:
        """Dtype and shape of each result of a signature by name."""

    def call_signature(
        self,
        concrete: Foreign,
        name: str,
        positional: tuple[Foreign, ...],
        named: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The results of a signature for a user's values."""

    def model_function(self, loaded: Foreign) -> Foreign:
        """The function that stands for the whole model; None if there is none."""

    def call_function(
        self, function: Foreign, positional: tuple[Foreign, ...], named: Mapping[str, Any]
    ) -> Foreign:
        """The result of a model's own function for a user's values."""

    def variables_of(self, loaded: Foreign, *, by_name: bool) -> list[Variable]:
        """The variables of a loaded model."""


@runtime_checkable
class Graphs(Protocol):
    """What TensorFlow sees in a SavedModel, without loading it."""

    def look(
        self,
        directory: str,
        tags: Iterable[str],
        placed: frozenset[str],
        attributes: Mapping[str, tuple[str, tuple[bytes, ...]]],
    ) -> Seen:
        """The ops and assets of a graph, and what in it is used in an unusual way."""


@runtime_checkable
class KerasModels(Protocol):
    """Models as Keras 3 knows them, and `.keras` files."""

    def is_layer(self, value: Foreign) -> bool:
        """Whether a value is a layer or model of Keras 3."""

    def is_built(self, model: Foreign) -> bool:
        """Whether a model has its variables already."""

    def forward(self, model: Foreign) -> Callable[..., Any]:
        """The function that a model computes outside of training."""

    def known_inputs(self, model: Foreign) -> Foreign:
        """The inputs of a model as symbolic tensors; None if the model does not know them."""

    def names_inputs(self, model: Foreign) -> bool:
        """Whether the inputs of a model have names of their own: those of its `keras.Input`s."""

    def describe(self, model: Foreign) -> Foreign:
        """The config that a `.keras` file of the model has."""

    def describe_if_possible(self, model: Foreign) -> Foreign:
        """As `describe`; None for a model without a config."""

    def lost_by_export(self, model: Foreign) -> list[NotKept]:
        """What a SavedModel leaves out of a model."""

    def lost_by_archive(self, model: Foreign) -> Iterator[NotKept]:
        """What a `.keras` file leaves out of a model."""

    def save(self, model: Foreign, path: str) -> None:
        """Writes a `.keras` file."""

    def load(
        self, path: str, custom_objects: Mapping[str, Any], *, safe: bool, compile: bool
    ) -> Foreign:
        """The model of a file."""

    def predict(self, model: Foreign, arguments: tuple[Foreign, ...]) -> Foreign:
        """The result of a model outside of training."""

    def callback(
        self, save: Callable[[Foreign, int, int | None, Mapping[str, Any]], None], every: int | None
    ) -> Foreign:
        """A callback that calls `save` after each epoch, or after so many batches."""

    def imports(self, module: str) -> bool:
        """Whether a module of Keras is there, and not imported yet."""

    def registered_names(self) -> set[str]:
        """The names of the classes and functions that the program registered for configs."""

    def version(self) -> tuple[int, ...]:
        """The version of Keras."""


@runtime_checkable
class Functions(Protocol):
    """Functions and resources of TensorFlow, seen without tracing or calling anything."""

    def is_own(self, kind: type) -> bool:
        """Whether a class is TensorFlow's."""

    def is_module(self, value: Foreign) -> bool:
        """Whether a value is a plain `tf.Module`, whose attributes are all the user's."""

    def is_function(self, value: Foreign) -> bool:
        """Whether a value is a `tf.function`, or one of its traces."""

    def is_iterator(self, value: Foreign) -> bool:
        """Whether a value is an iterator over a dataset."""

    def class_functions(self, value: Foreign) -> Iterator[tuple[str, str, Any]]:
        """The `tf.function` methods of an object: name, step to the undecorated one, function."""

    def python_function(self, function: Foreign) -> FunctionType | None:
        """The Python function behind a `tf.function`, if there is one."""

    def traces(self, function: Foreign) -> list[Foreign]:
        """The graphs that a function has already."""

    def is_exportable(self, function: Foreign) -> bool:
        """Whether a SavedModel will have a graph of the function."""

    def captured(self, function: Foreign) -> set[int]:
        """The ids of the handles that the function's graphs use."""

    def calls_python(self, function: Foreign) -> bool:
        """Whether the function's graphs call back into this process."""

    def handle(self, value: Foreign) -> Foreign:
        """The handle by which graphs know a variable or table; None for any other value."""


# When a problem shows: at saving, at loading, at loading unless safe_mode=False, or never.
When = Literal["save", "load", "safe", "lost"]


@dataclass(frozen=True, slots=True)
class KerasProblem:
    """Something that Keras' own files do not keep.

    Attributes:
        step: The expression that leads to it, with `{}` for the object that was asked about.
        value: What is there.
        when: When the problem shows.
        reason: Why it is not kept.
    """

    step: str
    value: Foreign
    when: When
    reason: str


@runtime_checkable
class KerasTracking(Protocol):
    """What Keras' own files keep of an object, and what prevents saving it."""

    def is_saveable(self, value: Foreign) -> bool:
        """Whether Keras has its own way of saving an object."""

    def is_composite(self, value: Foreign) -> bool:
        """Whether the config of a model is that of its layers."""

    def is_built(self, value: Foreign) -> bool:
        """Whether a layer has all of its variables."""

    def build_config(self, value: Foreign) -> Foreign:
        """The argument for `build_from_config` of a new layer; None if there is none."""

    def backing(self, variable: Foreign) -> Foreign:
        """The backend's own variable behind one of Keras'."""

    def draws_seeds(self, value: Foreign) -> bool:
        """Whether a value is an RNN cell with dropout, whose graph uses an untracked seed."""

    def collections(self, value: Foreign) -> dict[str, Any]:
        """The lists and dicts of a layer that SavedModels have and checkpoints do not."""

    def parts(self, value: Foreign) -> Iterator[tuple[str, Foreign]]:
        """What the user put into an object: step and value."""

    def kept(self, value: Foreign) -> Iterator[tuple[str, Foreign]]:
        """The parts that a file keeps: step and value."""

    def problems(self, value: Foreign) -> list[KerasProblem]:
        """Why an object cannot be saved, or not be loaded again."""


def lacks(framework: str, dtype: dtypes.DType) -> UnsupportedError:
    """The error for a dtype that a framework does not have, with the way out."""
    if dtype is dtypes.STRING:
        way = "gives an array of bytes"
    elif dtype.numpy is not None and dtype.numpy.names:
        way = f'and array.view("{dtype.numpy[0]}") give the plain integers'
    else:
        wider = "int8" if "int" in dtype.name else "float32"
        way = f'and array.astype("{wider}") give a dtype that it has'
    return UnsupportedError(f"{framework} has no {dtype.name} tensors", hint=f'to="numpy" {way}')
