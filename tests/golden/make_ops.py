"""Sorts every op that TensorFlow registers: `python tests/golden/make_ops.py` writes the list.

The list is `src/tensorferry/formats/savedmodel/ops.txt`, by which `load_model` judges graphs. An op
stands there as one that only computes for one of two reasons:

1. Its definition leaves no room for more. It is stateless, has no attribute that is a function or
   a free text (which may be a path, an address or a program), and takes no strings (which may be
   the same), resources or variants.
2. A rule of `COMPUTES` names it, because a person looked at what it does.

All other ops are in a group that says what they do. An op that no rule names is an error here. The
test beside it (`tests/formats/test_savedmodel_ops.py`) compares the list with the installed
TensorFlow; `load_model` refuses ops that the list does not have.

TensorFlow 2.16.2, 2.17.1, 2.18.1, 2.19.1 and 2.20.0 register no other ops than 2.21 does, except
for those in `OLDER`: their libraries were asked with TF_GetAllOpList.
"""

from __future__ import annotations

import inspect
import os
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PATH = Path(__file__).parents[2] / "src/tensorferry/formats/savedmodel/ops.txt"

# Registered by TensorFlow 2.16 to 2.18 or by its builds for accelerators, not by 2.21 for CPUs.
OLDER = """
    TfLiteSubgraphExecute TRTEngineOp RemoteFusedGraphExecute _CopyFromGpuToHost _CopyFromHostToGpu
    _MklAdd _MklAddN _MklAddV2 _MklIdentity _MklInputConversion _MklLRN _MklLRNGrad _MklMaximum
    _MklMul _MklReshape _MklSlice _MklSquaredDifference _MklSub _MklToTf
"""

# Groups in order: the first rule that fits decides. A rule is a regular expression for whole names.
REFUSED: dict[str, tuple[str, str]] = {
    "internal": (
        "internal ops, which TensorFlow makes itself when it runs a graph, and ops of its tests; "
        "no exporter writes them, and some of them reach other machines",
        r"_.* FakeQueue ConstructionFails GetSessionHandle(V2)? GetSessionTensor "
        r"DeleteSessionTensor",
    ),
    "python": ("call Python functions of the process, found by a number", r"(Eager)?PyFunc.*"),
    "process": ("end the process", r"Abort"),
    "graph": (
        "hold a program in a string or an attribute, which nobody here can judge: a graph, an MLIR "
        "or StableHLO module, a model of TFLite",
        r"DatasetFromGraph DatasetToGraph(V2)? DeserializeIterator SerializeIterator XlaCallModule "
        r"MlirPassthroughOp TfLiteSubgraphExecute",
    ),
    "native": (
        "call native code by a name in an attribute, or run a program that another library "
        "compiled",
        r"XlaCustomCall(V2)? TRTEngineOp RemoteFusedGraphExecute",
    ),
    "network": (
        "reach other machines, or wait for them: calls, sends and receives, collectives, the "
        "service of tf.data; or write what they see to an address or file (debug_urls); or change "
        "how file systems are reached",
        r"RemoteCall Rpc.* DeleteRpcFutureResource Send Recv DataServiceDataset.* "
        r"RegisterDataset(V2)? Collective.* AllToAll Nccl.* WorkerHeartbeat "
        r"FileSystemSetConfiguration DebugIdentity(V2|V3)? DebugNanCount DebugNumericSummary "
        r"Copy CopyHost",
    ),
    "read": (
        "read files whose paths are in strings or attributes",
        r"ReadFile MatchingFiles .*Reader(V2)? Reader(Read|Reset|Restore|Serialize|Num).* "
        r"RecordInput ImmutableConst GenerateVocabRemapping LoadAndRemapMatrix Skipgram "
        r"DTensorRestoreV2 TextLineDataset TFRecordDataset(V2)? FixedLengthRecordDataset(V2)? "
        r"(Experimental)?CSVDataset(V2)? (Experimental)?SqlDataset (Experimental)?LMDBDataset "
        r"(Experimental)?MatchingFilesDataset LoadDataset Snapshot(Nested)?DatasetReader "
        r"ListSnapshotChunksDataset SnapshotChunkDataset",
    ),
    "write": (
        "write files: data, summaries, snapshots, statistics",
        r"WriteFile DistributedSave SaveDataset(V2)? (Experimental)?DatasetToTFRecord "
        r"SnapshotDataset(V2)? CacheDataset(V2)? CalibrationStatisticsSaver CustomAggregator "
        r"DumpTensor Create.*Writer SummaryWriter (Close|Flush)SummaryWriter ImportEvent "
        r"Write.*Summary StatsAggregatorSetSummaryWriter",
    ),
    "device": (
        "run TPUs and meshes of devices: they configure machines, move values between them, and "
        "compile programs for them",
        r".*TPU.* .*Tpu.* .*SparseCore.* (In|Out)feed.* Prelinearize.* CrossReplicaSum "
        r"DTensor.* Relayout(Like)? CopyToMesh.* XlaSparse.* Xla(Send|Recv).* XlaHostCompute "
        r"XlaLaunch(V2)? XlaClusterOutput XlaAllReduce XlaReduceScatter .*DedupData.* "
        r".*Minibatch.* ConvertToCooTensor GlobalIterId UpdateTaskIdAndGlobalCoreArray "
        r"XlaConcatND XlaSplitND ReadVariableXlaSplitND AssignVariableXlaConcatND SyncDevice",
    ),
    "dataset": (
        "make and run datasets: an engine of its own, which rewrites graphs, starts threads, and "
        "also reads files and other machines",
        r".*Dataset.* .*Iterator.* .*(StatsAggregator|MemoryCache).* .*ThreadPoolHandle "
        r"InitializeTableFromDataset .*(Random)?SeedGenerator ComputeBatchSize GetElementAtIndex "
        r"GetOptions DummyIterationCounter CompressElement UncompressElement",
    ),
}

