"""SavedModels in chunks that lie: not there, used twice, without end, or far larger than told."""

from __future__ import annotations

import pytest
from savedmodels import CONST, encode, field, read, refused, varint

from tensorferry import errors, limits
from tensorferry.codecs import riegeli as savedmodel_riegeli
from tensorferry.formats.savedmodel import chunks as savedmodel_chunks


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


def test_chunks_that_merge_deep_messages(tmp_path):
    """A message that comes twice is merged field by field, however deep its fields nest."""
    deep = b""
    for _ in range(3_000):
        deep = field(34, field(2, deep))  # a value that is a type whose state is a value
    function = field(6, field(2, field(1, deep)))
    part, twice = encode(PART), function + function
    way = (
        "field_tag { field: 2 } field_tag { index: 0 } field_tag { field: 7 } "
        "field_tag { field: 1 } field_tag { index: 0 }"
    )
    message = f"chunk_index: 0 chunked_fields {{ {way} message {{ chunk_index: 1 }} }}"
    data = chunked(metadata_of(message, len(part), len(twice)), part, twice)

    refused(data, tmp_path, errors.LimitError, "nest deeper", "saved_model.cpb")


def test_records_without_bytes(tmp_path, monkeypatch):
    """A record may take one byte of a file, and takes far more in memory: records are counted."""
    monkeypatch.setattr(limits, "memory", 1 << 20)
    data = chunk_file(*[b""] * 10_000)

    refused(data, tmp_path, errors.LimitError, "10000 records", "saved_model.cpb")
