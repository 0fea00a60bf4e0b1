"""Records as rows: the verbs that all formats of rows have, and the format's reader and writer."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import sys
import uuid
from pathlib import Path

import numpy as np
import pytest
from strategies import same

import tensorferry as ferry
from tensorferry import _native, storage
from tensorferry.errors import FormatError, UnknownFeatureError, UnsupportedError
from tensorferry.files.pouring import rows_of
from tensorferry.files.writer import write_rows
from tensorferry.formats.contract import Opened, RowWriter
from tensorferry.formats.table import TABLE
from tensorferry.formats.tfrecord.format import FORMAT
from tensorferry.formats.tfrecord.options import RecordOptions, RecordWriting
from tensorferry.formats.tfrecord.records import Records
from tensorferry.formats.tfrecord.writer import RecordWriter
from tensorferry.rows.rows import Rows
from tensorferry.storage import Buffers, source
from tensorferry.storage.place import Place, Target
from tensorferry.tensors.infos import TensorInfo


class Pipe(io.BytesIO):
    """A stream: no io.BytesIO itself, which would be taken as a buffer."""


@pytest.fixture
def path(tmp_path):
    """A file of 100 rows."""
    with RecordWriter(tmp_path / "a.tfrecord", durable=False) as out:
        for number in range(100):
            row = {"id": number, "tokens": list(range(number % 4)), "text": f"row {number}"}
            out.write({**row, "maybe": number if number % 3 else None})
    return str(tmp_path / "a.tfrecord")


def opened(given, **options):
    """Files opened by the format's reader."""
    places = [Place(one) for one in given] if isinstance(given, list) else [Place(given)]
    return FORMAT.reads_rows.open_all(places, RecordOptions(**options))


def test_is_rows(path):
    """Records are rows of their format, and what every opened thing is."""
    with FORMAT.reads.open(Place(path), RecordOptions()) as records:
        assert isinstance(records, Records)
        assert isinstance(records, Rows)
        assert isinstance(records, Opened)
        assert records.facts is TABLE["tfrecord"]
        assert records.files == records.paths == [path]
        assert records.place.path == path
        assert records.metadata == {}
        assert records.count() == len(records) == 100
    assert FORMAT.reads.find(Place(path)) is None


def test_infos(path):
    """A column is known by its dtype, its shape with the rows open, and its kind."""
    with opened(path) as records:
        infos = records.infos()

        assert infos == {
            "id": TensorInfo("id", "int64", (None,)),
            "maybe": TensorInfo("maybe", "int64", (None, None), kind="ragged"),
            "text": TensorInfo("text", "string", (None,), kind="string"),
            "tokens": TensorInfo("tokens", "int64", (None, None), kind="ragged"),
        }
        assert records.optional == {"maybe"}
        assert records.select(["text", "id"]).infos().keys() == {"id", "text"}


def test_select(path):
    """Some columns, in the order asked for, of files that are open and known already."""
    with opened(path) as records:
        schema = records.schema
        selected = records.select(["text", "id"])

        assert selected.columns == ["text", "id"]
        assert selected.places[0] is records.places[0]
        assert all(selected.schema[name] is schema[name] for name in ("text", "id"))
        assert list(next(selected.batches(3))) == ["text", "id"]
        assert list(selected[5]) == ["text", "id"]
        assert list(next(iter(selected))) == ["text", "id"]
        assert list(next(records.batches(3, columns=["tokens"]))) == ["tokens"]
        assert records.columns == ["id", "maybe", "text", "tokens"]
        for wrong in (lambda: records.select(["txt"]), lambda: selected.column("tokens")):
            with pytest.raises(UnknownFeatureError, match="no column is called"):
                wrong()


def test_columns_and_values(path):
    """A whole column, a part of one, and all of them."""
    with opened(path) as records:
        assert records["id"].tolist() == records.column("id").tolist() == list(range(100))
        assert records.part("id", (slice(3, 7),)).tolist() == [3, 4, 5, 6]
        assert records.part("text", (-1,)) == b"row 99"
        value = records.value()
        assert value.keys() == {"id", "maybe", "text", "tokens"}
        assert value["tokens"].to_list() == [list(range(n % 4)) for n in range(100)]
    assert records.value(to="arrow").num_rows == 100


