"""SavedModels that lie: each gives a typed error that says where, or is reported; none is run."""

from __future__ import annotations

import os
import time
import tracemalloc

import pytest

from tensorferry import errors, limits
from tensorferry.formats import savedmodel, savedmodel_chunks, savedmodel_riegeli, savedmodel_text

CONST = """
node {
  name: "c" op: "Const"
  attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "value" value { tensor {
    dtype: DT_FLOAT tensor_shape { dim { size: 2 } } float_val: [1, 2] } } }
}"""

SAMPLE = f"""
saved_model_schema_version: 1
meta_graphs {{
  meta_info_def {{ tags: "serve" tensorflow_version: "2.21.0" }}
  graph_def {{
    {CONST}
    library {{ function {{
      signature {{ name: "f" input_arg {{ name: "x" type: DT_FLOAT }} }}
      node_def {{ name: "n" op: "If" attr {{ key: "body" value {{ func {{ name: "f" }} }} }}
        attr {{ key: "s" value {{ shape {{ dim {{ size: -1 }} }} }} }} }}
    }} }}
  }}
  signature_def {{ key: "s" value {{ method_name: "m"
    inputs {{ key: "x" value {{ name: "x:0" dtype: DT_INT32 tensor_shape {{ }} }} }} }} }}
  asset_file_def {{ tensor_info {{ name: "a:0" }} filename: "a.txt" }}
  object_graph_def {{
    nodes {{ children {{ node_id: 1 local_name: "v" }} children {{ node_id: 2 local_name: "f" }} }}
    nodes {{ variable {{ dtype: DT_FLOAT shape {{ dim {{ size: 2 }} }} name: "v" }} }}
    nodes {{ function {{ concrete_functions: "f" }} }}
    concrete_functions {{ key: "f" value {{ canonicalized_input_signature {{
      tuple_value {{ values {{ tensor_spec_value {{ name: "x" dtype: DT_FLOAT }} }}
                     values {{ dict_value {{ }} }} }} }} }} }}
  }}
}}"""


def encode(text: str, message: str = "SavedModel") -> bytes:
    """The bytes of a message that a test writes as text."""
    return savedmodel_text.encode(text.encode(), message)


