"""Tensors, datasets and models to bytes and back, with or without TensorFlow.

    import tensorferry as ferry

    data = ferry.dumps(array)      # what tf.io.serialize_tensor writes
    array = ferry.loads(data)      # dtype and shape come from the bytes

Importing this package imports nothing else: each name below is fetched when it is first used.
"""

from __future__ import annotations

from importlib import import_module

# As type checkers have it. `typing` takes longer to import than Python takes for half of its start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tensorferry import (
        engines as engines,
        feeds as feeds,
        limits as limits,
        ray as ray,
        serving as serving,
        tfio as tfio,
    )
    from tensorferry.diagnosis.diagnose import diagnose as diagnose
    from tensorferry.diagnosis.report import DiagnosisReport as DiagnosisReport
    from tensorferry.errors import (
        ChecksumError as ChecksumError,
        FerryError as FerryError,
        FormatError as FormatError,
        LimitError as LimitError,
        MismatchError as MismatchError,
        MissingDtypeError as MissingDtypeError,
        MissingExtraError as MissingExtraError,
        OptionError as OptionError,
        TruncatedError as TruncatedError,
        UnknownFeatureError as UnknownFeatureError,
        UnknownFormatError as UnknownFormatError,
        UnsupportedError as UnsupportedError,
    )
    from tensorferry.files.bytes import (
        dumps as dumps,
        dumps_buffers as dumps_buffers,
        dumps_into as dumps_into,
        loads as loads,
    )
    from tensorferry.files.finish import finish as finish
    from tensorferry.files.open import load as load, open as open  # noqa: A004
    from tensorferry.files.save import save as save
    from tensorferry.files.writer import writer as writer
    from tensorferry.formats.json.typed import (
        json_default as json_default,
        json_object_hook as json_object_hook,
    )
    from tensorferry.formats.raw import struct_format as struct_format
    from tensorferry.formats.tables.table import Table as Table
    from tensorferry.formats.tfrecord.records import Records as Records
    from tensorferry.models.loaded import (
        LoadedModel as LoadedModel,
        LoadedSignature as LoadedSignature,
    )
    from tensorferry.models.loading import load_model as load_model
    from tensorferry.models.outline import ModelInfo as ModelInfo
    from tensorferry.models.predictions import (
        predict as predict,
        save_predictions as save_predictions,
    )
    from tensorferry.models.report import ModelReport as ModelReport
    from tensorferry.models.saving import save_model as save_model
    from tensorferry.operations.convert import ConvertReport as ConvertReport, convert as convert
    from tensorferry.operations.count import count as count
    from tensorferry.operations.diff import DiffReport as DiffReport, diff as diff
    from tensorferry.operations.edit import edit as edit
    from tensorferry.operations.fileinfo import FileInfo as FileInfo
    from tensorferry.operations.freight import RowsReport as RowsReport
    from tensorferry.operations.hash import HashReport as HashReport, hash as hash  # noqa: A004
    from tensorferry.operations.inspect import inspect as inspect
    from tensorferry.operations.reshard import repair as repair
    from tensorferry.operations.sample import sample as sample
    from tensorferry.operations.shuffle import shuffle as shuffle
    from tensorferry.operations.split import split as split
    from tensorferry.operations.stats import StatsReport as StatsReport, stats as stats
    from tensorferry.operations.verify import VerifyReport as VerifyReport, verify as verify
    from tensorferry.rows.rows import Rows as Rows
    from tensorferry.tensors.bundle import Bundle as Bundle
    from tensorferry.tensors.values import (
        RaggedTensor as RaggedTensor,
        SparseTensor as SparseTensor,
        TensorInfo as TensorInfo,
    )
    from tensorferry.viewer.opening import View as View, view as view
    from tensorferry.weights.callback import weights_callback as weights_callback
    from tensorferry.weights.loading import load_weights as load_weights
    from tensorferry.weights.manager import CheckpointManager as CheckpointManager
    from tensorferry.weights.report import WeightsReport as WeightsReport
    from tensorferry.weights.saver import Saver as Saver
    from tensorferry.weights.saving import save_weights as save_weights
    from tensorferry.weights.steps import latest_checkpoint as latest_checkpoint

