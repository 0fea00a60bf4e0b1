"""Keras files that lie: an error that says where, in bounded time and memory, and nothing run."""

from __future__ import annotations

import base64
import json
import marshal
import re
import signal
import struct
import tracemalloc
import zipfile
import zlib
from contextlib import contextmanager, suppress

import h5py
import numpy as np
import pytest

import tensorferry as ferry
from tensorferry import limits
from tensorferry.errors import (
    ChecksumError,
    FerryError,
    FormatError,
    LimitError,
    TruncatedError,
    UnsupportedError,
)
from tensorferry.formats.keras import config as keras_config
from tensorferry.formats.keras.reader import open_weights
from tensorferry.storage import Source
from tensorferry.storage.place import Place


def weights_file(path, **options):
    """A small file as Keras writes it, with a compressed dataset in it."""
    with h5py.File(path, "w", **options) as file:
        for number in range(2):
            group = file.create_group(f"layers/dense_{number}/vars")
            group.attrs["name"] = f"dense_{number}"
            group["0"] = np.arange(6, dtype="float32").reshape(2, 3) + number
            group["1"] = np.ones(3, "float32")
        values = np.arange(40, dtype="int32").reshape(5, 8)
        group = file.create_group("optimizer/vars")
        group.create_dataset("0", data=values, chunks=(2, 3), compression="gzip", shuffle=True)
        tagged = group.create_dataset("1", data=np.arange(3, dtype="u2").view("V2"))
        tagged.attrs["dtype"] = "bfloat16"
    return path.read_bytes()


def legacy_file(path):
    """A small file of the older kind, with a config and names in attributes."""
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps({"class_name": "Sequential", "config": {}})
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = [b"first", b"second"]
        group.create_group("first").attrs["weight_names"] = [b"first/kernel:0"]
        group["first/first/kernel:0"] = np.ones((2, 2))
        group.create_group("second").attrs["weight_names"] = []
    return path.read_bytes()


def archive(path, weights, config=None, **members):
    """A .keras archive."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("metadata.json", json.dumps({"keras_version": "3.15.1"}))
        file.writestr("config.json", json.dumps(config or {"class_name": "Sequential"}))
        file.writestr("model.weights.h5", weights)
        for name, data in members.items():
            file.writestr(name, data)
    return path


def read_all(data):
    """Everything that a file has."""
    source = Source("hostile.h5", buffer=memoryview(data))
    with open_weights(Place(source)) as weights:
        return {name: stored.read().tobytes() for name, stored in weights.stored.items()}


@pytest.fixture(autouse=True)
def _budget(monkeypatch):
    """A file may ask for less here than by default, so that the tests do not fill the memory."""
    monkeypatch.setattr(limits, "memory", 1 << 26)


@contextmanager
def bounded(seconds=5, megabytes=None):
    """Time, and if wanted memory, for a block."""

    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    if megabytes is not None:
        tracemalloc.start()
    try:
        yield
        assert megabytes is None or tracemalloc.get_traced_memory()[1] < megabytes << 20
    finally:
        tracemalloc.stop()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("make", [weights_file, legacy_file])
def test_cut_anywhere(make, tmp_path):
    """A file that ends early is refused, wherever that is."""
    data = make(tmp_path / "x.h5")
    with bounded(30):
        for length in range(8, len(data), 3):
            with pytest.raises(FormatError):
                read_all(data[:length])


@pytest.mark.parametrize("make", [weights_file, legacy_file])
def test_flipped_bits(make, tmp_path):
    """A flipped bit gives an error or other values, and neither hangs nor crashes."""
    data = make(tmp_path / "x.h5")
    outcomes = {"error": 0, "value": 0}
    with bounded(60):
        for position in range(8, len(data)):
            if data[position : position + 8] == bytes(8) or position % 2:
                continue  # unused bytes, of which there are many
            damaged = bytearray(data)
            damaged[position] ^= 1 << position % 8
            try:
                read_all(bytes(damaged))
                outcomes["value"] += 1
            except FerryError:
                outcomes["error"] += 1
    assert outcomes["error"] > 100


def test_bytes_replaced(tmp_path):
    """Addresses and lengths that are huge, zero or their neighbours' lead to an error or values."""
    data = weights_file(tmp_path / "x.h5")
    words = [bytes(8), b"\xff" * 8, b"\xff" * 7 + b"\x7f", struct.pack("<Q", 96), data[24:32]]
    with bounded(60):
        for position in range(8, len(data) - 8, 8):
            if data[position : position + 8] == bytes(8) and position % 64:
                continue
            for word in words:
                damaged = data[:position] + word + data[position + 8 :]
                with suppress(FerryError):
                    read_all(damaged)


