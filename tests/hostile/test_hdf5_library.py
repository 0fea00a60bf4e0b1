"""HDF5 files in which the HDF5 library would see other objects than our reader: refused by ours.

Keras reads with that library what was judged by our reader. A link that only the library sees would
be followed to another file.
"""

from __future__ import annotations

import struct

import h5py
import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.errors import FormatError, UnsupportedError

NOWHERE = 2**64 - 1


def header(*messages):
    """The header of an object, of the first version."""
    body = b""
    for kind, data in messages:
        padded = data + bytes(-len(data) % 8)
        body += struct.pack("<HHB3x", kind, len(padded), 0) + padded
    return struct.pack("<BxHII4x", 1, len(messages), 1, len(body)) + body


def link_outside(name, file, path):
    """The message of a link to another file."""
    target = b"\0" + file.encode() + b"\0" + path.encode() + b"\0"
    head = struct.pack("<BBBBB", 1, 0x18, 64, 1, len(name))
    return head + name.encode() + struct.pack("<H", len(target)) + target


# What makes an object a dataset: two floats, in the first bytes of the file.
SPACE = (1, struct.pack("<BBBx4xQ", 1, 1, 0, 2))
FLOAT = (3, struct.pack("<4BI2H4BI", 0x11, 0x20, 0x1F, 0, 4, 0, 32, 23, 8, 0, 23, 127))
LAYOUT = (8, struct.pack("<BBQQ", 3, 1, 0, 8))
# What makes it a group, which is what the library takes it for.
LINK_INFO = (2, struct.pack("<BBQQ", 0, 0, NOWHERE, NOWHERE))


def replaced(path, group, new):
    """The file with another header in the place of a group's."""
    with h5py.File(path) as file:
        old = struct.pack("<Q", h5py.h5o.get_info(file[group].id).addr)
    data = bytearray(path.read_bytes())
    data += bytes(-len(data) % 8)
    place = len(data)
    data += new
    table = data.find(b"SNOD")
    while table >= 0:
        for entry in range(struct.unpack_from("<H", data, table + 6)[0]):
            at = table + 16 + 40 * entry
            if data[at : at + 8] == old:
                struct.pack_into("<QI", data, at, place, 0)
        table = data.find(b"SNOD", table + 4)
    struct.pack_into("<Q", data, 40, len(data))
    path.write_bytes(data)
    return path


def test_an_object_that_is_a_group_and_a_dataset(tmp_path):
    """The library takes it for a group and sees its links: to us it would be a plain dataset."""
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["w"] = np.full((3, 2), 7, "float32")
    path = tmp_path / "x.weights.h5"
    with h5py.File(path, "w") as file:
        file.create_group("layers/dense/vars")
    link = (6, link_outside("0", str(tmp_path / "secret.h5"), "/w"))
    replaced(path, "layers/dense/vars", header(SPACE, FLOAT, LAYOUT, LINK_INFO, link))
    with h5py.File(path) as file:
        assert file["layers/dense/vars/0"][0, 0] == 7

    with pytest.raises(FormatError, match="a group and a dataset at once"):
        ferry.load(path)


def test_extensions_of_the_superblock(tmp_path):
    """An image of the cache would replace objects of the file; free space replaces nothing."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver="latest", fs_strategy="page", fs_persist=True) as file:
        file["layers/dense/vars/0"] = np.ones(3, "float32")
    assert ferry.load(path)["layers/dense/vars/0"].tolist() == [1, 1, 1]
    data = bytearray(path.read_bytes())
    (extension,) = struct.unpack_from("<Q", data, 20)
    free_space = data.index(b"\x17", extension)
    data[free_space] = 0x18
    path.write_bytes(data)

    with pytest.raises(UnsupportedError, match=r"extended by message 24, as by an image"):
        ferry.load(path)