def test_values_of_nothing(tmp_path):
    """Files without records have columns without rows, if a schema says which."""
    (tmp_path / "empty.tfrecord").touch()
    records = opened(tmp_path / "empty.tfrecord", schema={"a": "int64", "b": ("float32", (2,))})

    assert same(records.value()["a"], np.empty(0, np.int64))
    assert records.column("b").shape == (0, 2)
    assert records.value(to="arrow").num_rows == 0
    assert list(records) == list(records.batches()) == []


def test_pickled(path):
    """Pickled records know their schema and columns, and open the files anew."""
    with opened(path, on_error="skip") as records:
        selected = records.select(["id"])
        assert selected[3] == {"id": 3}
        copy = pickle.loads(pickle.dumps(selected))
    os.rename(path, path + ".moved")
    assert copy.columns == ["id"]
    os.rename(path + ".moved", path)
    assert [row["id"] for row in copy] == list(range(100))
    assert copy[3] == {"id": 3}


# Records that are no Examples


MESSAGES = [b"\xff no message %d" % number for number in range(20)]


@pytest.fixture
def other(tmp_path):
    """A file of records that are no Examples."""
    (tmp_path / "other.tfrecord").write_bytes(_native.tfrecord_frame(MESSAGES))
    return str(tmp_path / "other.tfrecord")


@pytest.mark.parametrize("options", [{}, {"raw": True}, {"on_error": "skip"}])
def test_fallback(other, options):
    """With a fallback, records that are no Examples are rows of one column."""
    with opened(other, fallback=True, **options) as records:
        assert records.columns == ["record"]
        assert records.infos() == {"record": TensorInfo("record", "string", (None,), kind="string")}
        assert records.schema["record"].dtype == "string"
        assert records.is_raw
        assert not records.raw
        assert list(records) == [{"record": message} for message in MESSAGES]
        batches = [batch["record"].tolist() for batch in records.batches(15, columns=["record"])]
        assert batches == [MESSAGES[:15], MESSAGES[15:]]
        assert records.column("record").tolist() == MESSAGES
        assert records[[3, -1]] == [{"record": MESSAGES[3]}, {"record": MESSAGES[-1]}]
        assert next(records.batches(20, to="arrow"))["record"].to_pylist() == MESSAGES
        assert list(records.bytes_of_records()) == MESSAGES
        assert records.optional == frozenset()
        (split,) = records.splits(1)
        assert list(split.open()) == [{"record": message} for message in MESSAGES]
    noted = [] if "raw" in options else ["read as bytes: record 0 is no Example"]
    assert [note[: len("read as bytes: record 0 is no Example")] for note in records.notes] == noted


def test_fallback_is_for_other_messages_only(path, other):
    """Examples stay Examples; without a fallback other messages are an error."""
    with opened(path, fallback=True) as records:
        assert not records.is_raw
        assert records[7]["id"] == 7
        assert records.notes == []
    with pytest.raises(FormatError, match="record 0 is no Example"):
        list(opened(other))
    with opened(other, raw=True) as records:
        assert list(records) == MESSAGES
        assert records.raw


def test_fallback_of_a_damaged_file(path):
    """Damage is an error, and no reason to take Examples for something else."""
    data = bytearray(Path(path).read_bytes())
    data[20] ^= 1
    with pytest.raises(FormatError, match="record 0 is corrupt"):
        list(opened(bytes(data), fallback=True))


def test_fallback_of_a_stream(other):
    """What was looked at is not lost."""
    with opened(Pipe(Path(other).read_bytes()), fallback=True) as records:
        assert records.columns == ["record"]
        assert [row["record"] for row in records] == MESSAGES


# Streams


def test_selecting_of_a_stream(path):
    """A stream is read once, whoever reads it: what was looked at comes first."""
    with opened(Pipe(Path(path).read_bytes()), infer="all") as records:
        selected = records.select(["id"])
        assert [len(batch["id"]) for batch in selected.batches(60)] == [60, 40]
        assert records.is_stream
        assert list(records) == []
    with opened(Pipe(Path(path).read_bytes())) as records:
        assert records.schema
        assert len(list(records.bytes_of_records())) == 100


# Opening


OPENED: list[str] = []