__version__ = "0.1.0"

_HOMES = {
    "tensorferry.errors": (
        "ChecksumError",
        "FerryError",
        "FormatError",
        "LimitError",
        "MismatchError",
        "MissingDtypeError",
        "MissingExtraError",
        "OptionError",
        "TruncatedError",
        "UnknownFeatureError",
        "UnknownFormatError",
        "UnsupportedError",
    ),
    "tensorferry.formats.json.typed": ("json_default", "json_object_hook"),
    "tensorferry.formats.raw": ("struct_format",),
    "tensorferry.tensors.bundle": ("Bundle",),
    "tensorferry.operations.count": ("count",),
    "tensorferry.operations.diff": ("DiffReport", "diff"),
    "tensorferry.operations.convert": ("ConvertReport", "convert"),
    "tensorferry.operations.edit": ("edit",),
    "tensorferry.operations.freight": ("RowsReport",),
    "tensorferry.operations.sample": ("sample",),
    "tensorferry.operations.shuffle": ("shuffle",),
    "tensorferry.operations.split": ("split",),
    "tensorferry.diagnosis.diagnose": ("diagnose",),
    "tensorferry.diagnosis.report": ("DiagnosisReport",),
    "tensorferry.operations.hash": ("HashReport", "hash"),
    "tensorferry.operations.fileinfo": ("FileInfo",),
    "tensorferry.operations.inspect": ("inspect",),
    "tensorferry.operations.reshard": ("repair",),
    "tensorferry.operations.stats": ("StatsReport", "stats"),
    "tensorferry.models.loaded": ("LoadedModel", "LoadedSignature"),
    "tensorferry.models.loading": ("load_model",),
    "tensorferry.models.outline": ("ModelInfo",),
    "tensorferry.models.report": ("ModelReport",),
    "tensorferry.models.saving": ("save_model",),
    "tensorferry.files.finish": ("finish",),
    "tensorferry.files.open": ("load", "open"),
    "tensorferry.models.predictions": ("predict", "save_predictions"),
    "tensorferry.files.writer": ("writer",),
    "tensorferry.formats.tfrecord.records": ("Records",),
    "tensorferry.files.save": ("save",),
    "tensorferry.formats.tables.table": ("Table",),
    "tensorferry.files.bytes": ("dumps", "dumps_buffers", "dumps_into", "loads"),
    "tensorferry.viewer.opening": ("View", "view"),
    "tensorferry.weights.loading": ("load_weights",),
    "tensorferry.weights.saver": ("Saver",),
    "tensorferry.weights.manager": ("CheckpointManager",),
    "tensorferry.weights.callback": ("weights_callback",),
    "tensorferry.weights.steps": ("latest_checkpoint",),
    "tensorferry.weights.saving": ("save_weights",),
    "tensorferry.weights.report": ("WeightsReport",),
    "tensorferry.operations.verify": ("VerifyReport", "verify"),
    "tensorferry.rows.rows": ("Rows",),
    "tensorferry.tensors.values": ("RaggedTensor", "SparseTensor", "TensorInfo"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

_MODULES = ("engines", "feeds", "limits", "ray", "serving", "tfio")

__all__ = ["__version__", *_MODULES, *_HOME_OF]


if not TYPE_CHECKING:  # for a type checker, a name that is not there is an error

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"tensorferry.{name}")
        home = _HOME_OF.get(name)
        if home is None and name.startswith("_"):  # Python asks, before it imports `_native`
            raise AttributeError(f"module 'tensorferry' has no attribute {name!r}", name=name)
        if home is None:
            from tensorferry.signposts import MissingNameError

            raise MissingNameError("tensorferry", name, __all__)
        value = globals()[name] = getattr(import_module(home), name)
        return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__doc__", "__file__", "__name__", "__path__"])
