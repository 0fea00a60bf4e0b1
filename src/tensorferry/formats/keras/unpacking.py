"""Unpacking `.keras` archives: the folder that `model.save(path, zipped=False)` writes.

    config.json          the config of the model
    metadata.json        which Keras wrote it, and when
    model.weights.h5     the weights
    assets/              the files of layers, such as vocabularies

Keras loads such a folder as it loads an archive, and sooner: h5py reads the weights from their own
file, and not from a copy in memory. The checksums of all members are compared while they are
written.
"""

from __future__ import annotations

import json
import os

from tensorferry.budget import Budget
from tensorferry.codecs.hdf5.file import SIGNATURE
from tensorferry.codecs.zip.archive import Archive, open_archive
from tensorferry.errors import FormatError
from tensorferry.formats.keras import config as keras_config
from tensorferry.formats.keras.reader import (
    ASSETS,
    CONFIG,
    METADATA,
    WEIGHTS,
    ZIP,
    check_members,
)
from tensorferry.storage import Source

# So many bytes are copied at a time.
BLOCK = 1 << 18
# Zeros at the start of a block make it worth a look whether there is anything else.
_START = bytes(64)


def unpack(source: Source, folder: str) -> None:
    """Writes what Keras reads of an archive into a folder.

    Args:
        source: The archive.
        folder: Exists, is empty, and is the caller's own.

    Raises:
        FormatError: The archive is damaged, or lacks the weights.
        LimitError: Its members take more than the file may.
    """
    head = source.head(len(SIGNATURE))
    if not head.startswith(ZIP):
        raise FormatError(
            f"starts with {head.hex(' ')!r}, expected {ZIP.hex(' ')!r} by its name",
            path=source.path,
            offset=0,
        )
    archive = open_archive(source)
    size = sum(member.size for member in archive.members.values())
    # Counted apart: what is inflated is counted again when it is read.
    Budget(source.budget.stored).take(size, what="what the archive holds", path=source.path)
    check_members(archive)
    for name in archive:
        if name in (CONFIG, METADATA):
            text = _ascii(bytes(archive.read(name)), name, source)
            with open(os.path.join(folder, name), "xb", buffering=0) as file:
                _write_all(file.fileno(), memoryview(text))
        elif name == WEIGHTS or name.startswith(ASSETS):
            _write_member(archive, name, os.path.join(folder, *name.split("/")))
        else:
            for _ in archive.blocks(name):  # which nobody reads, but damage is damage
                pass


def _ascii(text: bytes, name: str, source: Source) -> bytes:
    """A text without characters beyond ASCII, which Keras would read as those of the locale."""
    tree = keras_config.parse(text, what=name, budget=source.budget)
    return text if text.isascii() else json.dumps(tree).encode()


def _write_member(archive: Archive, name: str, path: str) -> None:
    """Writes a member to a file; zeros become holes, or a small file could fill the disk."""
    try:
        if name != WEIGHTS:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        opened = open(path, "xb", buffering=0)  # noqa: SIM115
    except (FileExistsError, NotADirectoryError):
        raise FormatError(
            f"member {name[:200]!r} and another one are a file and its folder"
        ) from None
    with opened as file:
        for block in archive.blocks(name, size=BLOCK):
            if bytes(block[: len(_START)]) == _START and bytes(block) == bytes(len(block)):
                file.seek(len(block), os.SEEK_CUR)
            else:
                _write_all(file.fileno(), memoryview(block))
        file.truncate(archive.members[name].size)


def _write_all(descriptor: int, left: memoryview) -> None:
    while left:
        left = left[os.write(descriptor, left) :]
