"""Saving models: programs with their variables, in files that run without the original code.

    report = ferry.save_model(model, "encoder")          # a directory: a SavedModel
    print(report)                                        # what is kept, and what is not
    model = ferry.load_model("encoder")                  # called with NumPy, without the classes
    model([[1.0, 2.0, 3.0]])

The path says the format: a directory is a SavedModel, `.keras` is Keras' own file, and
`.weights.h5`, `.ckpt`, `.safetensors` and `.npz` keep variables alone, as `save_weights` does.
`tensorferry.frameworks` does what only TensorFlow or Keras can. Loading is
`tensorferry.models.loading`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, Unpack

import numpy as np

from tensorferry import dtypes, storage
from tensorferry.classes import dataclass, replace
from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.files import keywords
from tensorferry.formats.keras import config as keras_config
from tensorferry.formats.savedmodel.target import check_folder
from tensorferry.formats.table import named
from tensorferry.frameworks import conversion, table
from tensorferry.frameworks.contract import KerasModels, Variable
from tensorferry.frameworks.programs import FoundPath, NotKept, Program, find_paths
from tensorferry.frameworks.variables import find_variables, list_variables
from tensorferry.models import dangers, remote
from tensorferry.models.report import ModelReport
from tensorferry.progress import Progress, following
from tensorferry.storage.directory import replacing_path
from tensorferry.tensors.values import TensorInfo
from tensorferry.weights.saving import save_weights

Kind = Literal["program", "archive", "weights"]

# Formats that keep variables alone.
WEIGHTS = ("keras", "checkpoint", "safetensors", "npz")
_OTHERS = (".h5", ".hdf5", ".pb", ".pbtxt", ".tflite", ".onnx", ".pt", ".pth", ".pkl", ".pickle")
_NUMBERED = re.compile(r"\.ckpt-\d+")


@keywords.shown(keywords.WritingWeights)
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
    progress: Progress | bool | None = None,
    **options: Unpack[keywords.WritingWeights],
) -> ModelReport:
    """Writes a model, and reports what the file keeps of it and what it leaves out.

    The model at the path is replaced atomically: a process that is killed leaves the old one or
    the new one.

    Args:
        model: A model or layer of Keras, a `tf.Module`, a tf.function, a Python function, or an
            object with variables and one of `__call__`, `call`, `forward`, `predict`. If only
            variables are kept, also a dict such as `{"model": ..., "optimizer": ..., "step": 3}`.
        path: The suffix says the format: see the top of this module.
        signatures: Ways to call a SavedModel: a function, names of methods, or a dict from names
            to functions, names of methods, or pairs of one of those and its example inputs. By
            default there is one signature, for the model's own function.
        inputs: Example inputs, if the model does not know its inputs: a tuple for several
            arguments, a dict of arguments by name, or else the only argument. Later calls may have
            another size of the first axis; `tf.TensorSpec` fixes it.
        format: The format, if the suffix does not say it.
        overwrite: Replace an existing file; if false, that is an error.
        dry_run: Write nothing, and report what would be kept.
        optimizer: If variables alone are kept: include those of the optimizer.
        durable: Wait until the bytes are on disk.
        progress: True shows a bar; a function receives the number of bytes written and the total.
            TensorFlow and Keras write a local model in one step; to a URL it goes piece by piece.
        **options: For files with variables alone: see
            `tensorferry.files.keywords.WritingWeights`. Checkpoints have objects by default.

    Raises:
        UnsupportedError: The model, or a part of it, cannot be saved that way; the error says why.
        FileExistsError: The path exists, and `overwrite` is false.
        FormatError: The path is a directory that is no SavedModel, or has other files in it.
        MissingExtraError: TensorFlow or Keras is not installed.

    Examples:
        >>> import tensorflow as tf
        >>> double = lambda x: 2 * x
        >>> report = ferry.save_model(double, "double", inputs=np.ones((1, 3), np.float32))
        >>> [signature.name for signature in report.signatures]
        ['serving_default']
    """
    name = storage.localize(path)
    kind = _kind_of(name, format)
    if kind != "weights" and storage.is_url(name):
        store = options.pop("storage_options", None)
        remote.check_target(name, kind, overwrite, store)
        with remote.sent(name, store, progress) as copy:
            report = save_model(
                model,
                copy,
                signatures=signatures,
                inputs=inputs,
                format=format,
                dry_run=dry_run,
                durable=False,
                **options,
            )
        return replace(report, path=name)
    if kind != "weights":
        _check_target(name, kind, overwrite, options)
    elif not overwrite and _exists(name):
        raise FileExistsError(f"{name}: is there, and overwrite=False")
    if kind != "program" and signatures is not None:
        raise UnsupportedError("signatures= are of SavedModels, which are directories", path=name)
    how = _How(dry_run, durable, progress)
    if kind == "program":
        return _save_program(model, name, signatures, inputs, how)
    if kind == "archive":
        return _save_archive(model, name, how)
    return _save_variables(model, name, format, how, optimizer=optimizer, options=options)


@dataclass(frozen=True)
class _How:
    """What all kinds of models are written with: see `save_model`."""

    dry_run: bool
    durable: bool
    progress: Progress | bool | None

    @contextmanager
    def writing(self, report: ModelReport, suffix: str = "") -> Iterator[str]:
        """A path to write to, which takes the place of the target; progress is told of it."""
        size = report.nbytes or 0
        with following(self.progress, report.path, "bytes") as tell:
            if tell is not None:
                tell(0, size)
            check = check_folder if report.format == "savedmodel" else None
            with replacing_path(
                report.path, suffix=suffix, durable=self.durable, check=check
            ) as temporary:
                yield temporary
            if tell is not None:
                tell(size, size)


def _kind_of(path: str, format: str | None) -> Kind:
    if format == "savedmodel":
        return "program"
    if path.endswith(".keras") and format in (None, "keras"):
        return "archive"
    found = format or ("checkpoint" if _NUMBERED.search(path) else named(path))
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


def _check_target(path: str, kind: Kind, overwrite: bool, options: keywords.WritingWeights) -> None:
    """Refuses to replace anything but a model of the same kind."""
    if given := keywords.given(options):
        raise TypeError(f"{', '.join(given)}: options are of files that keep variables alone")
    path = os.path.realpath(path)  # it is what will be replaced
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
    check_folder(path)


def _keras_models(model: Any) -> KerasModels | None:
    """Keras, if the model is one of Keras 3; that is only possible if the program imported it."""
    if not table.in_use("keras"):
        return None
    found = table.keras_models()
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


def _save_program(model: Any, path: str, signatures: Any, inputs: Any, how: _How) -> ModelReport:
    if isinstance(model, Mapping | list | tuple) or conversion.is_tensor(model):
        raise UnsupportedError(
            f"{type(model).__name__} has no function to be called",
            path=path,
            hint="tensorferry.save(value, path, format='savedmodel') writes a SavedModel that "
            "returns its tensors",
        )
    _refuse_torch(model, path)
    programs = table.programs()
    program, lost, paths = _planned(model, signatures, inputs)
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
    if how.dry_run:
        return report
    with how.writing(report) as temporary:
        programs.write(program, temporary)
        _check_written(temporary, report)
    return replace(report, written=True)


def _planned(
    model: Any, signatures: Any, inputs: Any
) -> tuple[Program, list[NotKept], list[FoundPath]]:
    """The program of a model, and what Keras says about the model."""
    programs = table.programs()
    keras = _keras_models(model)
    if keras is None:
        return programs.plan(model, signatures=signatures, inputs=inputs), [], []
    known = keras.known_inputs(model)
    program = programs.plan(
        model,
        signatures=signatures,
        inputs=inputs,
        forward=keras.forward(model),
        known=None if known is None else (programs.specs_of(known),),
    )
    paths = list(find_paths(keras.describe_if_possible(model), "config"))
    return program, keras.lost_by_export(model), paths


def _refuse_torch(model: Any, path: str) -> None:
    modules = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    if "torch" in modules:
        raise UnsupportedError(
            "a torch module is no program of TensorFlow",
            path=path,
            hint="its variables can be kept: name it .safetensors",
        )


def _check_written(directory: str, report: ModelReport) -> None:
    """Checks with our own reader that all reported signatures were written."""
    from tensorferry.formats.savedmodel import model as savedmodel

    graph = savedmodel.read(directory).find()
    promised = {signature.name for signature in report.signatures}
    missing = promised - {*graph.signatures}
    if missing:
        raise UnsupportedError(f"TensorFlow did not write the signatures {', '.join(missing)}")


# Keras


def _save_archive(model: Any, path: str, how: _How) -> ModelReport:
    keras = _keras_models(model)
    if keras is None:
        raise UnsupportedError(
            f"{type(model).__name__} is no model of Keras 3",
            path=path,
            hint="a path without an ending is a SavedModel, which takes other models, too",
        )
    config = keras.describe(model)
    # A layer without variables is a model, too, and so is one that was not built yet.
    variables = find_variables(model).variables if keras.is_built(model) else []
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
    if how.dry_run:
        return report
    with how.writing(report, ".keras") as temporary:
        keras.save(model, temporary)
    return replace(report, written=True)


def _needs(config: Any, keras: KerasModels) -> Iterator[str]:
    """What `load_model` will require: classes, functions, permissions."""
    found = dangers.in_config(config, keras_config.find(config), {}, keras)
    for danger in found:
        yield str(danger)


# Variables


def _save_variables(
    model: Any,
    path: str,
    format: str | None,
    how: _How,
    *,
    optimizer: bool,
    options: keywords.WritingWeights,
) -> ModelReport:
    state = _as_state(model, path)
    listed = list_variables(state)
    chosen = [one for one in listed if optimizer or not one.optimizer]
    infos = _infos(chosen)
    found = format or named(path) or "checkpoint"
    lost = [NotKept("program", "the file has variables alone; load_weights sets those of a model")]
    if len(chosen) < len(listed):
        lost.append(NotKept("optimizer", "optimizer=False"))
    kept = [f"{len(chosen)} variables"]
    if any(one.optimizer for one in chosen):
        kept.append("the state of the optimizer")
    files = [os.path.basename(path)]
    if found == "checkpoint":
        files = ["checkpoint", f"{files[0]}.data-00000-of-00001", f"{files[0]}.index"]
        # tf.train.Checkpoint restores objects.
        options["layout"] = options.get("layout") or "objects"
    report = ModelReport(
        path,
        found,
        tuple(files),
        infos,
        kept=tuple(kept),
        not_kept=tuple(lost),
        nbytes=_total(infos),
    )
    if how.dry_run:
        return report
    save_weights(
        state,
        path,
        optimizer=optimizer,
        format=found,
        durable=how.durable,
        progress=how.progress,
        **options,
    )
    return replace(report, written=True)


def _as_state(model: Any, path: str) -> Any:
    """A dict with its numbers as arrays, which count as variables; other models unchanged."""
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
