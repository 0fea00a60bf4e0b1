"""HDF5 files of others: what we can read is what h5py reads, and the rest is listed."""

from __future__ import annotations

import io
import itertools
import struct

import h5py
import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.codecs.hdf5.file import File
from tensorferry.storage.place import Place

LATEST = {"libver": "latest"}
EARLIEST = {"libver": "earliest"}


def made(make, **options) -> bytes:
    out = io.BytesIO()
    with h5py.File(out, "w", **options) as file:
        make(file)
    return out.getvalue()


def check(data: bytes, *, unreadable: dict[str, str] | None = None) -> None:
    """Holds every dataset against h5py; those that are not read say why."""
    expected = unreadable or {}
    with ferry.open(data, format="keras") as bundle, h5py.File(io.BytesIO(data)) as file:
        names: list[str] = []
        file.visititems(lambda name, item: names.append(name) if is_dataset(item) else None)
        infos = bundle.infos()
        assert set(names) | set(expected) == set(infos)
        for name in names:
            if name in expected:
                assert expected[name] in infos[name].unreadable, infos[name].unreadable
                with pytest.raises(ferry.UnsupportedError):
                    bundle[name]
                continue
            assert infos[name].unreadable is None, infos[name].unreadable
            theirs = file[name][()]
            assert np.asarray(bundle[name]).shape == np.asarray(theirs).shape, name
            assert np.array_equal(bundle[name], theirs), name


def is_dataset(item: object) -> bool:
    return isinstance(item, h5py.Dataset)


@pytest.mark.parametrize("options", [EARLIEST, LATEST, {"track_order": True}], ids=str)
@pytest.mark.parametrize("count", [3, 9, 600])
def test_groups(options, count):
    """Groups of any size, in whichever form, with as many attributes."""

    def make(file):
        group = file.create_group("g", track_order=options.get("track_order", False))
        for number in range(count):
            group[f"member {number} {'x' * (number % 40)}"] = np.float32(number)
        for number in range(min(count, 300)):
            group.attrs[f"attribute {number}"] = f"value {number}"

    data = made(make, **options)
    check(data)
    with h5py.File(io.BytesIO(data)) as file:
        root = File(Place(data).open()).root
        assert root.members["g"].attributes == dict(file["g"].attrs)


SHAPES = [((7,), (3,)), ((1100,), (1,)), ((5, 7), (2, 3)), ((9, 4, 5), (2, 4, 3))]
FILTERED = [{}, {"compression": "gzip", "shuffle": True, "fletcher32": True}]


@pytest.mark.parametrize("options", [EARLIEST, LATEST], ids=str)
@pytest.mark.parametrize(("shape", "chunks"), SHAPES)
@pytest.mark.parametrize("filters", FILTERED, ids=["plain", "filtered"])
def test_chunks(options, shape, chunks, filters):
    """Chunks, by whichever index: single, fixed, extensible, trees; shrunk and partly written."""
    values = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    limits = {
        "fixed": shape,
        "larger": tuple(2 * size + 1 for size in shape),
        "first": (None, *shape[1:]),
        "last": (*shape[:-1], None),
        "all": (None,) * len(shape),
    }

    def make(file):
        for name, most in limits.items():
            file.create_dataset(name, data=values, maxshape=most, chunks=chunks, **filters)
            partly = file.create_dataset(
                f"{name} partly", shape, np.int16, maxshape=most, chunks=chunks, fillvalue=7,
                **filters,
            )  # fmt: skip
            partly[-1:] = 3
            if name != "fixed":
                shrunk = file.create_dataset(
                    f"{name} shrunk", data=values, maxshape=most, chunks=chunks, **filters
                )
                shrunk.resize((shape[0] - 2, *shape[1:]))
        file.create_dataset("whole", data=values, chunks=shape, **filters)
        file.create_dataset("empty", shape, np.int8, chunks=chunks, **filters)

    check(made(make, **options))


