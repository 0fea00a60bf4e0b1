"""The contract: what every format does, held to it by nothing but its line in the table."""

from __future__ import annotations

import gc
import os
import pickle
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.errors import FerryError, OptionError, UnknownFormatError, UnsupportedError
from tensorferry.files.find import resolve
from tensorferry.formats import table
from tensorferry.formats.contract import Format, Glimpse, Opened, ReadOptions, WriteOptions
from tensorferry.formats.table import TABLE
from tensorferry.rows.rows import Rows

COLUMNS = {"id": np.arange(5), "x": np.arange(10, dtype=np.float32).reshape(5, 2)}
# Numbers that text gives back as they were.
PLAIN = {"id": np.arange(5), "x": np.arange(5) / 4}
ARRAYS = {"layers/dense/vars/0": np.arange(6, dtype=np.float32).reshape(2, 3)}

# What a user types, whatever the format.
COMMON = [
    {},
    {"verify": False},
    {"dequantize": False},
    {"to": "numpy"},
    {"storage_options": {}},
]
# Options that some formats have.
OWN = [
    {"columns": ["id"]},
    {"on_error": "skip"},
    {"threads": 2},
    {"raw": True},
    {"schema": None},
    {"names": "keys"},
    {"dtype": "float32"},
    {"serving": True},
]


def sample_value(facts):
    """A value that a format takes."""
    values = {
        "rows": COLUMNS if facts.typed else PLAIN,
        "one array": np.arange(6, dtype=np.float32).reshape(2, 3),
        "arrays": ARRAYS,
    }
    return values.get(facts.takes, COLUMNS)


@pytest.fixture(params=list(TABLE))
def facts(request):
    """The line of a format."""
    return TABLE[request.param]


def named(stem, facts):
    """The name of a file, or of a folder, which has no suffix."""
    return stem + next(iter(facts.suffixes), "")


@pytest.fixture
def path(facts, tmp_path):
    """A file of the format."""
    path = str(tmp_path / named("sample", facts))
    ferry.save(sample_value(facts), path, format=facts.name)
    return path