def test_archive_with_flipped_bits(tmp_path):
    """A bit flipped anywhere in an archive's weights is found before a value is given."""
    weights = weights_file(tmp_path / "x.h5")
    data = archive(tmp_path / "x.keras", weights).read_bytes()
    expected = read_all(data)
    start = data.index(b"\x89HDF")
    found = 0
    with bounded(60):
        for position in range(0, len(data), 13):
            damaged = bytearray(data)
            damaged[position] ^= 1 << position % 8
            if start <= position < start + len(weights):
                with pytest.raises(FerryError):
                    read_all(bytes(damaged))
                found += 1
                continue
            with suppress(FerryError):
                assert read_all(bytes(damaged)) == expected
    assert found > 1000


def test_archive_of_what_is_not_one_run_of_bytes_is_verified(tmp_path):
    """Strings, chunks and values that were never written are given after the checksum, too."""
    for options in (
        {"data": ["a", "b"], "dtype": h5py.string_dtype()},
        {"data": np.arange(9), "chunks": (4,)},
        {"shape": (3,), "dtype": "f4"},
    ):
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file.create_dataset("vars/0", **options)
            file["vars/1"] = np.full(16, 7, "u1")
        data = archive(tmp_path / "x.keras", (tmp_path / "x.h5").read_bytes()).read_bytes()
        place = data.index(b"\x07" * 16)
        damaged = data[:place] + b"\x06" + data[place + 1 :]
        for content, expected in ((data, None), (damaged, ChecksumError)):
            weights = open_weights(Place(Source("x.keras", buffer=memoryview(content))))
            if expected is None:
                weights.stored["vars/0"].read()
            else:
                with pytest.raises(expected):
                    weights.stored["vars/0"].read()


@pytest.mark.parametrize(
    "link",
    [h5py.SoftLink("/layers"), h5py.ExternalLink("other.h5", "/layers")],
    ids=["soft", "external"],
)
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_links_are_not_followed(link, libver, tmp_path):
    """Nothing is followed out of the file, or around in it; what else there is can be read."""
    weights_file(tmp_path / "x.h5", libver=libver)

    def readable():
        with open_weights(Place(tmp_path / "x.h5")) as weights:
            pairs = weights.stored.items()
            found = {name: s.read().tobytes() for name, s in pairs if s.unreadable is None}
            return found, weights.stored

    expected, _ = readable()
    with h5py.File(tmp_path / "x.h5", "a") as file:
        file["layers/other"] = link
    found, stored = readable()
    lost = stored["layers/other"]
    assert found == expected != {}
    assert "'other' is a" in lost.unreadable
    with pytest.raises(UnsupportedError, match="layers/other"):
        lost.read()


