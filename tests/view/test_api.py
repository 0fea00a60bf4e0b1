"""Questions and answers, beside what NumPy says; hostile and broken files of others."""

from __future__ import annotations

import json
import random
import threading
import time
from io import BytesIO
from urllib.parse import urlencode

import numpy as np
import pytest
from conftest import CORPUS

import tensorferry as ferry
from tensorferry.viewer.api import Api
from tensorferry.viewer.opening import find_files

KINDS = {"f": "f", "i": "i", "u": "u"}


@pytest.fixture
def api(weights):
    found = Api(find_files([weights[0]]))
    yield found
    found.close()


def ask(api, name, query=""):
    """An answer in JSON."""
    answer = api.answer(name, query)
    assert isinstance(answer.body, bytes)
    return json.loads(answer.body)


def follow(api, name, query="", *, fails=False):
    """The items of a job, or how it failed."""
    items, found = [], {"finished": False}
    end = time.monotonic() + 60
    while not found["finished"]:
        assert time.monotonic() < end, "the job does not end"
        found = ask(api, name, f"{query}&after={len(items)}")
        items += found["items"]
        time.sleep(0.005)
    if not fails:
        assert found["error"] is None, found["error"]
    return found if fails else items


def arrays(api, name, query):
    """An answer with arrays: its head, and the arrays as the page reads them."""
    answer = api.answer(name, query)
    assert answer.status == 200, answer.body
    size = int.from_bytes(answer.body[:4], "little")
    head = json.loads(answer.body[4 : 4 + size])
    for key, about in head["arrays"].items():
        start = 4 + size + about["start"]
        dtype = np.dtype(f"<{about['dtype']}")
        assert start % dtype.itemsize == 0
        count = int(np.prod(about["shape"]))
        head[key] = np.frombuffer(answer.body, dtype, count, start).reshape(about["shape"])
    return head


def numbers(api):
    """The number of each tensor, by name."""
    return {one["name"]: one["number"] for one in ask(api, "tensors")["tensors"]}


def test_files(api, weights):
    """What is shown."""
    (file,) = ask(api, "files")["files"]
    assert (file["format"], file["holds"], file["count"]) == ("safetensors", "tensors", 24)
    assert ask(api, "info")["metadata"] == {"author": "a friend"}


def test_planes(api, weights):
    """Cells are those of NumPy, whatever the axes."""
    _, tensors = weights
    place = numbers(api)
    whole = arrays(api, "plane", f"tensor={place['layers.3.key.weight']}&most=64,64")
    assert (whole["values"] == tensors["layers.3.key.weight"]).all()
    part = arrays(api, "plane", f"tensor={place['cube']}&rank=3&at=0:3&window=5,9,10,20&most=64,64")
    assert (part["values"] == tensors["cube"][3, 5:9, 10:20]).all()
    assert "[3, 5:9, 10:20]" in part["copy"]["python"]
    turned = arrays(api, "plane", f"tensor={place['cube']}&rows=2&columns=0&rank=3&most=64,64")
    assert (turned["values"] == tensors["cube"][:, 0, :].T).all()
    large = arrays(api, "plane", f"tensor={place['large']}")
    assert large["values"].dtype == np.int64
    assert (large["values"] == tensors["large"]).all()


def test_pictures(api, weights):
    """Lines, pixels and filters."""
    _, tensors = weights
    place = numbers(api)
    line = arrays(api, "line", f"tensor={place['bias']}&points=100")
    assert (line["high"] == tensors["bias"].reshape(100, 30).max(axis=1)).all()
    assert (arrays(api, "picture", f"tensor={place['photo']}")["values"] == tensors["photo"]).all()
    found = arrays(api, "filters", f"tensor={place['conv']}&most=8,4")["values"]
    assert (found == tensors["conv"].transpose(3, 2, 0, 1)).all()