def field(number: int, data: bytes) -> bytes:
    """A field of bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def visit(model: savedmodel.SavedModel) -> None:
    """Asks for everything that is read late."""
    for graph in model.meta_graphs:
        for name in graph.constants:
            graph.constants[name].read()
        for concrete in graph.concrete_functions.values():
            str([*concrete.inputs.values(), concrete.results])
        for signature in graph.signatures.values():
            str([*signature.inputs.values()])
            for default in signature.defaults.values():
                default.read()


def read(data: bytes, path, name: str = "saved_model.pb") -> savedmodel.SavedModel:
    """What is in these bytes, all of it."""
    file = path / name
    file.write_bytes(data)
    model = savedmodel.read(file)
    visit(model)
    return model


def refused(data: bytes, path, kind: type[Exception], match: str, name="saved_model.pb"):
    """The error that some bytes give, at once and without a large allocation."""
    tracemalloc.start()
    start = time.perf_counter()
    try:
        with pytest.raises(kind, match=match) as caught:
            read(data, path, name)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20 or peak < 100 * len(data)
    assert time.perf_counter() - start < 5
    return caught.value


def model_of(graph: str) -> bytes:
    """A model with a graph."""
    return encode(f'meta_graphs {{ meta_info_def {{ tags: "serve" }} graph_def {{ {graph} }} }}')


def test_sample(tmp_path):
    """The sample itself is sound, and its function calls itself."""
    model = read(encode(SAMPLE), tmp_path)
    graph = model.find(["serve"])

    assert graph.recursive_functions == ("f",)
    assert graph.constants["c"].read().tolist() == [1, 2]
    assert list(graph.variables) == ["v"]
    assert [asset.problem for asset in model.assets] == ["there is no such file"]


def test_cut_at_every_offset(tmp_path):
    """Cut anywhere, a model is refused, or is a smaller one."""
    data = encode(SAMPLE)
    for end in range(len(data)):
        with pytest.raises(errors.FormatError) as caught:
            read(data[:end], tmp_path)
        assert caught.value.path
        assert caught.value.offset is None or 0 <= caught.value.offset <= end


def test_every_bit_flipped(tmp_path):
    """Any flipped bit gives another model or a typed error."""
    data = encode(SAMPLE)
    found = 0
    for position in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[position // 8] ^= 1 << position % 8
        try:
            read(bytes(flipped), tmp_path)
        except (errors.FormatError, errors.UnsupportedError) as error:
            assert error.path
            found += 1
    assert found > len(data) * 2


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x89PNG\r\n\x1a\n" + bytes(64),
        b"<!DOCTYPE html><html></html>",
        b"\x08\x01",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n",
        b"\xff" * 100,
    ],
    ids=["empty", "png", "html", "nothing", "lfs", "ones"],
)
@pytest.mark.parametrize("suffix", ["pb", "pbtxt", "cpb"])
def test_other_files(tmp_path, data, suffix):
    """What is something else is refused, by each of the readers."""
    with pytest.raises(errors.FormatError) as caught:
        read(data, tmp_path, f"saved_model.{suffix}")
    assert caught.value.path.endswith(suffix)


@pytest.mark.parametrize(
    ("graph", "problem"),
    [
        ('node { name: "c" op: "Const" }', "without a tensor as its value"),
        (CONST.replace('"value" value', '"valwe" value'), "without a tensor as its value"),
        (
            'node { name: "c" op: "Const" attr { key: "value" value { i: 3 } } }',
            "without a tensor as its value",
        ),
        (CONST.replace("size: 2", "size: -1"), "dimension 0 is -1"),
        (CONST.replace("size: 2", "size: -9"), "dimension 0 is -9"),
        (CONST.replace("dim { size: 2 }", "unknown_rank: true"), "rank"),
        (CONST.replace('"dtype" value', '"value" value'), "'value' of the node 'c' comes twice"),
        (CONST + CONST, "the node 'c' comes twice"),
        ('node { name: "n" op: "X" attr { key: "a" value { i: 1 b: true } } }', "second value"),
        ('node { name: "n" }', "without an op"),
        ('node { op: "X" }', "without a name"),
        ('node { name: "a:b" op: "X" }', "with a colon"),
        (
            'node { name: "n" op: "X" attr { key: "s" value { shape { dim { size: -2 } } } } }',
            "dimension 0 is -2",
        ),
        (
            'library { function { signature { name: "f" } } function { signature { name: "f" } } }',
            "the function 'f' comes twice",
        ),
        ("library { function { } }", "without a signature"),
    ],
)
def test_nodes(tmp_path, graph, problem):
    """Nodes that lack something, or have it twice, or of a shape that there is not."""
    assert refused(model_of(graph), tmp_path, errors.FormatError, problem).offset


def test_constant_of_a_strange_dtype(tmp_path):
    """A constant whose dtype nobody knows is there, and gives a typed error when it is read."""
    data = model_of(CONST.replace("dtype: DT_FLOAT tensor", "dtype: 99 tensor"))

    error = refused(data, tmp_path, errors.FormatError, "dtype number 99")
    assert error.tensor == "c"


def test_constant_beyond_the_budget(tmp_path):
    """One number may fill a shape, but not one beyond limits.memory."""
    data = model_of(CONST.replace("size: 2", "size: 1099511627776"))

    refused(data, tmp_path, errors.LimitError, r"limits\.memory")


def function(name: str, attributes: str, op: str = "X") -> str:
    """A function of one node."""
    return f"""library {{ function {{ signature {{ name: "{name}" }}
        node_def {{ name: "n" op: "{op}" {attributes} }} }} }}"""


def test_functions_that_call_themselves(tmp_path):
    """As an op, in an attribute, in a list, in an attribute of an attribute, and over others."""
    inner = 'func { name: "g" attr { key: "b" value { func { name: "f" } } } }'
    for attributes, op in (
        ("", "f"),
        ('attr { key: "b" value { func { name: "f" } } }', "While"),
        ('attr { key: "b" value { list { func { name: "o" } func { name: "f" } } } }', "Case"),
        (f'attr {{ key: "b" value {{ {inner} }} }}', "While"),
    ):
        graph = read(model_of(function("f", attributes, op)), tmp_path).find()
        assert graph.recursive_functions == ("f",)

    bodies = "".join(
        f'function {{ signature {{ name: "{name}" }} node_def {{ name: "n" op: "{called}" }} }}'
        for name, called in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("e", "X"))
    )
    graph = read(model_of(f"library {{ {bodies} }}"), tmp_path).find()
    assert set(graph.recursive_functions) == {"a", "b", "c"}
    assert graph.functions["d"].calls == ("a",)
    assert graph.ops == {"X": 1}


def test_long_chain_of_functions(tmp_path):
    """20,000 functions that each call the next are no RecursionError."""
    bodies = b"".join(
        field(
            1, field(1, field(1, b"f%d" % n)) + field(3, b"\x0a\x01n" + field(2, b"f%d" % (n + 1)))
        )
        for n in range(20_000)
    )
    graph = read(field(2, field(2, field(2, bodies))), tmp_path).find()

    assert len(graph.functions) == 20_000
    assert graph.recursive_functions == ()


def test_deep_attributes(tmp_path):
    """Functions in attributes of functions, 10,000 deep, are a depth error."""
    value = b""
    for _ in range(10_000):
        value = field(10, b"\x0a\x01f" + field(2, b"\x0a\x01a" + field(2, value)))
    node = b"\x0a\x01n\x12\x01X" + field(5, b"\x0a\x01a" + field(2, value))

    refused(field(2, field(2, field(1, node))), tmp_path, errors.LimitError, "nest deeper")


def test_deep_structures(tmp_path):
    """Lists in lists, 10,000 deep, as the arguments of a function."""
    value = b"\x0a\x00"
    for _ in range(10_000):
        value = field(51, field(1, value))
    concrete = field(2, b"\x0a\x01f" + field(2, field(3, value)))

    refused(
        field(2, field(7, field(1, b"") + concrete)),
        tmp_path,
        errors.LimitError,
        "inside each other",
    )


def test_long_ways_in_structures(tmp_path):
    """A key of a megabyte before a thousand tensors."""
    spec = field(33, b"\x18\x01")
    inner = field(51, field(1, spec) * 1000)
    value = field(53, field(1, field(1, b"k" * (1 << 20)) + field(2, inner)))
    concrete = field(2, b"\x0a\x01f" + field(2, field(3, value)))
    data = field(2, field(7, field(1, b"") + concrete))

    refused(data, tmp_path, errors.LimitError, "far longer")


def test_long_names_of_functions(tmp_path):
    """A function's name of a megabyte is not there for each of its thousand constants."""
    name = b"f" * (1 << 20)
    constants = b"".join(
        field(3, field(1, b"%d" % n) + encode(CONST, "GraphDef")[2:].replace(b"\x0a\x01c", b"", 1))
        for n in range(1000)
    )
    (tmp_path / "saved_model.pb").write_bytes(
        field(2, field(2, field(2, field(1, field(1, field(1, name)) + constants))))
    )
    tracemalloc.start()
    graph = savedmodel.read(tmp_path).find()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert len(graph.constants) == 1000
    assert peak < 16 << 20