def test_implicit_chunks():
    """Chunks that lie one behind the other, and edges without filters."""
    values = np.arange(35, dtype=np.int64).reshape(5, 7)

    def make(file):
        create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        create.set_chunk((2, 3))
        create.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        space = h5py.h5s.create_simple((5, 7))
        made = h5py.h5d.create(file.id, b"early", h5py.h5t.NATIVE_INT64, space, create)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, values)

    check(made(make, **LATEST))


def test_types():
    """Numbers of all kinds, enumerations, types with names, strings in chunks."""
    kinds = [f"{order}{kind}" for order, kind in itertools.product("<>", ["i2", "u4", "f4", "f8"])]

    def make(file):
        for kind in kinds:
            file[kind] = np.arange(5).astype(kind)
        colour = h5py.enum_dtype({"red": 0, "green": 300}, basetype="i4")
        file.create_dataset("enumeration", data=np.array([300, 0], "i4"), dtype=colour)
        file["named"] = np.dtype("f4")
        file.create_dataset("of a named type", data=np.ones(3, "f4"), dtype=file["named"])
        words = np.array(["a", "", "long" * 20, "é"] * 5, object)
        text = h5py.string_dtype()
        file.create_dataset("words", data=words, dtype=text, chunks=(3,), maxshape=(None,))
        file.create_dataset("packed", data=words, dtype=text, chunks=(3,), compression="gzip")

    for options in (EARLIEST, LATEST):
        check(made(make, **options))


def test_unreadable():
    """What no tensor can be is listed by name, with the reason, beside what is read."""

    def make(file):
        file["sound"] = np.arange(3)
        file["pair"] = np.zeros(2, [("a", "f4"), ("b", "i2")])
        file["rows"] = np.zeros(2, np.dtype(("f4", (3,))).newbyteorder("<"))
        file.create_dataset("lists", (2,), dtype=h5py.vlen_dtype(np.int32))
        file["soft"] = h5py.SoftLink("/sound")
        file["external"] = h5py.ExternalLink("/etc/passwd", "/x")
        layout = h5py.VirtualLayout((3,), "i8")
        layout[:] = h5py.VirtualSource("other.h5", "x", (3,))
        file.create_virtual_dataset("virtual", layout)
        file["reference"] = file.ref
        inner = file.create_group("inner")
        inner["sound"] = np.ones(2)
        file["again"] = inner
        file.create_dataset("lzf", data=np.arange(100), compression="lzf", chunks=(10,))

    data = made(make)
    with ferry.open(data, format="keras") as bundle:
        reasons = {name: info.unreadable for name, info in bundle.infos().items()}
        assert bundle["sound"].tolist() == [0, 1, 2]
        inner = [name for name in ("inner/sound", "again/sound") if name in reasons]
        assert len(inner) == 1
        assert bundle[inner[0]].tolist() == [1, 1]
    kinds = {name: info.dtype for name, info in ferry.open(data, format="keras").infos().items()}

    assert {name for name, reason in reasons.items() if reason} == {
        "pair", "lists", "soft", "external", "virtual", "reference", "lzf",
        *({"again", "inner"} - {inner[0].partition("/")[0]}),
    }  # fmt: skip
    assert kinds["pair"] == "compound"
    assert "soft link" in reasons["soft"]
    assert "another file" in reasons["external"]
    assert "other datasets" in reasons["virtual"]
    assert "lzf" in reasons["lzf"]


@pytest.mark.parametrize("options", [EARLIEST, LATEST], ids=str)
def test_damage(options):
    """A bit that is flipped anywhere gives the values, or an error of ours."""

    def make(file):
        for number in range(12):
            file[f"{number}"] = np.arange(number, dtype=np.int16)
        file.create_dataset("grows", data=np.arange(40), chunks=(3,), maxshape=(None,))
        file.create_dataset("fixed", data=np.arange(40), chunks=(3,), compression="gzip")

    data = made(make, **options)
    chance = np.random.default_rng(0)
    for position in chance.integers(0, len(data), 400):
        flipped = bytearray(data)
        flipped[position] ^= 1 << int(chance.integers(8))
        try:
            with ferry.open(bytes(flipped), format="keras") as bundle:
                for name, info in bundle.infos().items():
                    if info.unreadable is None:
                        bundle[name]
        except ferry.FerryError:
            continue