def test_links_in_a_legacy_file(tmp_path):
    """A variable or a layer that is a link is listed, and the others are read."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.attrs["layer_names"] = ["one", "two"]
        one = file.create_group("one")
        one.attrs["weight_names"] = ["one/kernel:0", "one/bias:0"]
        one["one/kernel:0"] = np.ones(3, "f4")
        one["one/bias:0"] = h5py.ExternalLink("/etc/passwd", "/x")
        file["two"] = h5py.SoftLink("/one")
    with open_weights(Place(tmp_path / "x.h5")) as weights:
        assert weights.stored["one/kernel"].read().tolist() == [1, 1, 1]
        assert "another file" in weights.stored["one/bias"].unreadable
        assert "soft link" in weights.stored["two"].unreadable


def test_groups_in_themselves_are_refused(tmp_path):
    """A group with two names would have members without end."""
    weights_file(tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5", "a") as file:
        file["layers/around"] = file["layers"]
    with bounded(), open_weights(Place(tmp_path / "x.h5")) as weights:
        listed = {name: stored.unreadable for name, stored in weights.stored.items()}
    assert "another name of a group" in listed["layers/around"]
    assert sum(reason is not None for reason in listed.values()) == 1


def test_many_names_for_one_group_are_refused(tmp_path):
    """Groups that each have two names for the next one are not walked 2**40 times."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        group = file
        for _ in range(40):
            inner = group.create_group("a")
            group["b"] = inner
            group = inner
    with bounded(), open_weights(Place(tmp_path / "x.h5")) as weights:
        assert len(weights.stored) == 40


def test_deep_groups_are_refused(tmp_path):
    """Nesting is bounded, and not by Python's stack."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_group("/".join("a" * 2000))
    with bounded(), pytest.raises(LimitError, match="deeper than 100"):
        open_weights(Place(tmp_path / "x.h5"))


def test_a_header_that_continues_in_itself(tmp_path):
    """Its messages have no end: an error, at once."""
    weights_file(tmp_path / "x.h5", libver="latest")
    data = bytearray((tmp_path / "x.h5").read_bytes())
    place = len(data)
    message = struct.pack("<BHBQQ", 16, 16, 0, place, 28)
    data += b"OCHK" + message + bytes(4)
    data[36:44] = struct.pack("<Q", len(data))  # the root group
    data += b"OHDR\x02\x00" + bytes([len(message)]) + message + bytes(4)
    data[28:36] = struct.pack("<Q", len(data))
    with bounded(), pytest.raises(FormatError, match="continues in itself"):
        read_all(bytes(data))


def test_values_elsewhere_are_refused(tmp_path):
    """Values in other files, or of other datasets, are not looked for."""
    (tmp_path / "secret").write_bytes(bytes(24))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("vars/0", (6,), "f4", external=[(str(tmp_path / "secret"), 0, 24)])
    with pytest.raises(UnsupportedError, match="in other files"):
        open_weights(Place(tmp_path / "x.h5")).stored["vars/0"].read()
    layout = h5py.VirtualLayout((6,), "f4")
    layout[:] = h5py.VirtualSource("other.h5", "x", (6,))
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file.create_virtual_dataset("0", layout)
    with pytest.raises(UnsupportedError, match="of other datasets"):
        open_weights(Place(tmp_path / "y.h5")).stored["0"].read()


def test_shapes_without_values_are_refused(tmp_path):
    """A shape far beyond what is stored is listed, and not allocated."""
    for options in ({"chunks": (1 << 20,), "compression": "gzip"}, {}):
        with h5py.File(tmp_path / "x.h5", "w") as file:
            dataset = file.create_dataset("vars/0", (1 << 40,), "f4", **options)
            if options:
                dataset[:10] = 1
            file["vars/1"] = np.ones(3, "f4")
        weights = open_weights(Place(tmp_path / "x.h5"))
        with bounded(megabytes=8), pytest.raises(LimitError, match=r"limits\.memory"):
            weights.stored["vars/0"].read()
        assert weights.stored["vars/1"].read().tolist() == [1, 1, 1]


def test_the_limit_of_shapes_can_be_set(tmp_path, monkeypatch):
    """What is refused is what `limits.memory` does not allow."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("vars/0", (1000, 1000), "f4", fillvalue=2)
    with open_weights(Place(tmp_path / "x.h5")) as weights:
        assert (weights.stored["vars/0"].read() == 2).all()
    monkeypatch.setattr(limits, "memory", 1 << 20)
    with pytest.raises(LimitError):
        open_weights(Place(tmp_path / "x.h5")).stored["vars/0"].read()