def test_deep_text(tmp_path):
    """Messages in a text, 10,000 deep."""
    data = b"meta_graphs {" * 10_000

    refused(data, tmp_path, errors.LimitError, "nest deeper", "saved_model.pbtxt")


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ('nodes { children { node_id: 1 local_name: "a" } }', "object 1, there are 1"),
        ('nodes { children { node_id: -1 local_name: "a" } }', "object -1, there are 1"),
        ("nodes { slot_variables { slot_variable_node_id: 7 } }", "object 7, there are 1"),
        ('nodes { variable { name: "v" } constant { operation: "c" } }', "variable and constant"),
        ("nodes { variable { dtype: 77 } }", "dtype number 77"),
        ("nodes { variable { shape { dim { size: -3 } } } }", "dimension 0 is -3"),
    ],
)
def test_objects(tmp_path, nodes, problem):
    """Objects that lead nowhere, are two things, or have no such dtype or shape."""
    data = encode(f"meta_graphs {{ object_graph_def {{ {nodes} }} }}")

    assert refused(data, tmp_path, errors.FormatError, problem).offset


def test_objects_in_a_circle(tmp_path):
    """Objects that lead to each other have a way each, the shortest."""
    nodes = """
    nodes { children { node_id: 1 local_name: "a" } }
    nodes { children { node_id: 0 local_name: "up" } children { node_id: 1 local_name: "me" }
            children { node_id: 2 local_name: "v" } }
    nodes { variable { name: "v" } children { node_id: 0 local_name: "root" } }"""
    graph = read(encode(f"meta_graphs {{ object_graph_def {{ {nodes} }} }}"), tmp_path).find()

    assert list(graph.variables) == ["a/v"]


