"""Loading models: a file is read as data and judged before TensorFlow or Keras sees it.

    model = ferry.load_model("encoder")       # a SavedModel needs none of its original classes
    model([[1.0, 2.0, 3.0]])                  # NumPy in, NumPy out
    model.signatures["serving_default"](x=[[1.0, 2.0, 3.0]])

`tensorferry.models.dangers` finds out what loading or calling the model would do besides computing.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from tensorferry import storage
from tensorferry.classes import replace
from tensorferry.codecs.hdf5.file import SIGNATURE
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.formats.keras import config as keras_config
from tensorferry.formats.keras.weights import Weights
from tensorferry.formats.savedmodel import (
    assets as savedmodel_assets,
    model as savedmodel,
    ops as savedmodel_ops,
)
from tensorferry.formats.savedmodel.reader import open_variables
from tensorferry.frameworks import table
from tensorferry.frameworks.contract import KerasModels, Loading
from tensorferry.frameworks.programs import DEFAULT
from tensorferry.frameworks.variables import find_variables
from tensorferry.models import dangers, private, remote
from tensorferry.models.dangers import Allow, Danger
from tensorferry.models.loaded import LoadedModel, LoadedSignature, Values
from tensorferry.models.outline import INTERNAL
from tensorferry.progress import Progress, following
from tensorferry.storage.place import Place

# How the name of an archive ends; files of other names are HDF5.
PACKED = ".keras"
# Calls a model with positional and named arguments.
Call = Callable[[tuple[Any, ...], Mapping[str, Any]], Any]


def load_model(
    path: str | os.PathLike[str],
    *,
    signature: str | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    allow: Allow = (),
    tags: Iterable[str] | None = None,
    to: str = "numpy",
    compile: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress | bool | None = None,
) -> LoadedModel:
    """Loads a model from a file, ready to be called.

    A SavedModel needs none of the classes that it was created from. The file is read as data
    first. If loading or calling the model would do more than compute, the error names everything
    that is not allowed, and nothing is loaded.

    Args:
        path: A SavedModel, a `.keras` file, or an `.h5` file with a config; local or a URL, of
            which a copy is judged and loaded.
        signature: The signature that a call means. By default that is the model's own function, or
            its only or default signature.
        custom_objects: Classes and functions by the names that a Keras config has for them.
        allow: Kinds of things that the model may do besides computing, such as `("lambda",)`; True
            allows all. See `tensorferry.models.dangers`.
        tags: The tags of the graph to load, if a SavedModel has several graphs.
        to: The framework whose tensors calls return: "numpy", "tensorflow", "torch", "jax".
        compile: Let Keras create the optimizer and losses, too.
        storage_options: Options for the store of a URL.
        progress: True shows a bar; a function receives the number of bytes loaded and the total.
            TensorFlow and Keras load a local model in one step; from a URL it comes piece by piece.

    Raises:
        UnsupportedError: The model would do something that is not allowed, cannot be loaded, or
            has variables and no program.
        FormatError: The file is damaged.
        MissingExtraError: TensorFlow or Keras is not installed.

    Examples:
        >>> import tensorflow as tf
        >>> report = ferry.save_model(lambda x: 2 * x, "double", inputs=np.ones((1, 3), np.float32))
        >>> model = ferry.load_model("double")
        >>> model([[1.0, 2.0, 3.0]]).tolist()
        [[2.0, 4.0, 6.0]]
    """
    name = storage.localize(path)
    if storage.is_url(name):
        with (
            following(progress, name, "bytes") as tell,
            remote.fetched(name, storage_options, tell) as copy,
        ):
            model = load_model(
                copy,
                signature=signature,
                custom_objects=custom_objects,
                allow=allow,
                tags=tags,
                to=to,
                compile=compile,
            )
        return replace(model, path=name)
    kinds = dangers.allowed_kinds(allow)
    if savedmodel.find(Place(name)) is not None:
        with _loading(name, progress):
            return _load_program(name, signature, kinds, tags, to)
    if signature is not None or tags is not None:
        raise UnsupportedError("signature= and tags= are of SavedModels", path=name)
    if os.path.isfile(name) and name.endswith((PACKED, ".h5", ".hdf5")):
        with _loading(name, progress):
            return _load_archive(name, custom_objects or {}, kinds, to, compile)
    if not any(storage.exists(f"{name}{end}") for end in ("", ".index")):
        raise FileNotFoundError(f"{name}: there is no model")
    raise UnsupportedError(
        "it holds no model with a program, only values at most",
        path=name,
        hint="make the model, and set its variables: ferry.load_weights(model, path)",
    )


@contextmanager
def _loading(path: str, progress: Progress | bool | None) -> Iterator[None]:
    """Tells how large a local model is, before it is loaded and afterwards."""
    with following(progress, path, "bytes") as tell:
        size = 0 if tell is None else remote.size_of(path)
        if tell is not None:
            tell(0, size)
        yield
        if tell is not None:
            tell(size, size)


def _load_program(
    path: str,
    signature: str | None,
    kinds: frozenset[str],
    tags: Iterable[str] | None,
    to: str,
) -> LoadedModel:
    file = _check_file(path)
    copy = private.copy_savedmodel(file, links="asset" in kinds)
    try:
        with copy.named():
            model = _load_copy(copy, path, signature, kinds, tags, to)
    except BaseException:
        copy.remove()
        raise
    # Assets are read when the model is saved again, values of TensorFlow 1 when they are asked for.
    weakref.finalize(model.model, copy.remove)
    return model


def _load_copy(
    copy: private.Copy,
    path: str,
    signature: str | None,
    kinds: frozenset[str],
    tags: Iterable[str] | None,
    to: str,
) -> LoadedModel:
    read = savedmodel.read(copy.path)
    wanted = None if tags is None else tuple(tags)
    try:
        graph = read.find(wanted)
    except KeyError as error:
        raise UnsupportedError(str(error.args[0]), path=path, hint="tags= chooses one") from None
    found = dangers.in_savedmodel(read, graph, copy.problems)
    dangers.refuse(found, kinds, path)
    if read.has_variables:
        open_variables(read.place).close()  # finds damage before TensorFlow does
    programs = table.loading()
    allowed = dangers.refuse([*found, *_dangers_of(read, graph)], kinds, path)
    loaded = programs.load(read.path, graph.tags)
    signatures = {
        name: LoadedSignature(
            name,
            programs.describe_inputs(concrete),
            programs.describe_results(concrete),
            to,
            partial(programs.call_signature, concrete, name),
        )
        for name, concrete in programs.signatures_of(loaded).items()
        if not name.startswith(INTERNAL)
    }
    if signature is not None and signature not in signatures:
        raise UnsupportedError(
            f"no signature is called {signature!r}",
            path=path,
            hint=f"it has {', '.join(signatures) or 'none'}",
        )
    call = _call_of(programs, loaded, signatures, signature)
    in_graph = graph.objects is None  # in TensorFlow 1, not all variables are objects
    stored = open_variables(read.place).stored if in_graph and read.has_variables else None
    values = Values(partial(programs.variables_of, loaded, by_name=in_graph), stored)
    if stored is None:
        copy.keep_assets()  # TensorFlow has read all else
    return LoadedModel(path, "savedmodel", signatures, values, to, allowed, loaded, call)


def _check_file(path: str) -> str:
    """The file of the program; refuses a directory that has several."""
    file = savedmodel.find(Place(path))
    directory = "." if file is None else os.path.dirname(file.path) or "."
    found = [name for name in savedmodel.FILES if os.path.exists(os.path.join(directory, name))]
    if len(found) > 1:
        raise UnsupportedError(
            f"it has {' and '.join(found)}, and each is a model",
            path=path,
            hint="remove all but one: which of them is loaded differs from program to program",
        )
    if found[0].endswith(".cpb"):
        raise UnsupportedError(
            f"TensorFlow loads no {found[0]} in Python", path=path, hint="ferry.open reads it"
        )
    return os.path.join(directory, found[0])


def _dangers_of(model: savedmodel.SavedModel, graph: savedmodel.MetaGraph) -> list[Danger]:
    """The dangers that depend on where TensorFlow uses an op.

    Raises:
        FormatError: TensorFlow sees another model than our own reader.
    """
    ops = savedmodel_ops
    seen = table.graphs().look(model.path, graph.tags, ops.placed(), ops.ATTRIBUTES)
    strange = seen.ops.symmetric_difference(graph.ops)
    if strange:
        raise FormatError(
            f"TensorFlow sees another model in it than we do: {', '.join(sorted(strange)[:5])}",
            path=model.path,
        )
    found = [Danger(one.kind, one.place, one.detail) for one in seen.misused]
    # Old graphs have assets in a collection, whose names nobody looked at yet.
    for name in sorted(seen.assets - {asset.name for asset in model.assets}):
        problem = savedmodel_assets.check_name(name)
        if problem is not None:
            found.append(Danger("asset", name[:100], problem))
    return found


def _call_of(
    programs: Loading, loaded: Any, signatures: Mapping[str, LoadedSignature], chosen: str | None
) -> Call | None:
    """What calling the model runs; None if several signatures are equally likely."""
    if chosen is not None:
        return signatures[chosen]._call
    function = programs.model_function(loaded)
    if function is not None:
        return partial(programs.call_function, function)
    names = [DEFAULT] if DEFAULT in signatures else list(signatures)
    return signatures[names[0]]._call if len(names) == 1 else None


def _load_archive(
    path: str,
    custom_objects: Mapping[str, Any],
    kinds: frozenset[str],
    to: str,
    compile: bool,
) -> LoadedModel:
    if path.endswith(PACKED):
        copy = private.unpack_archive(path)
    else:
        copy = private.copy_file(path, os.path.splitext(path)[1])
    try:
        with copy.named():
            return _load_file(copy.path, path, custom_objects, kinds, to, compile)
    finally:
        copy.remove()  # Keras has read all of it


def _load_file(
    copy: str,
    path: str,
    custom_objects: Mapping[str, Any],
    kinds: frozenset[str],
    to: str,
    compile: bool,
) -> LoadedModel:
    """The model of a private copy of a file."""
    is_packed = path.endswith(PACKED)
    config, training = _configs_of_folder(copy) if is_packed else _configs_of_file(copy, path)
    if config is None:
        raise UnsupportedError(
            "it holds weights and no config, so there is no model to make",
            path=path,
            hint="make the model, and set its variables: ferry.load_weights(model, path)",
        )
    keras = table.keras_models()
    if not compile:  # Keras leaves out what it would compile the model with
        training = None
        config = {**config, "compile_config": None} if is_packed else config
    findings = (*keras_config.find(config), *keras_config.find({"training_config": training}))
    found = dangers.in_keras(keras.version())
    found += dangers.in_config([config, training], findings, custom_objects, keras)
    allowed = dangers.refuse(found, kinds, path)
    supplied = dangers.supply([config, training], custom_objects)
    safe = not {"lambda", "pickle"} & {danger.kind for danger in allowed}
    if is_packed and keras.version() < dangers.OLDEST_KERAS:  # which may load archives only
        copy = private.pack(copy)
    model = keras.load(copy, supplied, safe=safe, compile=compile)
    call = partial(_predict, keras, model)
    values = Values(lambda: find_variables(model).variables)
    return LoadedModel(path, "keras", {}, values, to, allowed, model, call)


def _configs_of_folder(copy: str) -> tuple[Any, Any]:
    """The config in an unpacked archive, whose weights are fine; how to train is a part of it."""
    from tensorferry.formats.keras.reader import open_folder

    with open_folder(copy) as opened:
        _check_weights(opened)
    return opened.config, None


def _configs_of_file(copy: str, path: str) -> tuple[Any, Any]:
    """The configs of a model and its training in an HDF5 file, whose weights are fine.

    Raises:
        FormatError: The HDF5 library reads other ones than we do.
    """
    from tensorferry.formats.keras import reader as files

    _check_kind(copy)
    with files.open_weights(Place(copy)) as opened:
        _check_weights(opened)
    found = {"model_config": opened.config, "training_config": opened.training}
    if opened.config is not None:
        for key, judged in found.items():
            if _config_of(copy, key) != judged:
                raise FormatError(f"Keras sees another {key} in it than we do", path=path)
    return opened.config, opened.training


def _check_weights(weights: Weights) -> None:
    """Refuses weights that the HDF5 library would look for elsewhere, or that we cannot judge."""
    for error in (*weights.links(), *weights.unreadable()):
        raise error


def _check_kind(path: str) -> None:
    """Refuses a file that is no HDF5 file, as its name says: Keras goes by the name."""
    with open(path, "rb") as file:
        head = file.read(len(SIGNATURE))
    if head != SIGNATURE:
        raise FormatError(
            f"starts with {head.hex(' ')!r}, expected {SIGNATURE.hex(' ')!r} by its name",
            path=path,
            offset=0,
        )


def _config_of(path: str, key: str) -> Any:
    """A config, as the HDF5 library reads it, with which Keras reads it."""
    data = _attribute(path, key)
    if data is None:
        return None
    text = data.encode() if isinstance(data, str) else data
    try:
        return keras_config.parse(text, what=key)
    except FormatError as error:
        raise error.located(path=path) from None


def _attribute(path: str, key: str) -> str | bytes | None:
    """A text among the attributes of an HDF5 file, as the HDF5 library reads it.

    Raises:
        FormatError: The library does not read it, or it is no text.
    """
    import h5py  # Keras needs it as well

    try:
        with h5py.File(path, "r") as file:
            data = file.attrs.get(key)
    except Exception as error:  # of the library's own checks: OSError, KeyError, RuntimeError
        raise FormatError(f"the HDF5 library does not read it: {error}", path=path) from None
    if data is None or isinstance(data, str | bytes):
        return data
    raise FormatError(f"its {key} is no text", path=path)


def _predict(
    keras: KerasModels, model: Any, positional: tuple[Any, ...], named: Mapping[str, Any]
) -> Any:
    if named:
        raise TypeError(f"a Keras model takes its inputs by position, not {', '.join(named)}")
    return keras.predict(model, positional)