def test_tensor(api, weights):
    """Distribution and first NaN, and integers that JavaScript would round as text."""
    _, tensors = weights
    place = numbers(api)
    bad = ask(api, "tensor", f"tensor={place['bad']}")["distribution"]
    assert bad["first_nan"] == [17, 3]
    assert bad["summary"]["nan"] == 1
    large = ask(api, "tensor", f"tensor={place['large']}")["distribution"]["summary"]
    assert large["maximum"] == str(tensors["large"].max())


def test_other_kinds(api):
    """Strings, sparse, ragged and single values, row by row."""
    place = numbers(api)

    def texts(name):
        found = ask(api, "values", f"tensor={place[name]}")
        return [
            (at, cell["text"]) for at, cell in zip(found["places"], found["cells"], strict=True)
        ]

    assert texts("words") == [([0], "alpha"), ([1], "größe"), ([2], "2 bytes ff 00")]
    assert texts("ragged") == [([0], "[1, 2]"), ([1], "[]"), ([2], "[3]")]
    assert texts("sparse") == [([0, 1], "1.5"), ([4, 2], "-2.0")]
    assert texts("step") == [([], "1200")]


def test_statistics(api, weights):
    """All tensors, as NumPy measures them."""
    _, tensors = weights
    place = numbers(api)
    found = {item["tensor"]: item["values"] for item in follow(api, "statistics")}
    assert len(found) == len(tensors)
    for name in ("layers.0.key.weight", "bias", "dead", "cube"):
        summary, array = found[place[name]], tensors[name].astype(np.float64)
        assert summary["mean"] == pytest.approx(array.mean(), abs=1e-9)
        assert summary["deviation"] == pytest.approx(array.std())
        assert (summary["minimum"], summary["maximum"]) == (array.min(), array.max())
    assert found[place["dead"]]["zeros"] == 256


def test_download(api, weights):
    """The npy file is NumPy's own."""
    _, tensors = weights
    place = numbers(api)
    for name in ("cube", "large", "photo", "bias", "none"):
        answer = api.answer("download", f"tensor={place[name]}")
        loaded = np.load(BytesIO(b"".join(answer.body)))
        assert loaded.dtype == tensors[name].dtype
        assert (loaded == tensors[name]).all()
        assert answer.name == f"{name}.npy"
    assert api.answer("download", f"tensor={place['words']}").status == 422


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.tfrecord"
    with ferry.writer(path) as writer:
        writer.write_batch(
            {
                "id": np.arange(1000),
                "text": np.array([f"text {n}".encode() for n in range(1000)], object),
                "list": ferry.RaggedTensor.from_rows([list(range(n % 30)) for n in range(1000)]),
            }
        )
    found = Api(find_files([path]))
    yield found
    found.close()


def test_rows(rows):
    """Pages, single values and CSV."""
    found = ask(rows, "rows", "start=900&count=3")["rows"]
    assert [row["number"] for row in found] == [900, 901, 902]
    assert [cell["text"] for cell in found[0]["cells"]] == ["900", "[]", "text 900"]
    assert ask(rows, "rows", "start=5000")["rows"] == []
    assert ask(rows, "value", "row=29&column=1") == {"value": list(range(29)), "whole": True}
    csv = b"".join(rows.answer("table", "start=10&stop=12").body).decode()
    assert csv.splitlines()[0] == "row,id,list,text"
    assert csv.splitlines()[1].startswith('10,10,"[0, 1, 2')
    assert len(b"".join(rows.answer("table", "").body).splitlines()) == 1001
    some = b"".join(rows.answer("table", "where=id+%3C+3").body).decode().splitlines()
    assert [line.split(",")[0] for line in some] == ["row", "0", "1", "2"]
    assert rows.answer("table", "where=id+%3D%3D").status == 422
    assert b"".join(rows.answer("table", "where=id+%3C+0").body) == b"row,id,list,text\r\n"