def test_long_ways_to_objects(tmp_path):
    """Variables behind each other, whose ways together would be far longer than the file."""
    count = 5_000
    nodes = b"".join(
        field(1, field(7, b"") + field(1, b"\x08" + varint(n + 1) + b"\x12\x01a"))
        for n in range(count)
    )
    data = field(2, field(7, nodes + field(1, field(7, b""))))

    refused(data, tmp_path, errors.LimitError, "far longer")


# Assets


@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "a/../../secret",
        "/etc/passwd",
        "..",
        "a\\\\..\\\\b",
        "C:x",
        "s3://b/k",
        "",
        "a/",
    ],
)
def test_assets_that_lead_elsewhere(tmp_path, name):
    """They are reported with what is wrong, not looked at, and refused when they are opened."""
    (tmp_path / "secret").write_text("x")
    (tmp_path / "model/assets/a").mkdir(parents=True)
    data = encode(f'meta_graphs {{ asset_file_def {{ filename: "{name}" }} }}')
    (asset, *_) = read(data, tmp_path / "model").assets

    assert asset.problem
    assert asset.size is None
    with pytest.raises(errors.FormatError, match="asset"):
        savedmodel.read(tmp_path / "model").open_asset(asset.name)


def test_assets_that_are_links(tmp_path):
    """A link out of the model is reported, be it the file or a directory; others are fine."""
    (tmp_path / "secret").write_text("secret")
    top = tmp_path / "model/assets"
    top.mkdir(parents=True)
    (top / "real").write_text("abc")
    os.symlink(tmp_path / "secret", top / "file")
    os.symlink(tmp_path, top / "directory")
    os.symlink("real", top / "inside")
    os.symlink("nothing", top / "broken")
    os.mkfifo(top / "pipe")
    names = ("real", "file", "directory/secret", "inside", "broken", "pipe")
    defined = "".join(f'asset_file_def {{ filename: "{name}" }}' for name in names)
    model = read(encode(f"meta_graphs {{ {defined} }}"), tmp_path / "model")
    found = {asset.name: (asset.size, asset.problem) for asset in model.assets}

    assert found == {
        "real": (3, None),
        "file": (None, "it is a link that leads out of the model"),
        "directory/secret": (None, "it is a link that leads out of the model"),
        "inside": (3, None),
        "broken": (None, "there is no such file"),
        "pipe": (None, "it is no regular file"),
    }


# Chunks


