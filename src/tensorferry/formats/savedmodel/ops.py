"""Ops of a SavedModel that do more than compute: what loading or calling the model may do.

A graph is a program. Most ops only compute; some read and write files, reach other machines or run
Python code, and a model from a stranger can have them anywhere. Here they are named, never run.
Every SavedModel with variables has ops that save and restore them, and tables that are made from
assets read files: these are expected, and marked so.

A custom op is one that TensorFlow does not have: its code comes from a library that whoever loads
the model must have loaded first. `op_names.txt` beside this module has the names that TensorFlow
2.21 registers, one a line, without the ops of its own tests. The list of definitions inside a
SavedModel cannot tell: the exporter puts custom ops there like all others.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Effect = Literal["runs Python", "runs native code", "reads files", "writes files", "uses network"]

_EFFECTS: dict[Effect, str] = {
    "runs Python": "PyFunc PyFuncStateless EagerPyFunc",
    "runs native code": "XlaCustomCall XlaCustomCallV2 RemoteFusedGraphExecute TRTEngineOp",
    "reads files": """
        ReadFile MatchingFiles WholeFileReader WholeFileReaderV2 TextLineReader TextLineReaderV2
        FixedLengthRecordReader FixedLengthRecordReaderV2 TFRecordReader TFRecordReaderV2 LMDBReader
        RecordInput ImmutableConst GenerateVocabRemapping LoadAndRemapMatrix
        InitializeTableFromTextFile InitializeTableFromTextFileV2
        TextLineDataset TFRecordDataset TFRecordDatasetV2 FixedLengthRecordDataset
        FixedLengthRecordDatasetV2 CSVDataset CSVDatasetV2 ExperimentalCSVDataset SqlDataset
        ExperimentalSqlDataset LMDBDataset ExperimentalLMDBDataset MatchingFilesDataset
        ExperimentalMatchingFilesDataset LoadDataset SnapshotDatasetReader
        SnapshotNestedDatasetReader ListSnapshotChunksDataset SnapshotChunkDataset
        Restore RestoreSlice RestoreV2 DTensorRestoreV2""",
    "writes files": """
        WriteFile Save SaveSlices SaveV2 MergeV2Checkpoints DistributedSave SaveDataset
        SaveDatasetV2 DatasetToTFRecord ExperimentalDatasetToTFRecord SnapshotDataset
        SnapshotDatasetV2
        CacheDataset CacheDatasetV2 CalibrationStatisticsSaver DumpTensor PrintV2
        CreateSummaryFileWriter CreateSummaryDbWriter WriteSummary WriteAudioSummary
        WriteGraphSummary WriteHistogramSummary WriteImageSummary WriteRawProtoSummary
        WriteScalarSummary DebugIdentity DebugIdentityV2 DebugIdentityV3 DebugNanCount
        DebugNumericSummary""",
    "uses network": """
        RemoteCall RpcCall RpcClient RpcServer RpcServerStart RpcServerRegister DataServiceDataset
        DataServiceDatasetV2 DataServiceDatasetV3 DataServiceDatasetV4 RegisterDataset
        RegisterDatasetV2 FileSystemSetConfiguration""",
}

EFFECTS: dict[str, Effect] = {
    name: effect for effect, names in _EFFECTS.items() for name in names.split()
}

# What every SavedModel needs to save and restore its variables, and to fill tables from assets.
EXPECTED = frozenset(
    {
        "Save",
        "SaveSlices",
        "SaveV2",
        "MergeV2Checkpoints",
        "Restore",
        "RestoreSlice",
        "RestoreV2",
        "InitializeTableFromTextFile",
        "InitializeTableFromTextFileV2",
    }
)


@dataclass(frozen=True, slots=True)
class Risk:
    """An op that does more than compute.

    Attributes:
        op: Its name.
        count: How often it is in the graph and its functions.
        effect: What it does.
        expected: Whether SavedModels have it for their own variables and tables.
    """

    op: str
    count: int
    effect: Effect
    expected: bool


def find_risks(ops: Mapping[str, int]) -> tuple[Risk, ...]:
    """The ops that do more than compute, those that nobody expects first."""
    risks = [
        Risk(op, count, EFFECTS[op], op in EXPECTED) for op, count in ops.items() if op in EFFECTS
    ]
    return tuple(sorted(risks, key=lambda risk: (risk.expected, risk.effect, risk.op)))


@functools.cache
def known_names() -> frozenset[str]:
    """The names of TensorFlow's own ops."""
    # `importlib.resources` takes longer to import than a model takes to inspect.
    path = os.path.join(os.path.dirname(__file__), "op_names.txt")
    with open(path, encoding="ascii") as file:
        return frozenset(file.read().split())


def find_custom(ops: Iterable[str]) -> tuple[str, ...]:
    """The ops that are not TensorFlow's own."""
    names = known_names()
    return tuple(sorted(op for op in ops if op not in names))
