"""Tensors, datasets and models to bytes and back, with or without TensorFlow.

    import tensorferry as ferry

    data = ferry.dumps(array)      # what tf.io.serialize_tensor writes
    array = ferry.loads(data)      # dtype and shape come from the bytes

Importing this package imports nothing else: each name below is fetched when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorferry import limits as limits, serving as serving, tfio as tfio
    from tensorferry.errors import (
        ChecksumError as ChecksumError,
        FerryError as FerryError,
        FormatError as FormatError,
        LimitError as LimitError,
        MismatchError as MismatchError,
        MissingExtraError as MissingExtraError,
        TruncatedError as TruncatedError,
        UnknownFeatureError as UnknownFeatureError,
        UnknownFormatError as UnknownFormatError,
        UnsupportedError as UnsupportedError,
    )
    from tensorferry.formats.json import (
        json_default as json_default,
        json_object_hook as json_object_hook,
    )
    from tensorferry.formats.raw import struct_format as struct_format
    from tensorferry.operations.bundles import Bundle as Bundle
    from tensorferry.operations.comparison import DiffReport as DiffReport, diff as diff
    from tensorferry.operations.conversion import (
        ConvertReport as ConvertReport,
        convert as convert,
    )
    from tensorferry.operations.diagnosis import diagnose as diagnose
    from tensorferry.operations.diagnosis.report import DiagnosisReport as DiagnosisReport
    from tensorferry.operations.inspection import FileInfo as FileInfo, inspect as inspect
    from tensorferry.operations.models.loaded import (
        LoadedModel as LoadedModel,
        LoadedSignature as LoadedSignature,
    )
    from tensorferry.operations.models.loading import load_model as load_model
    from tensorferry.operations.models.outline import ModelInfo as ModelInfo
    from tensorferry.operations.models.predictions import (
        predict as predict,
        save_predictions as save_predictions,
    )
    from tensorferry.operations.models.report import ModelReport as ModelReport
    from tensorferry.operations.models.saving import save_model as save_model
    from tensorferry.operations.opening import load as load, open as open  # noqa: A004
    from tensorferry.operations.record_writer import writer as writer
    from tensorferry.operations.records import Records as Records, repair as repair
    from tensorferry.operations.saving import save as save
    from tensorferry.operations.tables import Table as Table
    from tensorferry.operations.values import (
        dumps as dumps,
        dumps_buffers as dumps_buffers,
        dumps_into as dumps_into,
        loads as loads,
    )
    from tensorferry.operations.verification import (
        VerifyReport as VerifyReport,
        verify as verify,
    )
    from tensorferry.operations.weights import (
        Saver as Saver,
        load_weights as load_weights,
        save_weights as save_weights,
    )
    from tensorferry.operations.weights.report import WeightsReport as WeightsReport
    from tensorferry.tensors import (
        RaggedTensor as RaggedTensor,
        SparseTensor as SparseTensor,
        TensorInfo as TensorInfo,
    )

__version__ = "0.1.0"

_HOMES = {
    "tensorferry.errors": (
        "ChecksumError",
        "FerryError",
        "FormatError",
        "LimitError",
        "MismatchError",
        "MissingExtraError",
        "TruncatedError",
        "UnknownFeatureError",
        "UnknownFormatError",
        "UnsupportedError",
    ),
    "tensorferry.formats.json": ("json_default", "json_object_hook"),
    "tensorferry.formats.raw": ("struct_format",),
    "tensorferry.operations.bundles": ("Bundle",),
    "tensorferry.operations.comparison": ("DiffReport", "diff"),
    "tensorferry.operations.conversion": ("ConvertReport", "convert"),
    "tensorferry.operations.diagnosis": ("diagnose",),
    "tensorferry.operations.diagnosis.report": ("DiagnosisReport",),
    "tensorferry.operations.inspection": ("FileInfo", "inspect"),
    "tensorferry.operations.models.loaded": ("LoadedModel", "LoadedSignature"),
    "tensorferry.operations.models.loading": ("load_model",),
    "tensorferry.operations.models.outline": ("ModelInfo",),
    "tensorferry.operations.models.report": ("ModelReport",),
    "tensorferry.operations.models.saving": ("save_model",),
    "tensorferry.operations.opening": ("load", "open"),
    "tensorferry.operations.models.predictions": ("predict", "save_predictions"),
    "tensorferry.operations.record_writer": ("writer",),
    "tensorferry.operations.records": ("Records", "repair"),
    "tensorferry.operations.saving": ("save",),
    "tensorferry.operations.tables": ("Table",),
    "tensorferry.operations.values": ("dumps", "dumps_buffers", "dumps_into", "loads"),
    "tensorferry.operations.weights": ("Saver", "load_weights", "save_weights"),
    "tensorferry.operations.weights.report": ("WeightsReport",),
    "tensorferry.operations.verification": ("VerifyReport", "verify"),
    "tensorferry.tensors": ("RaggedTensor", "SparseTensor", "TensorInfo"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

_MODULES = ("limits", "serving", "tfio")

__all__ = ["__version__", *_MODULES, *_HOME_OF]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"tensorferry.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'tensorferry' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