def chunk_file(*records: bytes, size: int | None = None, count: int | None = None) -> bytes:
    """A Riegeli file of one chunk without compression; its header may lie."""
    sizes, values = b"".join(map(varint, map(len, records))), b"".join(records)
    data = b"\0" + varint(len(sizes)) + sizes + values
    number = len(records) if count is None else count
    rest = b"".join(
        value.to_bytes(8, "little")
        for value in (
            len(data),
            savedmodel_riegeli.highway_hash(data),
            ord("r") | number << 8,
            len(values) if size is None else size,
        )
    )
    header = savedmodel_riegeli.highway_hash(rest).to_bytes(8, "little") + rest
    return savedmodel_riegeli.START + header + data


def chunked(metadata: str, *records: bytes) -> bytes:
    """A model in chunks, the first of them at 64."""
    return chunk_file(*records, encode(metadata, "ChunkMetadata"))


PART = 'meta_graphs { meta_info_def { tags: "serve" } }'


def metadata_of(message: str, *sizes: int) -> str:
    """Chunks that lie one behind the other, and what they are of."""
    chunks = "".join(
        f"chunks {{ type: 1 size: {size} offset: {64 + n} }}" for n, size in enumerate(sizes)
    )
    return f"{chunks} message {{ {message} }}"


def test_chunks(tmp_path):
    """A model in two chunks is sound."""
    part, node = encode(PART), encode(CONST, "GraphDef")
    way = "field_tag { field: 2 } field_tag { index: 0 } field_tag { field: 2 }"
    message = f"chunk_index: 0 chunked_fields {{ {way} message {{ chunk_index: 1 }} }}"
    data = chunked(metadata_of(message, len(part), len(node)), part, node)

    assert list(read(data, tmp_path, "saved_model.cpb").find(["serve"]).constants) == ["c"]


def test_every_bit_of_chunks_flipped(tmp_path):
    """Hashes find every flipped bit, and every cut."""
    part = encode(PART)
    data = chunked(metadata_of("chunk_index: 0", len(part)), part)
    for position in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[position // 8] ^= 1 << position % 8
        with pytest.raises(errors.FormatError):
            savedmodel_chunks.merge(bytes(flipped), "SavedModel")
    for end in range(len(data)):
        with pytest.raises(errors.FormatError):
            savedmodel_chunks.merge(data[:end], "SavedModel")


def tagged(way: str) -> str:
    """A second chunk at the end of a way."""
    return f"chunk_index: 0 chunked_fields {{ {way} message {{ chunk_index: 1 }} }}"


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("chunk_index: 2", "chunk 2 is asked for, there are 2"),
        ("chunk_index: 18446744073709551615", "is asked for"),
        ("chunk_index: 0 chunked_fields { message { chunk_index: 0 } }", "used twice"),
        (tagged("field_tag { index: 0 }"), "an index without a field"),
        (tagged("field_tag { field: 2 } field_tag { }"), "a step that is nothing"),
        (tagged("field_tag { field: 2 } field_tag { index: 99999999999 }"), "there are 1"),
        (tagged("field_tag { field: 1 } field_tag { field: 1 }"), "which is no message"),
        (tagged("field_tag { field: 1 }"), "type 1, expected 2"),
        (tagged('field_tag { field: 2 } field_tag { map_key { s: "a" } }'), "no map"),
        (tagged("field_tag { field: 2 } field_tag { map_key { } }"), "a key of 0 values"),
    ],
)
def test_chunks_that_lie(tmp_path, message, problem):
    """Chunks that are not there, are used twice, or lead where nothing can be."""
    part = encode(PART)
    data = chunked(metadata_of(message, len(part), len(part)), part, part)

    refused(data, tmp_path, errors.FormatError, problem, "saved_model.cpb")