def make_unreadable(file):
    file["sound"] = np.arange(3)
    file["pair"] = np.array([(1.5, 2, [3, 4]), (5.5, 6, [7, 8])], "f4,i2,(2,)u1")
    nested = np.dtype([("in", [("x", "i4")]), ("word", h5py.string_dtype())])
    file.create_dataset("nested", data=np.array([((7,), "a")], nested), dtype=nested)
    file["soft"] = h5py.SoftLink("/sound")
    file["nowhere"] = h5py.SoftLink("/missing")
    file["round"] = h5py.SoftLink("/")
    file.create_dataset("lists", (2,), dtype=h5py.vlen_dtype(np.int32))
    file.create_dataset("lzf", data=np.arange(100), compression="lzf", chunks=(10,))
    layout = h5py.VirtualLayout((3,), "i8")
    layout[:] = h5py.VirtualSource(".", "sound", (3,))
    file.create_virtual_dataset("virtual", layout)


def test_h5py():
    """On the caller's word, h5py reads what our reader refuses; the rest stays listed."""
    data = made(make_unreadable)
    with ferry.open(data, format="keras", hdf5="h5py") as bundle:
        reasons = {name for name, info in bundle.infos().items() if info.unreadable}
        values = {name: bundle[name] for name in bundle if name not in reasons}

    assert reasons == {"nowhere", "lists"} or reasons == {"nowhere", "lists", "round"}
    assert values["sound"].tolist() == values["soft"].tolist() == [0, 1, 2]
    assert values["virtual"].tolist() == [0, 1, 2]
    assert values["lzf"].tolist() == list(range(100))
    assert values["pair/f0"].tolist() == [1.5, 5.5]
    assert values["pair/f1"].tolist() == [2, 6]
    assert values["pair/f2"].tolist() == [[3, 4], [7, 8]]
    assert values["nested/in/x"].tolist() == [7]
    assert values["nested/word"].tolist() == [b"a"]


def test_h5py_of_another_version(tmp_path):
    """A file that our reader refuses as a whole: its HDF5 file starts behind a user block."""
    with h5py.File(tmp_path / "x.h5", "w", userblock_size=512) as file:
        file["a/b"] = np.arange(4)
    data = (tmp_path / "x.h5").read_bytes()
    with pytest.raises(ferry.FerryError):
        ferry.open(data, format="keras")


def test_own_reader_alone_by_default(tmp_path):
    """Without the option, no other file is opened, and the hint names the option."""
    data = made(make_unreadable)
    with (
        ferry.open(data, format="keras") as bundle,
        pytest.raises(ferry.UnsupportedError) as failed,
    ):
        bundle["virtual"]
    assert 'hdf5="h5py"' in failed.value.hint
    with pytest.raises(ValueError, match="expected"):
        ferry.open(data, format="keras", hdf5="yes")


def test_names_inside_names():
    """Names that are ends of one long name would take far more memory than the file."""
    length, count = 60_000, 1500

    def make(file):
        file["x"] = np.float32(1)
        file["x" * length] = np.float32(1)

    data = bytearray(made(make))
    table = data.index(b"SNOD")
    place, address = struct.unpack_from("<QQ", data, table + 48)
    start = len(data)
    symbols = b"".join(struct.pack("<QQ24x", place + i, address) for i in range(count))
    data += struct.pack("<4sBxH", b"SNOD", 1, count) + symbols
    tree = data.index(b"TREE")
    struct.pack_into("<Q", data, tree + 32, start)
    struct.pack_into("<Q", data, 40, len(data))

    with pytest.raises(ferry.LimitError):
        ferry.open(bytes(data), format="keras")