def descriptors():
    """How many files this process has open."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


class TestFormatContract:
    """Every format, from its table line alone."""

    def test_declaration(self, facts):
        """The home has a reader and a writer; options are dataclasses."""
        known = table.to_read(facts.name)

        assert isinstance(known, Format)
        assert issubclass(known.reads.options, ReadOptions)
        assert (known.writes is None) == (facts.takes == "rows")
        if known.writes is not None:
            assert issubclass(known.writes.options, WriteOptions)
        assert (known.writes_rows is not None) == facts.streams_rows
        assert facts.streams_rows or facts.takes != "rows"
        assert (known.reads_rows is not None) == (facts.opens == "rows")
        assert all(suffix.startswith(".") for suffix in facts.suffixes)

    def test_recognised(self, facts, path):
        """A file is opened as what it is, by its bytes or by its name."""
        with ferry.open(path) as opened:
            assert opened.facts is facts
            assert isinstance(opened, Opened)
            assert isinstance(opened, ferry.Bundle | ferry.Rows)

    def test_roundtrip(self, facts, path):
        """What was saved is loaded."""
        found, expected = ferry.load(path), sample_value(facts)
        if not isinstance(expected, dict):
            found, expected = {"": found}, {"": expected}

        assert list(found) == list(expected)
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value)
            assert found[name].dtype == value.dtype

    @pytest.mark.parametrize("options", COMMON, ids=str)
    @pytest.mark.parametrize("verb", ["open", "load"])
    def test_common_options(self, facts, path, verb, options):
        """The common options work on every format."""
        found = getattr(ferry, verb)(path, **options)

        assert found is not None

    @pytest.mark.parametrize("options", OWN, ids=str)
    @pytest.mark.parametrize("verb", ["open", "load"])
    def test_own_options(self, facts, path, verb, options):
        """An option of some formats works, or is refused with the names of those that there are."""
        (name,) = options
        known = {option.name for option in fields(table.to_read(facts.name).reads.options)}
        try:
            found = getattr(ferry, verb)(path, **options)
        except OptionError as error:
            assert name not in known
            assert f"{facts.name} has no option {name!r}" in str(error)
        except FerryError:
            assert name in known
        else:
            assert name in known or options[name] is None
            assert found is not None

    def test_unknown_option(self, facts, path):
        """A typo is refused in the same words everywhere, and the nearest option is named."""
        with pytest.raises(OptionError, match=f"{facts.name} has no option 'verfy'; it has") as e:
            ferry.open(path, verfy=False)
        assert e.value.hint == "did you mean 'verify'?"
        with pytest.raises(OptionError, match="has no option 'overwrite'"):
            ferry.save(sample_value(facts), path, format=facts.name, overwrite=True)

    def test_bytes(self, facts, path):
        """`dumps` and `loads` work, or say that the format is several files."""
        try:
            data = ferry.dumps(sample_value(facts), format=facts.name)
        except UnsupportedError as error:
            assert facts.files == "several", error
            return
        assert isinstance(data, bytes)
        assert ferry.loads(data, format=facts.name, verify=False, **needed(facts)) is not None

    def test_operations(self, facts, path, tmp_path):
        """Inspecting, verifying and comparing work on every format."""
        found = ferry.inspect(path)

        assert found.format == facts.name
        assert found.count == ferry.open(path).count()
        assert ferry.verify(path).sound
        assert ferry.diff(path, path).equal

    def test_converting(self, facts, path, tmp_path):
        """Every format goes to npz, and is the same there."""
        report = ferry.convert(path, str(tmp_path / "out.npz"), verify=True)

        assert report.verified

    def test_closing(self, facts, path):
        """Opening and closing leaves no file open, nor does looking at what there is."""
        for _ in range(2):  # the first time imports what it needs
            before = descriptors()
            for _ in range(3):
                with ferry.open(path) as opened:
                    opened.infos()
                    if isinstance(opened, Rows):
                        next(iter(opened.batches(2)))
                    else:
                        opened[next(iter(opened))]
                opened.close()
            del opened

        assert descriptors() <= before  # what earlier tests left may be collected meanwhile

    def test_pickling(self, facts, path):
        """What was opened by a path is opened anew in another process."""
        with ferry.open(path) as opened:
            again = pickle.loads(pickle.dumps(opened))
        with again:
            assert again.count() == opened_count(path)
            assert list(again.infos()) == list(ferry.open(path).infos())

    def test_a_stream_is_refused_or_read(self, facts, path):
        """A file object is read like a file, where the format is one file."""
        if facts.files == "several":
            return
        with open(path, "rb") as file:
            found = ferry.load(file, format=facts.name, **needed(facts))

        assert found is not None

    def test_empty_file(self, facts, tmp_path):
        """A file without bytes is refused by name, or holds nothing."""
        if not facts.suffixes:
            return
        path = tmp_path / f"empty{facts.suffixes[0]}"
        path.write_bytes(b"")
        with suppress(FerryError, FileNotFoundError):
            assert not ferry.load(path)

    def test_truncated(self, facts, path, tmp_path):
        """A file cut anywhere is a typed error, or has whole values: nothing else comes out."""
        if facts.files == "several":
            return
        data = Path(path).read_bytes()
        cut = tmp_path / f"cut{facts.suffixes[0]}"
        for length in range(0, len(data), max(1, len(data) // 60)):
            cut.write_bytes(data[:length])
            try:
                ferry.load(cut, format=facts.name, **needed(facts))
            except FerryError as error:
                assert str(cut) in str(error) or error.path is None

    @pytest.mark.parametrize("tail", [b"", b"\0" * 64, b"\xff" * 64, bytes(range(64))])
    def test_hostile_heads(self, facts, path, tmp_path, tail):
        """What starts like the format and goes on as something else is a typed error."""
        if facts.files == "several":
            return
        head = Path(path).read_bytes()[:16]
        bad = tmp_path / f"bad{facts.suffixes[0]}"
        bad.write_bytes(head + tail)
        try:
            ferry.load(bad, **needed(facts))
        except FerryError as error:
            assert "Traceback" not in str(error)

    def test_a_missing_file(self, facts, tmp_path):
        """A path that is not there is a FileNotFoundError that names it."""
        path = str(tmp_path / named("none", facts))
        with pytest.raises(FileNotFoundError) as caught:
            ferry.open(path)
        assert "none" in str(caught.value)

    def test_signatures_never_raise(self, facts):
        """Recognising looks at any bytes without raising."""
        for head in (b"", b"\n", b"\x08", b"PK\x03\x04", b"\xff" * 64, bytes(64), b"{" * 64):
            assert facts.recognise(Glimpse("x", head)) in ("surely", "perhaps", "no")


def needed(facts):
    """What has to be told about bytes that do not say what they hold."""
    known = {option.name for option in fields(table.to_read(facts.name).reads.options)}
    return {"dtype": "float32"} if {"dtype", "shape"} <= known else {}


def opened_count(path):
    """The number of tensors or rows of a file."""
    with ferry.open(path) as opened:
        return opened.count()


@pytest.mark.parametrize("name", table.streamable())
def test_several_files_are_one(name, tmp_path):
    """A glob, a folder, a list and a shard set of a format of rows are one ordered set of rows."""
    suffix = TABLE[name].suffixes[0]
    for part in range(3):
        ferry.save({"id": np.arange(part * 2, part * 2 + 2)}, tmp_path / f"part-{part}{suffix}")
    names = [str(tmp_path / f"part-{part}{suffix}") for part in range(3)]
    for given in (str(tmp_path / f"part-*{suffix}"), str(tmp_path), names):
        with ferry.open(given) as rows:
            assert isinstance(rows, Rows)
            assert rows.facts.name == name
            assert len(rows) == 6
            assert [int(row["id"]) for row in rows] == list(range(6))
            assert [int(row["id"]) for row in rows[[4, 0, 5]]] == [4, 0, 5]
            assert [batch["id"].tolist() for batch in rows.batches(4)] == [[0, 1, 2, 3], [4, 5]]
            parts = pickle.loads(pickle.dumps(rows.splits(2)))
            values = [int(row["id"]) for part in parts for row in part.open()]
            assert values == list(range(6))
    assert resolve(str(tmp_path)).format == name


@pytest.mark.parametrize("name", table.streamable())
def test_writer_by_suffix(name, tmp_path):
    """`writer` writes the format that the name says, row by row and in batches, in shards."""
    suffix = TABLE[name].suffixes[0]
    path = str(tmp_path / f"out{suffix}")
    with ferry.writer(path) as out:
        out.write({"id": 0, "text": "null"})
        out.write_batch({"id": np.array([1, 2]), "text": np.array([b"eins", b"zwei"], object)})
        assert not os.path.exists(path)
    with ferry.open(path) as rows:
        assert rows.facts.name == name
        assert [int(row["id"]) for row in rows] == [0, 1, 2]
    with ferry.writer(path, shards=2) as out:
        out.write_batch({"id": np.arange(4)})
    with ferry.open(out.paths) as rows:
        assert sorted(int(row["id"]) for row in rows) == [0, 1, 2, 3]
    assert len(out.paths) == 2


@pytest.mark.parametrize("path", ["x.npz", "x.safetensors", "x.npy", "x.json"])
def test_writer_refuses_other_formats(tmp_path, path):
    """What is not written row by row is refused, with the formats that are."""
    with pytest.raises(UnsupportedError, match="is not written row by row") as caught:
        ferry.writer(tmp_path / path)
    assert "parquet" in caught.value.hint
    assert not os.listdir(tmp_path)


def test_unknown_format(tmp_path):
    """A format that does not exist is refused by every verb."""
    (tmp_path / "x").write_bytes(b"x")
    for call in (
        lambda: ferry.open(tmp_path / "x", format="nope"),
        lambda: ferry.save(COLUMNS, tmp_path / "y", format="nope"),
        lambda: ferry.dumps(COLUMNS, format="nope"),
        lambda: ferry.loads(b"", format="nope"),
        lambda: ferry.writer(tmp_path / "y", format="nope"),
        lambda: ferry.inspect(tmp_path / "x", format="nope"),
    ):
        with pytest.raises(UnknownFormatError, match="no format is called 'nope'"):
            call()
    for name, meant in (("jsonl", "jsonlines"), (".ckpt", "checkpoint"), ("h5", "keras")):
        with pytest.raises(UnknownFormatError, match=f"did you mean '{meant}'"):
            ferry.save(COLUMNS, tmp_path / "y", format=name)