def _note_opening(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        OPENED.append(arguments[0])


@pytest.fixture(scope="module")
def hook():
    """Notes what Python opens; an audit hook cannot be removed."""
    sys.addaudithook(_note_opening)


@pytest.fixture
def openings(hook, monkeypatch):
    """The paths that were opened by this process: small files are read natively, by one call."""

    def read_small(path):
        found = reading(path)
        if found is not None:
            OPENED.append(path)
        return found

    reading = source.read_small
    monkeypatch.setattr(source, "read_small", read_small)
    return OPENED


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_opened_once(path, openings, suffix):
    """Schema, count, rows, columns and checks together open a file once."""
    if suffix:
        Path(path + suffix).write_bytes(gzip.compress(Path(path).read_bytes()))
    del openings[:]
    with opened(path + suffix, infer="all", fallback=True) as records:
        assert records.infos().keys() == {"id", "maybe", "text", "tokens"}
        assert records.count() == 100
        assert len(list(records)) == len(records["id"]) == 100
        assert sum(len(batch["id"]) for batch in records.batches(30, columns=["id"])) == 100
        assert list(records.problems()) == []
        assert records.verify() == 100

    assert openings.count(path + suffix) == 1


def test_many_files_are_closed_when_they_were_read(tmp_path):
    """Of a set of more than 64 files one is open at a time, whatever is asked."""
    paths = []
    for number in range(70):
        paths.append(str(tmp_path / f"{number}.tfrecord"))
        Path(paths[-1]).write_bytes(_native.tfrecord_frame([b"%d" % number] * 3))
    with opened(paths, raw=True) as records:
        for number, record in enumerate(records):
            assert record == b"%d" % (number // 3)
            assert sum(place.is_open for place in records.places) <= 1
        assert len(records) == 210
        assert list(records.problems()) == []
        assert len(records.splits(9)) == 9
        assert records[150] == b"50"
        assert sum(place.is_open for place in records.places) == 1


def test_remote_files(path):
    """A remote file is read as often as one likes; it is not counted, nor cut into parts."""
    pytest.importorskip("fsspec")
    urls = [f"memory://{uuid.uuid4().hex}/{number}.tfrecord" for number in range(2)]
    for url in urls:
        with storage.open_sink(url) as sink:
            sink.write(Path(path).read_bytes())
    with opened(urls) as records:
        assert records.count() is None
        source = records.place.open()
        assert [len(batch["id"]) for batch in records.batches(150)] == [150, 50]
        assert records["id"].tolist() == [*range(100)] * 2
        splits = records.splits(5)
        assert [split.files for split in splits] == [[url] for url in urls]
        assert [split.nbytes for split in splits] == [os.path.getsize(path)] * 2
        assert [split.rows for split in splits] == [None, None]
        assert [len(list(split.open())) for split in splits] == [100, 100]
        assert list(records.problems()) == []
        assert records.count() == 200
        assert records.place.open() is source


# Problems


def test_problems(path):
    """All damages are told, with a hint; the number of whole records is known afterwards."""
    with opened(path) as records:
        places = records._access.indexes()[0][:, 0].tolist()
    data = bytearray(Path(path).read_bytes())
    data[places[10]] ^= 1
    data[places[50] - 12] ^= 1
    Path(path).write_bytes(data)
    done = []

    with opened(path) as records:
        first, second = records.problems(lambda *counts: done.append(counts))

        assert first.problem.startswith("the data does not fit its checksum (")
        assert (first.path, first.record, first.offset) == (path, 10, places[10] - 12)
        assert first.hint == f"`ferry repair {path} OUT` keeps every whole record"
        assert (second.record, second.offset) == (50, places[50] - 12)
        assert records.count() == 98
        assert records.damages == []
    assert done[-1] == (98, None)
    (quick,) = opened(path, verify=False).problems()
    assert quick.offset == places[50] - 12


def test_problems_of_a_stream(path):
    """A stream is checked to its end, also what was looked at before."""
    data = bytearray(Path(path).read_bytes())
    data[-1] ^= 1
    with opened(Pipe(bytes(data)), on_error="skip") as records:
        assert [problem.record for problem in records.problems()] == [99]
        assert records.count() == 99
    with opened(Pipe(bytes(data))) as records:
        with pytest.raises(FormatError, match="record 99 is corrupt"):
            print(records.schema)
        assert [problem.record for problem in records.problems()] == [99]


def test_problems_of_indexes(path):
    """An index that does not fit its file is a problem."""
    with opened(path) as records:
        (index,) = records.write_index()
        assert list(records.problems()) == []
    Path(index).write_text("0 100\n")

    (problem,) = opened(path).problems()

    assert problem.path == index
    assert problem.hint == f"`ferry index {path}` writes it again"


def test_problems_of_examples(tmp_path, other):
    """Records that stop being Examples are a problem; records that never were are none."""
    with RecordWriter(tmp_path / "a", durable=False) as out:
        for _ in range(2000):
            out.write({"id": 1})
        out.write(MESSAGES[0])

    (problem,) = opened(tmp_path / "a", fallback=True).problems()

    assert problem.problem.startswith("record 2000 is no Example")
    assert list(opened(tmp_path / "a", verify=False, fallback=True).problems()) == []
    assert list(opened(other, fallback=True).problems()) == []
    assert len(list(opened(other).problems())) == 1


# Writing


def write(value, target, **options):
    """Writes a value by the format's writer."""
    rows, _ = rows_of(value, TABLE["tfrecord"], quantize=None, options=options)
    return write_rows(rows, "tfrecord", target, options)


def test_writes_records_and_columns(tmp_path):
    """A list of bytes is a record each, a dict of columns a row each."""
    written = write([b"one", b"two"], Target(str(tmp_path / "a.tfrecord")))
    assert list(opened(tmp_path / "a.tfrecord", raw=True)) == [b"one", b"two"]
    assert written == [str(tmp_path / "a.tfrecord")]

    write({"x": np.arange(3)}, Target(str(tmp_path / "b.tfrecord.gz")))
    assert (tmp_path / "b.tfrecord.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert opened(tmp_path / "b.tfrecord.gz")["x"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_writes_into_memory(compression):
    """Memory takes the bytes as they were when they were written."""
    buffers = Buffers()
    columns = {"x": np.arange(200_000)}
    target = Target("a.tfrecord.gz", into=buffers)
    write(columns, target, compression=compression)

    data = b"".join(buffers)
    assert data[:2] != b"\x1f\x8b"  # who opened the memory compresses by the name, if anybody does
    assert opened(data)["x"].tolist() == list(range(200_000))


def test_refuses_what_it_cannot_hold(tmp_path):
    """Metadata, quantizing and other values are refused, and no file appears."""
    target = Target(str(tmp_path / "a.tfrecord"))
    columns = {"x": np.arange(3.0)}
    with pytest.raises(UnsupportedError, match="no place for metadata"):
        ferry.save(columns, target.path, metadata={"a": "b"})
    with pytest.raises(UnsupportedError, match="expected the columns"):
        ferry.save(columns, target.path, quantize="int8")
    for value in (np.zeros(3), [1, 2], iter(columns.items())):
        with pytest.raises(UnsupportedError):
            ferry.save(value, target.path)
    assert os.listdir(tmp_path) == []


def test_writer_of_rows(tmp_path):
    """A writer takes rows and batches, into one file or shards."""
    target = Target(str(tmp_path / "a.tfrecord"), durable=False)
    how = RecordWriting(compression="gzip", schema={"x": "int64"})
    with FORMAT.writes_rows.writer(target, how, shards=2, metadata={}) as out:
        checked: RowWriter = out
        checked.write({"x": 1})
        checked.write_batch({"x": np.arange(9)})
        assert checked.count == 10
    assert [os.path.basename(name) for name in out.paths] == [
        "a.tfrecord-00000-of-00002",
        "a.tfrecord-00001-of-00002",
    ]
    assert sorted(opened(out.paths)["x"].tolist()) == sorted([1, *range(9)])
    assert out.nbytes == sum(map(os.path.getsize, out.paths))


def test_appends(tmp_path):
    """A writer continues a file."""
    target = Target(str(tmp_path / "a.tfrecord"))
    for part in (b"one", b"two"):
        write([part], target, append=True)

    assert list(opened(tmp_path / "a.tfrecord", raw=True)) == [b"one", b"two"]
