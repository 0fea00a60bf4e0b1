from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tensorferry.errors import FormatError, UnsupportedError
from tensorferry.files.find import resolve
from tensorferry.storage import shards


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Makes empty files in the working directory."""
    monkeypatch.chdir(tmp_path)

    def files(*names):
        for name in names:
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).touch()

    return files


@given(
    st.text(st.characters(exclude_characters="@", exclude_categories=["Cs"])),
    st.integers(1, 200_000),
    st.data(),
)
def test_names_are_parsed_back(prefix, count, data):
    """Every name of a set says which shard it is, of how many, of what."""
    names = shards.shard_names(f"{prefix}@*", min(count, 2000))
    index = data.draw(st.integers(0, len(names) - 1))

    assert shards.parse_shard(names[index]) == (prefix, index, len(names))


def test_names():
    """Names are TensorFlow's; a suffix behind the shorthand stays behind."""
    assert shards.shard_names("train.tfrecord", 2) == [
        "train.tfrecord-00000-of-00002",
        "train.tfrecord-00001-of-00002",
    ]
    assert shards.shard_names("train@10")[9] == "train-00009-of-00010"
    assert (
        shards.shard_names(Path("a@1/train@2.tfrecord"))[1] == "a@1/train-00001-of-00002.tfrecord"
    )
    assert shards.shard_names("train@2", 2) == shards.shard_names("train", 2)
    assert shards.shard_names("x", 100_001)[-1] == "x-100000-of-100001"


@pytest.mark.parametrize(
    ("path", "count"), [("x", 0), ("x", -1), ("x", None), ("x@*", None), ("x@0", None), ("x@2", 3)]
)
def test_names_need_one_count(path, count):
    """No count, less than one, or two that differ: refused."""
    with pytest.raises(UnsupportedError, match="shards"):
        shards.shard_names(path, count)


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("train-00003-of-00010", ("train", 3, 10)),
        ("train-00003-of-00010.tfrecord.gz", ("train", 3, 10)),
        ("d/mnist-train.tfrecord-00000-of-00001", ("d/mnist-train.tfrecord", 0, 1)),
        ("one-00010-of-00010", ("one", 10, 10)),
        ("x-0-of-3", ("x", 0, 3)),
        ("a-00000-of-00002-00001-of-00003", ("a-00000-of-00002", 1, 3)),
        ("train-00011-of-00010", None),
        ("train-00000-of-00000", None),
        ("train-00000-of-00010/x.tfrecord", None),
        ("train-00000-of-", None),
        ("train.tfrecord", None),
        ("", None),
        ("x-" + "9" * 5000 + "-of-" + "9" * 5000, None),
    ],
)
def test_parse(name, parsed):
    """A shard's name has a number, a count not below it, and maybe a suffix."""
    assert shards.parse_shard(name) == parsed


def test_expand_one_file(make):
    """A path, also one with a shorthand's or a glob's characters, is that file if it exists."""
    make("a.tfrecord", "b@10", "c[1]", "d-00000-of-00002")

    for name in (
        "a.tfrecord",
        "b@10",
        "c[1]",
        "d-00000-of-00002",
        "-",
        "s3://bucket/x",
        "https://h/x-*?",
    ):
        assert shards.expand(name) == [name]
    assert shards.expand(Path("a.tfrecord")) == ["a.tfrecord"]


def test_expand_shorthand(make):
    """name@10 and name@* are all shards in order, with the suffix in front or behind."""
    front = shards.shard_names("data/train.tfrecord", 11)
    behind = shards.shard_names("data/test@3.tfrecord.gz")
    make(*front, *behind, "data/train.tfrecord-00000-of-00011.index", "data/.train-00000-of-00011")

    assert shards.expand("data/train.tfrecord@11") == front
    assert shards.expand("data/train.tfrecord@*") == front
    assert shards.expand("data/test@3") == behind
    assert shards.expand("data/test@*.tfrecord.gz") == behind


def test_expand_glob_and_directory(make):
    """A glob or directory gives its records in natural order, without what lies beside them."""
    names = ["d/a-2.tfrecord", "d/a-10.tfrecord", *shards.shard_names("d/b", 3), "d/c.tfrecords.gz"]
    beside = ["features.json", "a-2.tfrecord.idx", ".a.tfrecord.1f.tmp", "x.tfrecord.tmp", "README"]
    checkpoint = ["m.data-00000-of-00001", "m.index", "m-00001-of-00002.safetensors"]
    make(*reversed(names), *(f"d/{name}" for name in beside + checkpoint), "d/sub.tfrecord/x")

    assert resolve("d").paths == names
    assert shards.expand("d/[abc]*") == names
    assert shards.expand("**/[abc]*") == names
    assert shards.expand("d/*.json") == ["d/features.json"]


def test_expand_several(make):
    """Several are taken in the order given, and each file once."""
    make("a", "b", "c")

    assert shards.expand(["c", "[ab]", "./c", Path("a"), "-", "-"]) == ["c", "a", "b", "-"]
    assert shards.expand([]) == []


