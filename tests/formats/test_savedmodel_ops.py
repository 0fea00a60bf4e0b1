"""The ops of TensorFlow, sorted by what they do: the list is whole, and as the script makes it."""

from __future__ import annotations

import importlib.util

import pytest
from conftest import ROOT

from tensorferry.formats.savedmodel import ops


@pytest.fixture(scope="module")
def script():
    """The script that makes the list."""
    place = ROOT / "tests/golden/make_ops.py"
    spec = importlib.util.spec_from_file_location("make_ops", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_list_is_whole(tf, script):
    """Every op of the installed TensorFlow is in the list, where the script's rules put it."""
    registered = script.registered()
    sorted_ops = script.sort(registered, script.tests_of_tensorflow())

    assert len(registered) > 1700
    assert {*registered} <= {*ops.groups()}
    for head, names in sorted_ops.items():
        place, _, kind = head.partition(":")[0].partition(" ")
        for name in names:
            assert ops.groups()[name] == (place, kind or None), name


def test_an_op_without_a_rule(tf, script):
    """An op that could do more, and that no rule names, is no op that computes."""
    from tensorflow.core.framework import op_def_pb2

    for change in (
        {"is_stateful": True},
        {"attr": [{"name": "f", "type": "func"}]},
        {"attr": [{"name": "fs", "type": "list(func)"}]},
        {"attr": [{"name": "path", "type": "string"}]},
        {"attr": [{"name": "paths", "type": "list(string)"}]},
        {"input_arg": [{"name": "path", "type": "DT_STRING"}]},
        {"input_arg": [{"name": "x", "type": "DT_RESOURCE"}]},
        {"input_arg": [{"name": "x", "type": "DT_VARIANT"}]},
    ):
        op = op_def_pb2.OpDef(name="NewOp", **change)
        with pytest.raises(ValueError, match="no rule says what these ops do: NewOp"):
            script.sort({"NewOp": op}, ())
    plain = op_def_pb2.OpDef(name="NewOp", input_arg=[{"name": "x", "type_attr": "T"}])
    assert "NewOp" in script.sort({"NewOp": plain}, ())["computes"]


def test_what_reaches_out_is_not_computing():
    """Ops that are known to read, write, run programs, reach others or end the process."""
    kinds = {
        "read": "ReadFile ImmutableConst LoadAndRemapMatrix GenerateVocabRemapping RecordInput "
        "InitializeTableFromTextFileV2 RestoreV2 DecodeProtoV2 FixedUnigramCandidateSampler "
        "TFRecordDataset SqlDataset Skipgram",
        "write": "WriteFile SaveV2 MergeV2Checkpoints PrintV2 CreateSummaryFileWriter DumpTensor "
        "CacheDatasetV2",
        "network": "DebugIdentity DebugIdentityV3 RpcClient _Send DataServiceDatasetV4 RemoteCall "
        "CollectiveReduceV3 RegisterDatasetV2 FileSystemSetConfiguration",
        "graph": "DatasetFromGraph XlaCallModule MlirPassthroughOp TfLiteSubgraphExecute",
        "python": "PyFunc EagerPyFunc PyFuncStateless",
        "native": "XlaCustomCallV2 TRTEngineOp",
        "process": "Abort",
        "device": "TPUExecute ConfigureDistributedTPU OutfeedDequeue XlaHostCompute",
        "dataset": "TensorSliceDataset MapDataset GeneratorDataset OneShotIterator",
    }
    known = ops.groups()
    for kind, names in kinds.items():
        for name in names.split():
            expected = "internal" if name.startswith("_") else kind
            assert known[name].kind == expected, name
            assert known[name].place != "computes"


def test_what_models_compute_with():
    """Arithmetic, control flow, variables, tables, strings, images, random numbers, RNNs."""
    names = """
        MatMul Conv2D FusedBatchNormV3 Softmax Einsum GatherV2 StridedSlice TopKV2 Const Placeholder
        If While StatelessIf StatelessWhile Case PartitionedCall StatefulPartitionedCall Switch
        Merge Enter Exit TensorListReserve TensorListStack TensorArrayV3 TensorArrayReadV3
        VarHandleOp ReadVariableOp AssignVariableOp AssignAddVariableOp ResourceGather VariableV2
        HashTableV2 LookupTableFindV2 InitializeTableV2 MutableHashTableV2 LookupTableExportV2
        StringSplitV2 StringLower StaticRegexReplace RegexReplace AsString UnicodeDecodeWithOffsets
        StringToHashBucketFast RaggedTensorToTensor ParseExampleV2 ParseSingleExample DecodeRaw
        DecodeJpeg DecodeImage DecodePng EncodePng ResizeBilinear NonMaxSuppressionV5
        RandomStandardNormal RandomUniform StatelessRandomUniformV2 RngReadAndSkip Multinomial
        CudnnRNNV3 BlockLSTMV2 Assert Print CheckNumerics Timestamp ScalarSummary MergeSummary NoOp
        XlaDotV2 XlaConvV2 XlaGather BoostedTreesPredict SparseTensorDenseMatMul
    """
    known = ops.groups()
    assert {name for name in names.split() if known[name].place != "computes"} == set()
