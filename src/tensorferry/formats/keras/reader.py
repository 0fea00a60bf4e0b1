"""Opening the weights of Keras: `.weights.h5`, `.keras`, `.h5` of Keras 2, and sets of files.

    model.weights.h5     an HDF5 file of variables
    model.keras          a zip archive: metadata.json, config.json, model.weights.h5, assets/
    model.h5             an HDF5 file, with the config of the model among its attributes or without
    model.weights.json   the index of several .weights.h5 files

They are opened without Keras, TensorFlow or h5py, and without reading a value: arrays are views of
the file. A config is text here: what Keras would run if it loaded the config is listed in
`findings`. The checksum that an archive has for its weights is compared before the first of them is
read. A dataset that cannot be read, because its values are no numbers or lie in another file, is
listed with the reason.

HDF5 is `tensorferry.codecs.hdf5.file`; which of its datasets are variables, and what they are
called, `layouts` in this folder; configs are `config`, sets of files `shards`, and writing is
`writer`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tensorferry.codecs.compression import BLOCK
from tensorferry.codecs.hdf5.file import SIGNATURE, File
from tensorferry.codecs.zip.archive import Archive, open_archive
from tensorferry.codecs.zip.directory import STORED
from tensorferry.errors import FerryError, FormatError, UnsupportedError
from tensorferry.formats.keras import config as keras_config, layouts, shards
from tensorferry.formats.keras.weights import Weights, fill, find_usual, of_usual
from tensorferry.storage import Source, is_url
from tensorferry.storage.place import Place

CONFIG, METADATA, WEIGHTS, ASSETS = "config.json", "metadata.json", "model.weights.h5", "assets/"
PICKLED_WEIGHTS = "model.weights.npz"
INDEX = ".weights.json"

# An archive up to this size is fetched from a store once, to be verified and then to be read; of a
# larger one so much is fetched at a time to be verified.
FETCHED = 64 << 20

ZIP = b"PK\x03\x04"


def open_weights(place: Place, *, verify: bool = True, trusted: bool = False) -> Weights:
    """Opens a file of weights, of whichever kind its bytes are.

    Args:
        place: A path or URL, a file object, bytes, or a source.
        verify: Compare the checksum of an archive's weights before the first of them is read.
        trusted: Read what our reader refuses with h5py: see `trusted` in this folder.

    Raises:
        FormatError: It is damaged, or no such file.
    """
    was_open = place.is_open
    source = place.open()
    try:
        head = source.head(len(SIGNATURE))
        if source.size is None:
            source.everything()
        if head.startswith(SIGNATURE):
            weights = _read_hdf5(place, source, trusted)
        elif trusted:
            from tensorferry.formats.keras.trusted import refuse

            raise refuse(source.path)
        elif head.startswith(ZIP):
            weights = _read_archive(source, verify)
        elif source.path.endswith(INDEX) or head.lstrip().startswith(b"{"):
            weights = shards.read(place)
        else:
            raise FormatError(f"no weights of Keras: starts with {head.hex(' ')!r}", offset=0)
    except BaseException as error:
        if not was_open:
            place.close()
        if isinstance(error, FerryError):
            error.located(path=source.path)
        raise
    weights.places.append(place)
    return weights


def _read_hdf5(place: Place, source: Source, trusted: bool) -> Weights:
    """The weights of an HDF5 file, which may lie in the folder of a model."""
    config = _beside(place, CONFIG)
    assert source.size is not None
    try:
        weights = read_file(source, 0, source.size, config=config, object_by_object=trusted)
    except UnsupportedError:
        if not trusted:
            raise
        weights = Weights()
    if config is not None:
        weights.places += [place.beside(CONFIG)]
        metadata = _beside(place, METADATA) or {}
        weights.metadata |= {key: str(value) for key, value in metadata.items()}
    if trusted:
        from tensorferry.formats.keras.trusted import add, open_file

        add(weights, source, open_file(source))
    return weights


def _beside(place: Place, name: str) -> Any:
    """The config or metadata beside the weights, in a folder that `zipped=False` has made."""
    if not place.is_named or place.is_url or os.path.basename(place.path) != WEIGHTS:
        return None
    other = place.beside(name)
    if not os.path.isfile(other.path):
        return None
    with other.open() as text:
        return keras_config.parse(text.everything(), what=name)


def open_folder(path: str) -> Weights:
    """Opens the weights of a folder with an unpacked archive: see `unpacking` in this folder.

    Its config is the only one that counts, as in an archive. Variables are called by their paths.

    Raises:
        FormatError: A file is damaged.
    """
    place = Place(os.path.join(path, WEIGHTS))
    source = place.open()
    try:
        assert source.size is not None
        weights = read_file(source, 0, source.size, archived=True)
        weights.config = _beside(place, CONFIG)
    except BaseException as error:
        place.close()
        if isinstance(error, FerryError):
            error.located(path=source.path)
        raise
    weights.places.append(place)
    return weights


def read_file(
    source: Source,
    start: int,
    size: int,
    *,
    config: Any = None,
    archived: bool = False,
    check: Callable[[], None] | None = None,
    object_by_object: bool = False,
) -> Weights:
    """The weights of an HDF5 file of any layout.

    Args:
        source: Holds the file.
        start: Where the file starts in the source.
        size: Number of bytes of the file.
        config: Of the model, where it is known from elsewhere.
        archived: Whether the file is in an archive, whose config is the only one that counts: Keras
            does not look for another in the attributes of the file.
        check: Called before values are read as a whole.
        object_by_object: Do not take the quick way into files of the usual form.
    """
    usual = None if object_by_object else find_usual(source, start, size, config)
    if usual is not None:
        weights = of_usual(usual, source, check)
        weights.config = config
        return weights
    file = File(source, start, size)
    weights = Weights(config=config, roots=[file.root])
    attributes = file.root.attributes
    group = layouts.weights_group(file.root)
    for holder in () if group is None else (group.attributes, attributes):
        for key in ("keras_version", "backend"):
            if isinstance(holder.get(key), str):
                weights.metadata[key] = holder[key]
    for key in () if archived else ("model_config", "training_config"):
        if isinstance(attributes.get(key), str):
            tree = keras_config.parse(attributes[key].encode(), what=key, budget=source.budget)
            if key == "model_config":
                weights.config = tree
            else:
                weights.training = tree
    fill(weights, layouts.find(file.root, weights.config), check)
    return weights


def _read_archive(source: Source, verify: bool) -> Weights:
    archive = open_archive(source, lazy=is_url(source.path))
    check_members(archive)
    config = None
    if CONFIG in archive:
        config = keras_config.parse(archive.read(CONFIG), what=CONFIG, budget=source.budget)
    inside, start, size, check = _weights_file(archive, source, verify)
    weights = read_file(inside, start, size, config=config, archived=True, check=check)
    if METADATA in archive:
        tree = keras_config.parse(archive.read(METADATA), what=METADATA, budget=source.budget)
        weights.metadata |= {key: str(value) for key, value in tree.items()}
    weights.checksums = True
    weights.assets = tuple(name for name in archive if name.startswith(ASSETS))
    return weights


def check_members(archive: Archive) -> None:
    """Refuses an archive without weights, or with weights that only Python can unpickle."""
    if WEIGHTS in archive:
        return
    if PICKLED_WEIGHTS in archive:
        raise UnsupportedError(
            f"the weights are in {PICKLED_WEIGHTS}, which are pickled objects",
            hint="load the model with the Keras that saved it, and save it again",
        )
    raise FormatError(f"no {WEIGHTS} among the {len(archive)} members, which a .keras archive has")


def _weights_file(
    archive: Archive, source: Source, verify: bool
) -> tuple[Source, int, int, Callable[[], None] | None]:
    """The HDF5 file in an archive, where it lies there if it is stored, and how to verify it."""
    member = archive.members[WEIGHTS]
    if member.method != STORED:
        data = archive.read(WEIGHTS, verify=verify)
        inside = Source(f"{source.path}/{WEIGHTS}", buffer=data, budget=source.budget)
        return inside, 0, len(data), None
    is_checked, start = not verify, archive.offset(WEIGHTS)

    def check() -> None:
        nonlocal is_checked
        if is_checked:
            return
        if member.size <= FETCHED:
            source.expect([(start, start + member.size)])
        is_held = source.buffer is not None or member.size <= FETCHED
        for _ in archive.blocks(WEIGHTS, size=BLOCK if is_held else FETCHED):
            pass
        is_checked = True

    return source, start, member.size, check