def test_a_chunk_that_inflates_beyond_its_shape_is_refused(tmp_path):
    """No more is inflated than a chunk may have."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        dataset = file.create_dataset("vars/0", (64,), "u1", chunks=(64,), compression="gzip")
        dataset.id.write_direct_chunk((0,), zlib.compress(bytes(1 << 23)))
    weights = open_weights(Place(tmp_path / "x.h5"))
    with bounded(megabytes=4), pytest.raises(FormatError, match="has 68 bytes, expected 64"):
        weights.stored["vars/0"].read()


def test_a_changed_chunk_is_found(tmp_path):
    """A checksum that HDF5 itself wrote is compared."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        values = np.arange(64, dtype="f4")
        file.create_dataset("vars/0", data=values, chunks=(16,), fletcher32=True)
    data = (tmp_path / "x.h5").read_bytes()
    assert read_all(data)["vars/0"] == values.tobytes()
    place = data.index(values[16:32].tobytes())
    damaged = data[:place] + b"\x01" + data[place + 1 :]
    with pytest.raises(ChecksumError):
        read_all(damaged)


def test_foreign_types_are_refused(tmp_path):
    """References, records and opaque bytes are no numbers of a tensor: their neighbours are."""
    kinds = {
        "reference": h5py.ref_dtype,
        "compound": np.dtype([("a", "f4"), ("b", "i4")]),
        "opaque": "V3",
    }
    for name, dtype in kinds.items():
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file.create_dataset("vars/0", (2,), dtype)
            file["vars/1"] = np.arange(3)
        with open_weights(Place(tmp_path / "x.h5")) as weights:
            lost = weights.stored["vars/0"]
            assert (lost.dtype_name, lost.shape) == (name, (2,))
            assert weights.stored["vars/1"].read().tolist() == [0, 1, 2]
            with pytest.raises(UnsupportedError, match="vars/0"):
                lost.read()


def test_foreign_filters_are_refused(tmp_path):
    """What nothing here can decode is named."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("vars/0", data=np.ones(9), compression="lzf")
    with open_weights(Place(tmp_path / "x.h5")) as weights:
        lost = weights.stored["vars/0"]
    assert (lost.dtype_name, lost.shape) == ("float64", (9,))
    assert "filter lzf" in lost.unreadable


def test_a_damaged_neighbour_stays_an_error(tmp_path):
    """A dataset whose messages contradict the file is damage, and not one that is unreadable."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["vars/0"] = np.arange(1000.0)
        file.create_dataset("vars/1", (2,), np.dtype([("a", "f4"), ("b", "i4")]))
    data = (tmp_path / "x.h5").read_bytes()
    start = data.index(np.arange(1000.0).tobytes()[8:])
    place = data.index(struct.pack("<QQ", start - 8, 8000))
    damaged = data[:place] + struct.pack("<Q", 1 << 40) + data[place + 8 :]
    with pytest.raises(FormatError, match="1099511627776"):
        open_weights(Place(damaged))


# Archives


def test_archive_without_weights(tmp_path):
    """An error says which member is missing; pickled weights are not read."""
    with zipfile.ZipFile(tmp_path / "x.keras", "w") as file:
        file.writestr("metadata.json", "{}")
    with pytest.raises(FormatError, match=r"no model\.weights\.h5"):
        open_weights(Place(tmp_path / "x.keras"))
    with zipfile.ZipFile(tmp_path / "x.keras", "a") as file:
        file.writestr("model.weights.npz", b"")
    with pytest.raises(UnsupportedError, match="pickled"):
        open_weights(Place(tmp_path / "x.keras"))


def test_archive_names_and_bombs(tmp_path):
    """Names that lead out of an archive, twice the same name, and bombs are refused."""
    weights = weights_file(tmp_path / "x.h5")
    for name in ("../x", "/etc/x", "assets/../../x"):
        with pytest.raises(FormatError, match="the name"):
            open_weights(Place(archive(tmp_path / "x.keras", weights, **{name: b""})))
    path = archive(tmp_path / "x.keras", weights)
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("config.json", b"{}")
    with pytest.raises(FormatError, match="two members"):
        open_weights(Place(path))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("model.weights.h5", bytes(1 << 20))
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\x01\x02")
    for place in (22, entry + 24):
        data[place : place + 4] = struct.pack("<I", 0xFFFFFFF0)
    with bounded(), pytest.raises(FormatError):
        read_all(bytes(data))


