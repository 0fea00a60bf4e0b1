"""What notebooks and terminals show of bundles, rows and reports: short, whole, and harmless."""

from __future__ import annotations

import io
import pickle
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tensorferry as ferry
from tensorferry.cards import Shown

EVIL = "<script>alert('x')</script>\"&\x1b[2J\u202e\n"


class Page(HTMLParser):
    """The tags and the text of a part of a page, as a browser would see them."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.open, self.texts = set(), set(), [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(self.texts)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Files of tensors and rows whose names do their worst."""
    monkeypatch.chdir(tmp_path)
    tensors = {"encoder/kernel": np.ones((3, 4), np.float32), EVIL: np.zeros(2)}
    tensors |= {f"layer_{number}": np.zeros(1) for number in range(40)}
    ferry.save(tensors, "x.npz", metadata={EVIL: EVIL})
    tensors["encoder/kernel"] = tensors["encoder/kernel"] + 1
    ferry.save({**tensors, f"{EVIL}2": np.zeros(1)}, "y.npz")
    table = pa.table(
        {
            "id": [1, 2, None],
            EVIL: [EVIL, "b", "c"],
            "when": pa.array([0, 1, 2], pa.timestamp("s")),
            "price": pa.array([1, 2, 3], pa.decimal128(5, 2)),
        }
    )
    pq.write_table(table, "x.parquet")
    ferry.save({EVIL: np.array([EVIL] * 5), "x": np.zeros((5, 2, 2))}, "x.tfrecord")
    data = bytearray((tmp_path / "x.tfrecord").read_bytes())
    data[100] ^= 1
    (tmp_path / "bad.tfrecord").write_bytes(data)
    return tmp_path


def shown_of(files):
    """One of each that is shown."""
    model = {"encoder.kernel": np.zeros((3, 4), np.float16), "head": np.zeros(3)}
    yield ferry.open("x.npz")
    yield ferry.open("x.npz").infos()
    yield ferry.open("x.npz").info
    yield ferry.open("x.npz").info[EVIL]
    for name in ("x.parquet", "x.tfrecord", "bad.tfrecord"):
        yield ferry.open(name)
        yield ferry.inspect(name)
        yield ferry.verify(name)
    yield ferry.hash("x.npz")
    yield ferry.diff("x.npz", "y.npz")
    yield ferry.convert("x.parquet", "z.jsonl", verify=True, force=True)
    yield ferry.load_weights(model, "x.npz", strict=False)
    yield ferry.save(ferry.load("x.npz"), "q.npz", quantize="int8")
    yield ferry.save_weights(model, "w.npz")
    yield ferry.diagnose({EVIL: lambda: None, "w": np.zeros(2)})
    yield ferry.stats("x.parquet")


def test_everything_is_harmless(files):
    """No name or value of a file becomes markup, and none reaches a terminal as it is."""
    kinds = set()
    for value in shown_of(files):
        kinds.add(type(value).__name__)
        page = Page(value._repr_html_())
        assert page.tags <= {
            "div",
            "b",
            "code",
            "span",
            "table",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
        }
        assert page.attributes <= {"class", "style"}
        assert page.text.isprintable()
        if isinstance(value, Shown):
            line = repr(value)
            assert line.isprintable()
            assert len(line) < 400
            assert all(part.isprintable() for part in str(value).split("\n"))
    assert {"Bundle", "Table", "Records", "FileInfo", "VerifyReport", "DiffReport"} <= kinds
    assert {"ConvertReport", "WeightsReport", "Saved", "DiagnosisReport", "StatsReport"} <= kinds


def test_what_is_shown(files):
    """A bundle shows its tensors, rows their columns and first values, reports their findings."""
    bundle = Page(ferry.open("x.npz")._repr_html_()).text
    assert "encoder/kernel float32 [3, 4]" in bundle
    assert "and 22 more tensors" in bundle
    assert repr(ferry.open("x.npz")) == "Bundle(x.npz: npz, 42 tensors)"
    rows = Page(ferry.open("x.parquet")._repr_html_()).text
    assert "id int64 1 2 –" in rows  # noqa: RUF001
    assert "when timestamp[ms] 1970-01-01 00:00:00" in rows
    assert "price decimal128(5, 2) 1.00 2.00 3.00" in rows
    assert repr(ferry.open("x.parquet")) == "Table(x.parquet: parquet, 3 rows, 3 columns)"
    records = Page(ferry.open("x.tfrecord")._repr_html_()).text
    assert "5 rows, 2 columns" in records
    assert "x float64 [2, 2] float64[2, 2]" in records
    assert "corrupt" in Page(ferry.open("bad.tfrecord")._repr_html_()).text
    different = ferry.diff("x.npz", "y.npz")
    assert repr(different) == "DiffReport(x.npz | y.npz: different: 1 of 42 tensors differ)"
    words = " ".join(str(different).split())
    assert "encoder/kernel values float32 [3, 4] 12 of 12 1 [0, 0]" in words
    assert "1 problem" in str(ferry.verify("bad.tfrecord"))
    assert "layer_{0..39}" in str(ferry.inspect("x.npz"))


def test_nothing_is_consumed(files):
    """Showing rows of a stream reads nothing of it, and repr reads nothing of TFRecords."""
    data = (files / "x.tfrecord").read_bytes()

    class Pipe(io.RawIOBase):
        def __init__(self):
            self.inner = io.BytesIO(data)

        def readable(self):
            return True

        def readinto(self, buffer):
            return self.inner.readinto(buffer)

    rows = ferry.open(io.BufferedReader(Pipe()), format="tfrecord")
    assert "tfrecord" in rows._repr_html_()
    assert rows._ipython_key_completions_() == []
    assert len(list(rows)) == 5
    records = ferry.open("x.tfrecord")
    assert repr(records) == "Records(x.tfrecord: tfrecord)"
    assert records._contents._schema is None


def test_closed(files):
    """What was closed says so, and is shown all the same."""
    bundle, rows = ferry.open("x.npz"), ferry.open("x.parquet")
    bundle.close()
    rows.close()
    assert repr(bundle) == "Bundle(x.npz: npz, closed)"
    assert "closed" in bundle._repr_html_()
    assert "closed" in rows._repr_html_()


def test_key_completion(files):
    """Notebooks complete the names of tensors and columns; names that do something are left out."""
    bundle = ferry.open("x.npz")
    assert bundle._ipython_key_completions_() == [name for name in bundle if name != EVIL]
    assert ferry.open("x.parquet")._ipython_key_completions_() == ["id", "when"]


def test_reports_are_still_values(files):
    """A report compares, pickles and has its fields, whatever it looks like."""
    one, other = ferry.inspect("x.npz"), ferry.inspect("x.npz")
    assert one == other
    assert pickle.loads(pickle.dumps(one)) == one
    assert one.tensors[0].name == "encoder/kernel"
    assert ferry.open("x.npz").infos() == dict(ferry.open("x.npz").infos())


def test_ipython_shows_them(files):
    """IPython itself takes the HTML for a notebook, and the line for a terminal."""
    formatters = pytest.importorskip("IPython.core.formatters")
    found, _ = formatters.DisplayFormatter().format(ferry.verify("x.npz"))
    assert found["text/plain"].startswith("VerifyReport(x.npz: sound")
    assert "<b>VerifyReport</b>" in found["text/html"]