# Fine where SavedModels have them for their own variables and assets: `load_model` looks where.
PLACED: dict[str, tuple[str, str]] = {
    "write": ("save the variables of the model", r"Save(Slices|V2)? MergeV2Checkpoints"),
    "read": (
        "restore the variables of the model, or fill a table from an asset",
        r"Restore(Slice|V2)? InitializeTableFromTextFile(V2)?",
    ),
}

# Fine unless an attribute says otherwise: see `ATTRIBUTES` in formats/savedmodel/ops.py.
CONDITIONAL: dict[str, tuple[str, str]] = {
    "write": ("print, to a file if their attribute says so", r"PrintV2"),
    "read": (
        "read a file if their attribute names one",
        r"FixedUnigramCandidateSampler DecodeProtoV2 EncodeProto",
    ),
}

# Only compute, although their definitions leave room for more.
COMPUTES = r"""
    # control flow and functions of the graph's own library
    If While Case For StatelessIf StatelessWhile StatelessCase (Stateful)?PartitionedCall MapDefun
    SymbolicGradient BatchFunction Batch Unbatch UnbatchGrad Enter RefEnter XlaIf XlaWhile
    RiscCondition RiscWhile
    # variables and optimizers' updates of them
    Variable(V2)? VarHandleOp VarIsInitializedOp VariableShape ReadVariableOp DisableCopyOnRead
    Assign(Add|Sub)?VariableOp TemporaryVariable DestroyTemporaryVariable DestroyResourceOp
    Resource(Sparse)?Apply.* ResourceScatter.* ResourceGather(Nd)? ResourceStridedSliceAssign
    ResourceCountUpTo (Resource|Sparse)?(Conditional)?Accumulator.* ResourceConditionalAccumulator
    SparseConditionalAccumulator ConditionalAccumulator
    # tables, queues, stacks, lists and other things in memory
    (Anonymous)?(Mutable)?(Dense)?HashTable(OfTensors)?(V2)? LookupTable.* InitializeTable(V2)?
    Barrier.* (FIFO|PaddingFIFO|Priority|RandomShuffle)Queue(V2)? Queue.* Stack.* Stage.* Unstage
    (Ordered)?Map(Clear|IncompleteSize|Peek|Size|Stage|Unstage|UnstageNoKey) TensorArray.*
    TensorList.* TensorMap.* Mutex(V2|Lock) ConsumeMutexLock Optional(GetValue|HasValue)
    (Add(Many)?Sparse(To)|TakeManySparseFrom)TensorsMap CompositeTensorVariant.* RaggedTensor.*
    Empty DeepCopy BoostedTrees.* IsBoostedTrees.*
    # random numbers, sampling, training of old models
    Random.* Multinomial ParameterizedTruncatedNormal TruncatedNormal Stateful.* Rng.*
    NonDeterministicInts StatelessRandomGetAlg SampleDistortedBoundingBox(V2)? .*CandidateSampler
    NegTrain SdcaFprint
    # strings, and parsing of data that a call brings
    AsString StringFormat StringJoin StringLower StringUpper StringNGrams StringLength StringStrip
    StringSplit(V2)? StringTo.* Substr Regex.* StaticRegex.* ReduceJoin UnsortedSegmentJoin
    Unicode.* (De|En)code(Base64|Raw|PaddedRaw|CSV|Compressed|JSONExample|Wav) Fingerprint
    Decode(Jpeg|AndCropJpeg|Png|Gif|Bmp|Image|WebP|Jxl) EncodeJpeg ExtractJpegShape
    Parse(Example|ExampleV2|SequenceExample|SequenceExampleV2|SingleExample|SingleSequenceExample)
    ParseTensor DeserializeManySparse SparseCrossV2 RaggedCross ShardedFile(name|spec)
    (Audio|Histogram|Image|Merge|Scalar|Tensor)Summary(V2)? Print
    # plain arithmetic with an attribute that is a layout, a mode, an equation or a message
    DataFormat(DimMap|VecPermute) .*ToDenseSetOperation .*ToSparseSetOperation Einsum
    ExtractGlimpse(V2)? GatherNd ImageProjectiveTransformV[23] PreventGradient
    ScaleAndTranslate(Grad)? ScatterNd.* TensorScatter.* UniformQuantizedConvolution(Hybrid)?
    CheckNumerics(V2)? Assert CudnnRNN.* GuaranteeConst DeviceIndex Timestamp SparseMatrix.*
    CSRSparseMatrix.*
    # XLA's own arithmetic, as jax2tf and tf.function(jit_compile=True) write it
    Xla(Conv|Dot)(V2)? XlaEinsum XlaGather XlaScatter XlaSelectAndScatter XlaSharding XlaSvd
    XlaSpmd.* XlaReduce(Window)? XlaVariadic(Reduce|ReduceV2|Sort) XlaDequantize
"""

