"""Models: programs with their variables, into files that run without the code that made them.

    report = ferry.save_model(model, "encoder")          # a directory: a SavedModel
    print(report)                                        # what is kept, and what is not
    model = ferry.load_model("encoder")                  # called with NumPy, without the classes
    model([[1.0, 2.0, 3.0]])

By the path: a directory is a SavedModel, `.keras` Keras' own file, and `.weights.h5`, `.ckpt`,
`.safetensors` and `.npz` keep variables alone, as `save_weights` does. What a model is to
TensorFlow is `tensorferry.frameworks.tensorflow.models`, to Keras `keras_models`. Loading is
`tensorferry.models.loading`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from tensorferry import dtypes, formats, frameworks, storage, weights
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.formats.keras import config as keras_config
from tensorferry.frameworks.programs import NotKept, find_paths
from tensorferry.frameworks.variables import Variable, find_variables, list_variables
from tensorferry.models import dangers
from tensorferry.models.report import ModelReport
from tensorferry.storage.directory import replacing_path
from tensorferry.tensors.values import TensorInfo

Kind = Literal["program", "archive", "weights"]

# Formats that keep variables alone.
WEIGHTS = ("keras", "checkpoint", "safetensors", "npz")
# What a SavedModel consists of. Anything else in its directory is somebody's own.
OWN = frozenset(
    {
        "saved_model.pb",
        "saved_model.pbtxt",
        "saved_model.cpb",
        "fingerprint.pb",
        "keras_metadata.pb",
        "variables",
        "assets",
        "debug",
    }
)
_OTHERS = (".h5", ".hdf5", ".pb", ".pbtxt", ".tflite", ".onnx", ".pt", ".pth", ".pkl", ".pickle")
_NUMBERED = re.compile(r"\.ckpt-\d+")


def save_model(
    model: Any,
    path: str | os.PathLike[str],
    *,
    signatures: Any = None,
    inputs: Any = None,
    format: str | None = None,
    overwrite: bool = True,
    dry_run: bool = False,
    optimizer: bool = True,
    durable: bool = True,
    **options: Any,
) -> ModelReport:
    """Writes a model, and says what the file keeps of it and what it does not.

    What is at the path is replaced in one step: a process that is killed leaves the old or the new.

    Args:
        model: A model or layer of Keras, a `tf.Module`, a tf.function, a Python function, or an
            object with variables and one of `__call__`, `call`, `forward`, `predict`. Where only
            variables are kept, also a dict such as `{"model": ..., "optimizer": ..., "step": 3}`.
        path: Its ending says the format: see the top of this module.
        signatures: Ways to call a SavedModel: a function, names of methods, or a dict from names
            to functions, names of methods, or pairs of one of those and its example inputs. By
            default one, of the model's own function.
        inputs: Example inputs, where the model does not say what it takes: a tuple for several
            arguments, a dict of arguments by name, else the one argument. The first axis may have
            another size in later calls; `tf.TensorSpec` says exactly what is taken.
        format: By default that of the path's ending.
        overwrite: Replace what is there; if false, that is an error.
        dry_run: Write nothing: give the report of what would be kept.
        optimizer: Where variables alone are kept: those of the optimizer, too.
        durable: Waits until the disk has it.
        **options: Of `tensorferry.save`, where variables alone are kept.

    Raises:
        UnsupportedError: The model, or a part of it, cannot be kept so; the error says why.
        FileExistsError: Something is there, and `overwrite` is false.
        FormatError: A directory is there that is no SavedModel, or has more in it.
        MissingExtraError: TensorFlow or Keras is not installed.
    """
    name = storage.localize(path)
    kind = _kind_of(name, format)
    if kind != "weights":
        _check_target(name, kind, overwrite, options)
    elif not overwrite and _exists(name):
        raise FileExistsError(f"{name}: is there, and overwrite=False")
    if kind == "program":
        return _save_program(model, name, signatures, inputs, dry_run=dry_run, durable=durable)
    if signatures is not None:
        raise UnsupportedError("signatures= are of SavedModels, which are directories", path=name)
    if kind == "archive":
        return _save_archive(model, name, dry_run=dry_run, durable=durable)
    return _save_variables(
        model, name, format, optimizer=optimizer, dry_run=dry_run, durable=durable, options=options
    )


def _kind_of(path: str, format: str | None) -> Kind:
    if format == "savedmodel":
        return "program"
    if path.endswith(".keras") and format in (None, "keras"):
        return "archive"
    found = format or ("checkpoint" if _NUMBERED.search(path) else formats.named(path))
    if found in WEIGHTS and (found != "keras" or path.endswith((".weights.h5", ".weights.json"))):
        return "weights"
    if found is not None or path.endswith(_OTHERS):
        raise UnsupportedError(
            f"models are not kept as {format or os.path.splitext(path)[1]}",
            path=path,
            hint="a directory is a SavedModel; .keras, .weights.h5, .ckpt and .safetensors are "
            "the others",
        )
    return "program"


def _exists(path: str) -> bool:
    return any(storage.exists(f"{path}{end}") for end in ("", ".index"))


def _check_target(path: str, kind: Kind, overwrite: bool, options: Mapping[str, Any]) -> None:
    """Refuses what cannot be replaced."""
    if options:
        raise TypeError(f"{', '.join(options)}: options are of files that keep variables alone")
    if storage.is_url(path):
        raise UnsupportedError(
            "models are written to local paths", path=path, hint="write it, and copy it there"
        )
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise FileExistsError(f"{path}: is there, and overwrite=False")
    if os.path.isdir(path) != (kind == "program"):
        what = "a directory" if os.path.isdir(path) else "a file"
        expected = "a directory" if kind == "program" else "a file"
        raise FormatError(
            f"{what} is there, which a model that is {expected} does not replace", path=path
        )
    if kind == "archive":
        return
    found = sorted(os.listdir(path))
    others = [name for name in found if name not in OWN]
    if found and (others or not any(name.startswith("saved_model.") for name in found)):
        raise FormatError(
            f"the directory is no SavedModel alone: it has {', '.join((others or found)[:5])}",
            path=path,
            hint="choose a new directory, or move these files away",
        )


def _keras_models(model: Any = None) -> Any:
    """What knows Keras, if the program uses it; a model may be one of its only then."""
    if sys.modules.get("keras") is None:
        return None
    found = frameworks.load("keras.models", "keras")
    return found if found.is_layer(model) else None


def _infos(variables: Iterable[Variable]) -> tuple[TensorInfo, ...]:
    return tuple(
        TensorInfo(one.name, one.dtype, one.shape or (), _size_of(one)) for one in variables
    )


def _size_of(variable: Variable) -> int | None:
    row = dtypes.as_dtype(variable.dtype).numpy
    if row is None or row == np.dtype(object) or variable.shape is None or None in variable.shape:
        return int(variable.read().nbytes)
    sizes = [size for size in variable.shape if size is not None]
    return int(np.prod(sizes, dtype=np.int64)) * row.itemsize


def _total(infos: Iterable[TensorInfo]) -> int:
    return sum(info.nbytes or 0 for info in infos)


# SavedModel


def _save_program(
    model: Any, path: str, signatures: Any, inputs: Any, *, dry_run: bool, durable: bool
) -> ModelReport:
    if isinstance(model, Mapping | list | tuple):
        raise UnsupportedError(
            f"a {type(model).__name__} has no function to be called",
            path=path,
            hint="its variables can be kept: name it .ckpt or .safetensors",
        )
    _refuse_torch(model, path)
    tensorflow = frameworks.load("tensorflow.models", "tensorflow")
    keras = _keras_models(model)
    more: dict[str, Any] = {}
    lost: list[NotKept] = []
    paths = []
    if keras is not None:
        known = keras.known_inputs(model)
        specs = None if known is None else tensorflow.specs_of(known)
        more = {"forward": keras.forward(model), "known": None if specs is None else (specs,)}
        lost = keras.lost_by_export(model)
        paths = list(find_paths(keras.describe_if_possible(model), "config"))
    program = tensorflow.plan(model, signatures=signatures, inputs=inputs, **more)
    infos = _infos(program.variables)
    files = ["saved_model.pb", "fingerprint.pb", "variables/variables.index"]
    files.append("variables/variables.data-00000-of-00001")
    files += [f"assets/{os.path.basename(asset)}" for asset in program.assets]
    report = ModelReport(
        path,
        "savedmodel",
        tuple(sorted(files)),
        infos,
        program.signatures,
        tuple(program.kept),
        (*program.not_kept, *lost),
        tuple(dict.fromkeys((*program.paths, *paths))),
        nbytes=_total(infos),
    )
    if dry_run:
        return report
    with replacing_path(path, durable=durable) as temporary:
        tensorflow.write(program, temporary)
        _check_written(temporary, report)
    return replace(report, written=True)


def _refuse_torch(model: Any, path: str) -> None:
    modules = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    if "torch" in modules:
        raise UnsupportedError(
            "a torch module is no program of TensorFlow",
            path=path,
            hint="its variables can be kept: name it .safetensors",
        )


def _check_written(directory: str, report: ModelReport) -> None:
    """What was written has what was promised, as far as our own reader tells."""
    from tensorferry.formats.savedmodel import model as savedmodel

    graph = savedmodel.read(directory).find()
    promised = {signature.name for signature in report.signatures}
    missing = promised - {*graph.signatures}
    if missing:
        raise UnsupportedError(f"TensorFlow did not write the signatures {', '.join(missing)}")


# Keras


def _save_archive(model: Any, path: str, *, dry_run: bool, durable: bool) -> ModelReport:
    keras = _keras_models(model)
    if keras is None:
        raise UnsupportedError(
            f"{type(model).__name__} is no model of Keras 3",
            path=path,
            hint="a path without an ending is a SavedModel, which takes other models, too",
        )
    config = keras.describe(model)
    variables = find_variables(model).variables  # layers without any are models, too
    infos = _infos(variables)
    kept = ["the config of the model", f"{len(infos)} variables"]
    if any(variable.optimizer for variable in variables):
        kept.append("the state of the optimizer")
    report = ModelReport(
        path,
        "keras",
        (os.path.basename(path),),
        infos,
        kept=tuple(kept),
        not_kept=tuple(keras.lost_by_archive(model)),
        absolute_paths=tuple(find_paths(config, "config")),
        needs=tuple(_needs(config, keras)),
        nbytes=_total(infos),
    )
    if dry_run:
        return report
    with replacing_path(path, suffix=".keras", durable=durable) as temporary:
        keras.save(model, temporary)
    return replace(report, written=True)


def _needs(config: Any, keras: Any) -> Iterator[str]:
    """What `load_model` will ask for."""
    found = dangers.in_config(config, keras_config.find(config), {}, keras)
    for danger in found:
        yield str(danger)


# Variables


def _save_variables(
    model: Any,
    path: str,
    format: str | None,
    *,
    optimizer: bool,
    dry_run: bool,
    durable: bool,
    options: dict[str, Any],
) -> ModelReport:
    state = _as_state(model, path)
    listed = list_variables(state)
    chosen = [one for one in listed if optimizer or not one.optimizer]
    infos = _infos(chosen)
    found = format or formats.named(path) or "checkpoint"
    lost = [NotKept("program", "the file has variables alone; load_weights sets those of a model")]
    if len(chosen) < len(listed):
        lost.append(NotKept("optimizer", "optimizer=False"))
    kept = [f"{len(chosen)} variables"]
    if any(one.optimizer for one in chosen):
        kept.append("the state of the optimizer")
    files = [os.path.basename(path)]
    if found == "checkpoint":
        files = ["checkpoint", f"{files[0]}.data-00000-of-00001", f"{files[0]}.index"]
        options.setdefault("layout", "objects")  # which tf.train.Checkpoint restores
    report = ModelReport(
        path,
        found,
        tuple(files),
        infos,
        kept=tuple(kept),
        not_kept=tuple(lost),
        nbytes=_total(infos),
    )
    if dry_run:
        return report
    weights.save_weights(state, path, optimizer=optimizer, durable=durable, format=found, **options)
    return replace(report, written=True)


def _as_state(model: Any, path: str) -> Any:
    """A dict with its numbers as arrays, which are variables; other models as they are."""
    if type(model) is not dict:
        return model
    state = {}
    for key, value in model.items():
        if isinstance(value, str | bytes) or value is None:
            raise UnsupportedError(
                f"{key!r} is a {type(value).__name__}, and variables are numbers",
                path=path,
                hint="metadata= keeps texts, in formats that have a place for them",
            )
        state[key] = np.asarray(value) if isinstance(value, bool | int | float) else value
    return state