@pytest.mark.parametrize(
    "text", [b"[]", b"{", b'{"a": ' * 10_000, b"\xff", b"[" * 100_000, b""], ids=range(6)
)
def test_config_that_is_none(text, tmp_path):
    """A config that is no JSON object is an error, however deep it is."""
    path = tmp_path / "x.keras"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("config.json", text)
        file.writestr("model.weights.h5", weights_file(tmp_path / "x.h5"))
    with bounded(), pytest.raises(FormatError):
        open_weights(Place(path))


# Configs


def code(path):
    """Bytecode that would leave a file behind."""
    source = f"open({str(path)!r}, 'w')"
    return base64.b64encode(marshal.dumps(compile(source, "x", "eval"))).decode()


def test_nothing_in_a_config_is_run(tmp_path):
    """Bytecode, modules, functions, gadgets, pickles and paths are reported, and stay text."""
    trace = tmp_path / "trace"
    (tmp_path / "evil_module.py").write_text(f"open({str(trace)!r}, 'w')")
    bytecode = code(trace)
    lambda_ = {"class_name": "__lambda__", "config": {"value": bytecode}}
    layers = [
        {"module": "keras.layers", "class_name": "Lambda", "config": {"function": lambda_}},
        {"class_name": "Lambda", "config": {"function": [bytecode], "function_type": "lambda"}},
        {"module": "evil_module", "class_name": "Evil", "config": {}},
        {"module": "builtins", "class_name": "function", "config": "exec"},
        {"module": "keras.utils", "class_name": "function", "config": "get_file"},
        {
            "class_name": "TorchModuleWrapper",
            "module": "keras.layers",
            "config": {"module": "gASV"},
        },
        {"class_name": "StringLookup", "config": {"vocabulary": "/etc/passwd"}},
        {"class_name": "TFSMLayer", "config": {"filepath": "/models/other"}},
        {"module": "keras.layers", "class_name": "Dense", "config": {"units": 3}},
    ]
    config = {"class_name": "Sequential", "module": "keras", "config": {"layers": layers}}
    kinds = ["bytecode", "bytecode", "module", "function", "gadget", "pickle", "file", "file"]
    weights = weights_file(tmp_path / "x.h5")
    with open_weights(Place(archive(tmp_path / "x.keras", weights, config))) as found:
        assert [finding.kind for finding in found.findings] == kinds
        assert found.findings[2].place == "config/layers/2"
        assert "evil_module" in found.findings[2].detail
    legacy_file(tmp_path / "y.h5")
    with h5py.File(tmp_path / "y.h5", "a") as file:
        file.attrs["model_config"] = json.dumps(config)
    with open_weights(Place(tmp_path / "y.h5")) as found:
        assert [finding.kind for finding in found.findings] == kinds
    assert not trace.exists()


def test_a_config_of_keras_itself_has_no_findings():
    """Layers, initializers and policies are descriptions."""
    config = {
        "module": "keras.layers",
        "class_name": "Dense",
        "config": {
            "dtype": {"module": "keras", "class_name": "DTypePolicy", "config": {"name": "f"}},
            "kernel_initializer": {"module": "keras.initializers", "class_name": "Zeros"},
            "vocabulary": ["a"],
        },
    }
    assert keras_config.find(config) == ()


def test_legacy_lists_that_lie(tmp_path):
    """Names of what is not there, and lists that are none, are errors."""
    for attribute, value in (
        ("layer_names", [b"third"]),
        ("layer_names", b"first"),
        ("layer_names", [b"first/../first"]),
    ):
        legacy_file(tmp_path / "x.h5")
        with h5py.File(tmp_path / "x.h5", "a") as file:
            file["model_weights"].attrs[attribute] = value
        with pytest.raises(FormatError):
            open_weights(Place(tmp_path / "x.h5"))