@pytest.mark.parametrize("given", ["d/x@10", "d/x@*", "d/*", "d", "d/x-*", "**/x-*"])
def test_missing_shards_are_named(make, given):
    """An incomplete set is refused, whichever way it was meant, and the missing are named."""
    make(*(name for name in shards.shard_names("d/x", 10) if "-00003-" not in name))

    with pytest.raises(FormatError, match=r"9 of 10 shards, missing x-00003-of-00010\n"):
        resolve(given)


def test_a_choice_of_shards_is_not_incomplete(make):
    """A glob that means only some shards, or files named one by one, need not be all."""
    names = shards.shard_names("x", 10)
    make(*names[:8])

    assert shards.expand("x-0000[0-3]-of-00010") == names[:4]
    assert shards.expand(names[4:6]) == names[4:6]
    with pytest.raises(FormatError, match=r"missing x-00008-of-00010\n"):
        shards.expand("x-0000[0-8]-of-00010")


def test_sets_from_one(make):
    """A set numbered from 1 is whole without a 0."""
    names = [f"x-{index:05}-of-00003" for index in (1, 2, 3)]
    make(*names)

    assert shards.expand("x@3") == names
    Path(names[1]).unlink()
    with pytest.raises(FormatError, match=r"2 of 3 shards, missing x-00002-of-00003\n"):
        shards.expand("x@3")


def test_two_sets_of_one_name(make):
    """A new set beside an old one of another count is not read as one dataset."""
    make(*shards.shard_names("x", 2), *shards.shard_names("x", 3))

    assert len(shards.expand("x@2")) == 2
    for path in ("x@*", "x-*", "."):
        with pytest.raises(FormatError, match="one of 2 shards, one of 3"):
            resolve(path)


def test_a_huge_count_costs_nothing(make):
    """A file that claims to be one of a billion is refused at once."""
    make("x-00000-of-999999999")

    with pytest.raises(FormatError, match=r"1 of 999999999 shards, missing .* and more"):
        shards.expand("x@*")


@pytest.mark.parametrize("given", ["x", "x@10", "x@*", "no/x@*", "x*", "[", "empty", "only*"])
def test_nothing_found(make, given):
    """Nothing there is a FileNotFoundError that names what was asked for."""
    make("empty/README", "only.index")

    with pytest.raises(FileNotFoundError) as caught:
        resolve(given)
    assert caught.value.filename == given


class TestUrls:
    """Names of a store: the same rules, by listing."""

    @pytest.fixture(autouse=True)
    def objects(self, s3):
        """A set of shards, another one beside it, and what is no data."""
        for key in (
            "t/a.tfrecord-00000-of-00002",
            "t/a.tfrecord-00001-of-00002",
            "t/b-00000-of-00002.tfrecord",
            "t/b-00001-of-00002.tfrecord",
            "t/b-00000-of-00002.tfrecord.idx",
            "t/deep/c.tfrecord",
            "t/odd[1].tfrecord",
            "t/x@3.tfrecord",
            "u/x-1-of-2.tfrecord",
        ):
            s3.put(key, b"")
        s3.clear()

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("t/a.tfrecord-*", ["t/a.tfrecord-00000-of-00002", "t/a.tfrecord-00001-of-00002"]),
            ("t/a.tfrecord@2", ["t/a.tfrecord-00000-of-00002", "t/a.tfrecord-00001-of-00002"]),
            ("t/b@*.tfrecord", ["t/b-00000-of-00002.tfrecord", "t/b-00001-of-00002.tfrecord"]),
            ("t/[b]-?????-of-*", ["t/b-00000-of-00002.tfrecord", "t/b-00001-of-00002.tfrecord"]),
            ("t/*/c.tfrecord", ["t/deep/c.tfrecord"]),
            ("t/**/c.tfrecord", ["t/deep/c.tfrecord"]),
            ("**/c.*", ["t/deep/c.tfrecord"]),
            ("t/odd[1].tfrecord", ["t/odd[1].tfrecord"]),
            ("t/x@3.tfrecord", ["t/x@3.tfrecord"]),
        ],
    )
    def test_expand(self, s3, name, expected):
        """Globs, shorthands and directories are those of the store."""
        assert shards.expand(s3.url(name)) == [s3.url(key) for key in expected]

    def test_nothing_is_asked_about_plain_names(self, s3):
        """A URL that can only be one object is taken as it is."""
        assert shards.expand([s3.url("no"), s3.url("no")]) == [s3.url("no")]
        assert not s3.requests

    def test_errors(self, s3):
        """Missing shards and matches without any are told as for local files."""
        with pytest.raises(FormatError, match="missing x-0-of-2"):
            shards.expand(s3.url("u/*"))
        for name in ("none-*", "none@2"):
            with pytest.raises(FileNotFoundError, match="no such file, shard set or match"):
                shards.expand(s3.url(name))

    def test_local_files(self, make):
        """A file:// URL is the local name."""
        make("a-00000-of-00001")
        assert shards.expand(Path("a-00000-of-00001").absolute().as_uri()) == [
            str(Path("a-00000-of-00001").absolute())
        ]