def test_chunk_in_place_of_a_number(tmp_path):
    """A field that has another wire type before the chunk for it comes."""
    wrong = field(2, b"\x0a\x02\x28\x07")  # tensorflow_version as a varint
    part = encode(PART)
    way = "".join(
        f"field_tag {{ {tag} }}" for tag in ("field: 2", "index: 0", "field: 1", "field: 5")
    )
    chunks = f"chunks {{ size: {len(wrong)} offset: 64 }} chunks {{ size: {len(part)} offset: 65 }}"
    data = chunked(f"{chunks} message {{ {tagged(way)} }}", wrong, part)

    refused(data, tmp_path, errors.FormatError, "a number so far", "saved_model.cpb")


def test_places_of_chunks_that_lie(tmp_path):
    """A chunk where no record is, or of another size; a header that lies."""
    part = encode(PART)
    right = f"chunks {{ size: {len(part)} offset: 64 }} message {{ chunk_index: 0 }}"
    for metadata, problem in (
        (right.replace("64", "65"), "where no record is"),  # the metadata themselves
        (right.replace("64", "9" * 15), "where no record is"),
        (right.replace("size: ", "size: 1"), "bytes, expected"),
    ):
        refused(chunked(metadata, part), tmp_path, errors.FormatError, problem, "saved_model.cpb")
    for options, problem in (
        ({"count": 1 << 40}, "ends at"),
        ({"count": 3}, "end early"),
        ({"count": 1}, "more bytes"),
        ({"size": 1 << 40}, "where the header has"),
    ):
        data = chunk_file(part, part, **options)
        refused(data, tmp_path, errors.FormatError, problem, "saved_model.cpb")


def test_compressed_chunk_beyond_the_budget(tmp_path, monkeypatch):
    """A chunk that says it is larger than what is allowed in memory; and one that is."""
    import cramjam

    def compressed(values: bytes, claimed: int) -> bytes:
        sizes = varint(claimed)
        body = b"b"
        packed = varint(len(sizes)) + bytes(cramjam.brotli.compress(sizes))
        body += varint(len(packed)) + packed
        body += varint(claimed) + bytes(cramjam.brotli.compress(values))
        rest = b"".join(
            value.to_bytes(8, "little")
            for value in (
                len(body),
                savedmodel_riegeli.highway_hash(body),
                ord("r") | 1 << 8,
                claimed,
            )
        )
        header = savedmodel_riegeli.highway_hash(rest).to_bytes(8, "little") + rest
        return savedmodel_riegeli.START + header + body

    refused(compressed(b"a", 1 << 50), tmp_path, errors.LimitError, "allowed", "saved_model.cpb")
    for values, claimed in ((b"abc", 2), (b"abc", 4)):
        data = compressed(values, claimed)
        refused(data, tmp_path, errors.FormatError, "chunk", "saved_model.cpb")
    monkeypatch.setattr(limits, "memory", 1 << 20)
    bomb = compressed(bytes(2 << 20), 2 << 20)
    refused(bomb, tmp_path, errors.LimitError, "2097152 bytes", "saved_model.cpb")


def test_deep_chunks(tmp_path):
    """Chunks in chunks, 1,000 deep."""
    message = b""
    for _ in range(1_000):
        message = field(2, field(3, message))
    data = chunk_file(b"", field(3, message))

    refused(data, tmp_path, errors.LimitError, "nest deeper", "saved_model.cpb")


def test_text_of_the_wrong_kind(tmp_path):
    """Values that a field cannot have."""
    for text, problem in (
        ('saved_model_schema_version: "a"', "expected int"),
        ("saved_model_schema_version: 1e9", "expected int"),
        ("saved_model_schema_version: 99999999999999999999", "expected int"),
        ("meta_graphs: 3", "expected MetaGraphDef"),
        ("meta_graphs { meta_info_def { tags { } } }", "expected text"),
        ("meta_graphs { object_graph_def { nodes { variable { dtype: DT_X } } } }", "DT_X"),
    ):
        refused(text.encode(), tmp_path, errors.FormatError, problem, "saved_model.pbtxt")