@pytest.mark.parametrize(
    "tree",
    [
        {},
        {"weight_map": []},
        {"weight_map": {"/a/vars": "../x.weights.h5"}},
        {"weight_map": {"/a/vars": 3}},
        {"weight_map": {"/other/vars": "x.weights.h5"}},
        {"weight_map": {}},
    ],
    ids=range(6),
)
def test_index_that_lies(tree, tmp_path):
    """An index names files beside it, and the variables that are in them."""
    with h5py.File(tmp_path / "x.weights.h5", "w") as file:
        file["a/vars/0"] = np.ones(3)
    path = tmp_path / "x.weights.json"
    path.write_text(json.dumps(tree))
    if tree == {"weight_map": {}}:
        assert open_weights(Place(path)).stored == {}
        return
    with pytest.raises(FormatError):
        open_weights(Place(path))


def test_errors_say_where(tmp_path):
    """The file, the byte and the dataset are named."""
    data = weights_file(tmp_path / "x.h5")
    with pytest.raises(TruncatedError) as caught:
        read_all(data[:-100])
    assert caught.value.path == "hostile.h5"
    assert caught.value.offset == len(data) - 100
    assert "cut" in caught.value.hint


def test_datasets_that_share_their_values(tmp_path):
    """Three hundred datasets in the same four megabytes are not a gigabyte of weights."""
    large, small = np.zeros(1_000_000, np.float32), 37
    tensors = {f"layers/a{i}/vars/0": np.full(small, i + 1, np.float32) for i in range(300)}
    path = tmp_path / "shared.weights.h5"
    ferry.save({"layers/large/vars/0": large, **tensors}, path, durable=False)
    data = bytearray(path.read_bytes())
    start = data.index(large.tobytes())
    for array in tensors.values():
        place = struct.pack("<QQ", data.index(array.tobytes()), array.nbytes)
        layout = data.index(place)
        data[layout : layout + 16] = struct.pack("<QQ", start, large.nbytes)
        shape = data.index(struct.pack("<Q", small), layout)
        data[shape : shape + 8] = struct.pack("<Q", large.size)
    path.write_bytes(data)

    with pytest.raises(LimitError, match="together with what was read before"):
        ferry.open(path)


def share(path, length, target, *, less=0):
    """Lets all strings of a length be the one of another length, or all but its end."""
    data = path.read_bytes()
    place = re.search(struct.pack("<I", target) + b"(.{10}\0\0)", data, re.DOTALL)
    assert place is not None
    text = struct.pack("<I", target - less) + place[1]
    pattern = re.compile(re.escape(struct.pack("<I", length)) + b".{10}\0\0", re.DOTALL)
    data, count = pattern.subn(lambda _: text, data)
    path.write_bytes(data)
    return count


@pytest.mark.parametrize("is_usual", [True, False])
def test_attributes_that_share_their_text(tmp_path, is_usual):
    """A thousand attributes in the same 300,000 bytes are not 300 megabytes of text."""
    path = tmp_path / "shared.weights.h5"
    with h5py.File(path, "w") as file:
        if not is_usual:
            file.create_dataset("other", data=np.zeros(8), chunks=(2,))
        file.create_group("long").attrs["name"] = "x" * 300_000
        for number in range(20):
            group = file.create_group(f"layers/a{number}/vars")
            group["0"] = np.zeros(3, "float32")
            for each in range(50):
                group.attrs[f"name{each}"] = "y" * 77
    assert share(path, 77, 300_000) >= 1000

    with bounded(megabytes=60), pytest.raises(LimitError, match="without end"):
        ferry.open(path)


def test_strings_that_share_their_bytes(tmp_path):
    """Ten thousand strings in the same 300,000 bytes are not three gigabytes."""
    path = tmp_path / "shared.h5"
    with h5py.File(path, "w") as file:
        file.create_group("long").attrs["name"] = "x" * 300_000
        file.create_dataset("texts", data=["y" * 77] * 10_000, dtype=h5py.string_dtype())
    assert share(path, 77, 300_000, less=1) >= 10_000

    with bounded(megabytes=60), pytest.raises(LimitError, match="the strings of 'texts'"):
        ferry.load(path)