def test_rows_before_they_are_counted(tmp_path):
    """The first rows of a large file are there at once; a job counts them and finds damage."""
    path = tmp_path / "large.tfrecord"
    with ferry.writer(path, durable=False) as writer:
        for number in range(20):
            writer.write({"id": number, "blob": b"x" * (1 << 20)})
    data = bytearray(path.read_bytes())
    data[len(data) // 2 + 100] ^= 1
    path.write_bytes(data)
    api = Api(find_files([path]))
    assert ask(api, "files")["files"][0]["count"] is None
    info = ask(api, "info")
    assert (info["count"], info["damages"]) == (None, None)
    first = ask(api, "rows", "count=3")["rows"]
    assert [row["cells"][1]["text"] for row in first] == ["0", "1", "2"]
    (located,) = follow(api, "located")
    assert (located["count"], [one["record"] for one in located["damages"]]) == (19, [10])
    assert ask(api, "info")["count"] == 19
    assert ask(api, "rows", "start=18")["rows"][0]["cells"][1]["text"] == "19"
    assert ask(api, "row_copy", "start=3&stop=9")["copy"]["command"].endswith("-n 9")
    api.close()


def test_search(rows):
    """Conditions and text, and a condition that is none."""
    assert follow(rows, "search", "where=id+%3E+997") == [998, 999]
    assert follow(rows, "search", "text=text+99") == [99, *range(990, 1000)]
    assert "the condition" in follow(rows, "search", "where=id+%3D%3D", fails=True)["error"]
    found = follow(rows, "search", "where=idd+%3D%3D+1", fails=True)
    assert (found["error"], found["hint"]) == ("no column is called 'idd'", "did you mean 'id'?")


def test_column(rows):
    """The statistics of a column."""
    (found,) = follow(rows, "column", "column=0")
    assert found["rows"] == 1000
    assert found["values"]["summary"]["mean"] == pytest.approx(499.5)


def test_comparison(tmp_path):
    """What changed, was renamed, or is in one file only; cells of the difference."""
    kernel = np.arange(12.0).reshape(3, 4)
    ferry.save(
        {"same": kernel, "moved": kernel * 2, "changed": kernel, "gone": kernel[0]},
        tmp_path / "a.npz",
    )
    ferry.save(
        {"same": kernel, "new name": kernel * 2, "changed": kernel + np.eye(3, 4)},
        tmp_path / "b.npz",
    )
    api = Api(find_files([tmp_path / "a.npz", tmp_path / "b.npz"]))
    names, *changes = follow(api, "comparison", "a=0&b=1")
    assert [one["name"] for one in names["only_a"]] == ["gone"]
    assert [(one["name"], one["other"]) for one in names["renamed"]] == [("moved", "new name")]
    found = {one["name"]: one for one in changes}
    assert found["same"]["change"]["equal"]
    assert found["moved"]["change"]["equal"]
    assert found["changed"]["change"]["differing"] == 3
    pair = found["changed"]
    cells = arrays(api, "difference", f"a=0&b=1&left={pair['a']}&right={pair['b']}")
    assert (cells["values"] == np.eye(3, 4)).all()
    api.close()


def test_a_question_that_another_thread_loads(api):
    """A question whose answers are still being imported elsewhere waits for them."""
    api.answer("rows", "")
    load, loading, go = api._loaders[-1], threading.Event(), threading.Event()

    def slowly(shown):
        loading.set()
        assert go.wait(10)
        return load(shown)

    api._loaders = [slowly]
    threading.Thread(target=api.prepare).start()
    assert loading.wait(10)
    threading.Timer(0.2, go.set).start()
    assert api.answer("model", "").status in (200, 422)
    assert api.answer("no such question", "").status == 404


@pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")
def test_files_of_others():
    """Every question about every file, sound or broken, has an answer or a reason."""
    paths = [path for path in sorted(CORPUS.rglob("*")) if path.is_file()]
    # One of them holds strings of a gigabyte.
    paths = [
        path for path in paths if path.stat().st_size < 3_000_000 and "large_" not in path.name
    ]
    assert paths
    shown = 0
    for path in paths:
        try:
            api = Api(find_files([path]))
        except (ferry.FerryError, OSError):
            continue
        (file,) = ask(api, "files")["files"]
        if "error" in file:
            api.close()
            continue
        shown += 1
        for name in ("info", "tensors", "model", "layers", "rows", "damages", "located", "graph"):
            answer = api.answer(name, "")
            assert answer.status in (200, 422), (path, name, answer.body)
        for number in range(min(len(ask(api, "tensors").get("tensors", ())), 4)):
            for name in ("tensor", "plane", "values", "line", "download"):
                answer = api.answer(name, f"tensor={number}")
                assert answer.status in (200, 422), (path, name, answer.body)
        api.close()
    assert shown > 8


VALUES = [
    *("0", "1", "3", "-1", "17", "999999999999999999", "-999999999999999999", "9" * 30, "1e9"),
    *("nan", "inf", "", "0,1", "5,3,9,1", "-5,-1,-9,-2", "0,999999999,0,99999999", "0:0", "1:-3"),
    *("99:99", "-1:2", "a:b", "../../etc/passwd", "/etc/passwd", "<script>", "\u202e", "x" * 900),
    *("None", "id > 3", "1/0", "id > 10**10**10", "__import__('os')", "(" * 300, "largest"),
]


PARAMETERS = [
    *("file", "tensor", "row", "column", "start", "stop", "count", "numbers", "window", "most"),
    *("at", "rows", "columns", "rank", "reduce", "points", "first", "left", "right", "a", "b"),
    *("key", "where", "text", "graph", "function", "scope", "search", "after", "item"),
]


@pytest.mark.parametrize("seed", range(3))
def test_hostile_questions(weights, tmp_path, monkeypatch, seed):
    """Whatever stands in any parameter, there is an answer or a reason, and no other file."""
    with ferry.writer(tmp_path / "x.tfrecord") as writer:
        writer.write_batch({"id": np.arange(30), "text": np.array([b"a"] * 30, object)})
    api = Api(find_files([weights[0], tmp_path / "x.tfrecord"]))
    crashed = []
    monkeypatch.setattr("threading.excepthook", crashed.append)
    chance = random.Random(seed)
    for name in sorted(api.names) * 12:
        chosen = chance.sample(PARAMETERS, chance.randint(0, 5))
        query = {one: chance.choice(VALUES) for one in chosen}
        query.setdefault("file", chance.choice(["0", "1"]))
        answer = api.answer(name, urlencode(query))
        assert answer.status in (200, 422), (name, query, answer.body)
        body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        assert b"root:" not in body
    follow(api, "column", "file=1&column=0")  # which waits for the jobs before it
    api.close()
    assert crashed == []


def test_file_replaced(tmp_path):
    """A page that is loaded anew shows the new file; one that is open gets reasons."""
    path = tmp_path / "x.npz"
    ferry.save({"a": np.ones((2, 2)), "b": np.zeros(3)}, path)
    api = Api(find_files([path]))
    assert list(numbers(api)) == ["a", "b"]
    ferry.save({"c": np.full((4, 4), 7.0)}, path)
    assert api.answer("tensor", "tensor=1").status in (200, 422)
    assert ask(api, "files")["files"][0]["count"] == 1
    assert list(numbers(api)) == ["c"]
    assert (arrays(api, "plane", "tensor=0")["values"] == 7).all()
    (found,) = follow(api, "statistics")
    assert found["values"]["maximum"] == 7
    path.unlink()
    assert "error" in ask(api, "files")["files"][0]
    api.close()


def test_rows_replaced(tmp_path):
    """The same for rows, which were counted before."""
    path = tmp_path / "x.tfrecord"
    for count in (5, 9):
        with ferry.writer(path) as writer:
            writer.write_batch({"id": np.arange(count)})
        if count == 5:
            api = Api(find_files([path]))
        assert len(ask(api, "files")["files"]) == 1
        assert ask(api, "info")["count"] == count
        assert len(ask(api, "rows")["rows"]) == count
    api.close()
