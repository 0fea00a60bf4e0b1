"""SavedModels of tensors, written without TensorFlow.

    predictions/
        variables/variables.index                   a checkpoint of objects
        variables/variables.data-00000-of-00001
        saved_model.pb                              a program that returns the tensors

TensorFlow, TensorFlow Serving and `tensorferry.load_model` load it: the tensors are variables, and
a signature returns them. What the program is made of is `tensorferry.formats.savedmodel.program`.
Programs of a user's own are written by TensorFlow: `tensorferry.save_model`.

A local folder is replaced as a whole. In a store, saved_model.pb comes last, and what is there is
not replaced.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tensorferry import storage
from tensorferry.formats.checkpoint.reader import Checkpoint, open_checkpoint
from tensorferry.formats.checkpoint.writer import remove, save_content
from tensorferry.formats.contract import Written
from tensorferry.formats.savedmodel import program
from tensorferry.formats.savedmodel.assets import storage_join
from tensorferry.formats.savedmodel.model import FILES, VARIABLES
from tensorferry.formats.savedmodel.target import check, check_folder, check_store
from tensorferry.storage.directory import replacing_path
from tensorferry.storage.place import Place, Target

if TYPE_CHECKING:
    from tensorferry.tensors.content import Content


def save(content: Content, target: Target) -> Written:
    """Writes the tensors of a value.

    Raises:
        FormatError: The path is something else than a SavedModel.
        UnsupportedError: The value does not fit, the model that is there has a program, or the
            model in a store is there already.
    """
    path = storage.localize(target.path)
    if storage.is_url(path):
        check_store(path, target.options)
        return _written(content, path.rstrip("/"), target)
    check(path)
    with replacing_path(path, durable=target.durable, check=check_folder) as temporary:
        os.mkdir(temporary)
        inside = _written(content, temporary, Target(temporary, durable=False))
    files = (os.path.join(path, os.path.relpath(file, temporary)) for file in inside.files)
    return Written(inside.nbytes, tuple(files))


def _written(content: Content, folder: str, target: Target) -> Written:
    """Writes all files into a folder that has none of them."""
    prefix = storage_join(folder, VARIABLES)
    saved = save_content(
        content,
        prefix,
        layout="objects",
        durable=target.durable,
        state=False,
        storage_options=target.options,
    )
    file = storage_join(folder, FILES[0])
    try:
        with open_checkpoint(Place(prefix, options=target.options), parts=True) as opened:
            data = _program_of(opened)
        with storage.open_sink(file, durable=target.durable, options=target.options) as sink:
            sink.write(data)
    except BaseException:
        remove(prefix, storage_options=target.options)
        raise
    return Written(saved.nbytes + len(data), (*saved.paths, file))


def _program_of(opened: Checkpoint) -> bytes:
    """The program for the variables of a checkpoint."""
    found = []
    for name, key in opened.keys.items():
        stored = opened.stored[name]
        shape = tuple(size for size in stored.shape if size is not None)
        found.append(program.Held(name, key, stored.dtype, shape))
    assert opened.graph is not None
    return program.encode(found, opened.graph.nodes)