_HEAD = """\
Generated by tests/golden/make_ops.py: every op that TensorFlow 2.16 to 2.21 registers, sorted by
what it does. `computes` only computes. `placed` is fine where a SavedModel has it for its own
variables and assets, `conditional` unless an attribute says otherwise. All others are refused
unless the caller allows their kind.
"""


def registered() -> dict[str, Any]:
    """The definitions of all ops of the installed TensorFlow, by name."""
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session as session

    ops = op_def_pb2.OpList.FromString(session.TF_GetBuffer(session.TF_GetAllOpList()))
    return {op.name: op for op in ops.op}


def tests_of_tensorflow() -> set[str]:
    """The ops that TensorFlow registers for its own tests."""
    from tensorflow.python.framework import test_ops

    return {*re.findall(r'apply_op_helper\(\s*"([^"]+)"', inspect.getsource(test_ops))}


def leaves_room(op: Any) -> bool:
    """Whether an op could do more than compute, by its definition."""
    strings, resources, variants = 7, 20, 21
    return (
        op.is_stateful
        or any(one.type in ("func", "list(func)") for one in op.attr)
        or any("string" in one.type and not one.HasField("allowed_values") for one in op.attr)
        or any(one.type % 100 in (strings, resources, variants) for one in op.input_arg)
    )


def fits(name: str, rules: str) -> bool:
    """Whether one of several regular expressions is for a name."""
    return any(re.fullmatch(rule, name) for rule in rules.split())


def sort(ops: dict[str, Any], tests: Iterable[str]) -> dict[str, list[str]]:
    """The names of ops by the head of their group.

    Raises:
        ValueError: No rule says what some of them do.
    """
    computes = re.sub(r"#.*", "", COMPUTES)
    groups: dict[str, list[str]] = {"computes": []}
    for place, table in (("placed", PLACED), ("conditional", CONDITIONAL), ("refused", REFUSED)):
        for kind, (reason, _) in table.items():
            groups[f"{place} {kind}: {reason}"] = []
    unsorted = []
    for name in sorted({*ops, *OLDER.split()}):
        found = _refused(name, tests)
        if found is None and (fits(name, computes) or (name in ops and not leaves_room(ops[name]))):
            found = "computes"
        if found is None:
            unsorted.append(name)
        else:
            groups[found].append(name)
    if unsorted:
        raise ValueError(f"no rule says what these ops do: {' '.join(unsorted)}")
    return groups


def _refused(name: str, tests: Iterable[str]) -> str | None:
    """The head of the group that is not fine everywhere, if an op is in one."""
    for place, table in (("placed", PLACED), ("conditional", CONDITIONAL), ("refused", REFUSED)):
        for kind, (reason, rules) in table.items():
            if fits(name, rules) or (kind == "internal" and name in tests):
                return f"{place} {kind}: {reason}"
    return None


def text(groups: dict[str, list[str]]) -> str:
    """The file of all groups: a line that says what they do, and their names."""
    parts = ["".join(f"# {line}\n" for line in _HEAD.splitlines())]
    for head, names in groups.items():
        parts.append(f"\n[{head}]\n{textwrap.fill(' '.join(names), 100)}\n")
    return "".join(parts)


if __name__ == "__main__":
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    PATH.write_text(text(sort(registered(), tests_of_tensorflow())), encoding="ascii")
