"""Writes the corpus of the fuzz targets: small files of all kinds, made here.

    python tests/fuzz/seeds.py

The corpus is kept in the repository, so that the tests start from the same files everywhere.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tensorferry as ferry
from tensorferry import _native
from tensorferry.codecs import riegeli
from tensorferry.formats.checkpoint import entries
from tensorferry.formats.savedmodel import text as savedmodel_text

CORPUS = Path(__file__).parent / "corpus"
SPLIT = b"\xff\xfe"


def hdf5() -> dict[str, bytes]:
    """Groups in both forms, chunks, filters, strings, attributes, links, types we do not read."""
    found = {}
    for form, libver in {"old": "earliest", "new": "latest"}.items():
        out = io.BytesIO()
        with h5py.File(out, "w", libver=libver) as file:
            group = file.create_group("layers/dense/vars")
            group.create_dataset("0", data=np.arange(6, dtype=np.float32).reshape(2, 3))
            group.create_dataset(
                "1",
                data=np.arange(8, dtype=">i4"),
                chunks=(3,),
                maxshape=(None,),
                compression="gzip",
                shuffle=True,
                fletcher32=True,
            )
            file["text"] = "word"
            file["bool"] = np.array([True, False])
            file["pair"] = np.zeros(2, [("a", "f4"), ("b", "i2")])
            file["soft"] = h5py.SoftLink("/text")
            file.attrs["names"] = np.array([b"x", b"yz"])
            file.attrs["keras_version"] = "2.4.0"
        found[f"{form}.h5"] = out.getvalue()
    return found


def zips() -> dict[str, bytes]:
    """Stored and deflated members, one with a comment."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.txt", b"stored")
        archive.writestr("b/c.txt", b"deflated" * 9, zipfile.ZIP_DEFLATED)
        archive.comment = b"comment"
    return {"two.zip": out.getvalue(), "empty.zip": b"PK\5\6" + bytes(18)}


def riegelis() -> dict[str, bytes]:
    """Chunks of records, plain and compressed."""
    import cramjam

    sizes, values = bytes([1, 2, 0]), b"abb"
    found = {"plain": b"\0" + struct.pack("<BI", 3, 3) + b"\0\3" + sizes + values}
    for letter, pack in {"z": cramjam.zstd.compress, "s": cramjam.snappy.compress_raw}.items():
        packed = b"\3" + bytes(pack(sizes))
        body = letter.encode() + bytes([len(packed)]) + packed + b"\3" + bytes(pack(values))
        found[letter] = b"\0" + struct.pack("<BI", 3, 3) + body
    found["file"] = riegeli.START
    return found


def texts() -> dict[str, bytes]:
    """Messages as text."""
    return {
        "schema": b'feature { name: "a" type: INT presence { min_count: 1 } shape { dim { size: 2 }'
        b' } }\nfeature { name: "b\\n\\x01" type: BYTES value_count { min: 0 max: -1 } }',
        "model": b'saved_model_schema_version: 1 meta_graphs { meta_info_def { tags: "serve" }\n'
        b'graph_def { node { name: "c" op: "Const" attr { key: "dtype" value { type: DT_FLOAT }'
        b' } attr { key: "value" value { tensor { dtype: DT_FLOAT float_val: [1e3, -.5f, inf]'
        b" tensor_shape { dim { size: 3 } } } } } } } }",
        "state": b'model_checkpoint_path: "a" \'b\'\nall_model_checkpoint_paths: "a" # note',
    }


def arrows() -> dict[str, bytes]:
    """A stream and a file, one with a dictionary, one compressed."""
    table = pa.table({"a": [1, None, 3], "b": ["x", "yy", None], "c": [[1.0], [], None]})
    with_words = table.append_column("d", pa.array(["u", "v", "u"]).dictionary_encode())
    found = {}
    for name, new in {"stream": pa.ipc.new_stream, "file": pa.ipc.new_file}.items():
        for compression, held in ((None, with_words), ("zstd", table)):
            sink = io.BytesIO()
            options = pa.ipc.IpcWriteOptions(compression=compression)
            with new(sink, held.schema, options=options) as writer:
                writer.write_table(held)
            found[f"{name}-{compression}"] = sink.getvalue()
    return found


def parquets() -> dict[str, bytes]:
    """Footers alone."""
    table = pa.table({"a": [1, None, 3], "b": ["x", "yy", None], "c": [[1.0], [], None]})
    found = {}
    for compression in ("none", "snappy"):
        sink = io.BytesIO()
        pq.write_table(table, sink, compression=compression, row_group_size=2)
        data = sink.getvalue()
        (length,) = struct.unpack("<I", data[-8:-4])
        found[compression] = data[-8 - length : -8]
    return found


def npys() -> dict[str, bytes]:
    """Archives as a whole, and their parts behind a zero."""
    out = io.BytesIO()
    np.savez(out, a=np.arange(3, dtype=np.int16), b=np.float32(1))
    found = {"numpy.npz": out.getvalue()}
    value = {"a": {"b": np.arange(3)}, "s": ferry.RaggedTensor.from_rows([[1], [2, 3]])}
    found["ours.npz"] = bytes(ferry.dumps(value, format="npz"))
    for name, array in {"f4": np.ones((2, 2), "f4"), "rec": np.zeros(2, "i2,f4")}.items():
        out = io.BytesIO()
        np.save(out, array)
        found[name] = b"\0" + out.getvalue() + SPLIT + b'{"tensorferry":"{\\"version\\":1}"}'
    return found


def keras() -> dict[str, bytes]:
    """A Keras 2 file, a Keras 3 file, and a config."""
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        file.attrs["layer_names"] = np.array([b"dense"])
        file.attrs["model_config"] = json.dumps({"class_name": "Sequential", "config": {}})
        group = file.create_group("dense")
        group.attrs["weight_names"] = np.array([b"dense/kernel:0"])
        group["dense/kernel:0"] = np.ones((2, 1), np.float32)
        moments = file.create_group("optimizer_weights")
        moments.attrs["weight_names"] = np.array([b"m:0"])
        moments["m:0"] = np.ones(1, np.float32)
    config = {
        "module": "keras",
        "class_name": "Sequential",
        "config": {"name": "s", "layers": [{"class_name": "Dense", "config": {"name": "dense"}}]},
    }
    return {"legacy.h5": out.getvalue(), "config": b"\0" + json.dumps(config).encode()}


def savedmodels() -> dict[str, bytes]:
    """A message, text, and a chunk."""
    text = texts()["model"]
    whole = savedmodel_text.encode(text, "SavedModel")
    part = savedmodel_text.encode(b'meta_graphs { meta_info_def { tags: "serve" } }', "SavedModel")
    node = savedmodel_text.encode(b'node { name: "n" op: "NoOp" }', "GraphDef")
    way = "field_tag { field: 2 } field_tag { index: 0 } field_tag { field: 2 }"
    about = (
        f"chunks {{ type: 1 size: {len(part)} offset: 64 }}"
        f" chunks {{ type: 1 size: {len(node)} offset: 65 }}"
        f" message {{ chunk_index: 0 chunked_fields {{ {way} message {{ chunk_index: 1 }} }} }}"
    )
    records = [part, node, savedmodel_text.encode(about.encode(), "ChunkMetadata")]
    sizes, values = bytes(map(len, records)), b"".join(records)
    chunk = struct.pack("<BI", 3, len(values)) + b"\0\3" + sizes + values
    return {"message": whole, "text": b"\0" + text, "chunk": b"\1" + chunk}


def checkpoints() -> dict[str, bytes]:
    """Entries of an index: a float tensor, a sliced one, strings; and a whole index."""
    from tensorferry import dtypes

    kind = entries.encode_kind(dtypes.BY_NAME["float32"], (2, 3))
    numbers = _native.bundle_entry(kind, 0, 0, 24, _native.crc32c(bytes(24)))
    strings = entries.encode_kind(dtypes.BY_NAME["string"], (2,))
    words = _native.bundle_entry(strings, 0, 24, 8, 0)
    parts = [b"", entries.encode_header(1), b"kernel", numbers, b"words", words]
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        ferry.save({"a": np.arange(3.0)}, f"{folder}/m.index", format="checkpoint")
        index = Path(f"{folder}/m.index").read_bytes()
    return {"entries": b"\0" + SPLIT.join(parts), "index": index}


def structures() -> dict[str, bytes]:
    """Structures of all kinds of leaves."""
    value = {"a": [1, 2.5, None, "x", b"y", (True,)], "t": np.arange(3), "s": np.array([b"q"])}
    return {"tree": bytes(ferry.dumps(value, format="structure"))}


def notes() -> dict[str, bytes]:
    """Notes, a sidecar, a schema, typed JSON."""
    out = io.BytesIO()
    np.save(out, np.zeros(3, np.float32))
    about = {
        "size": len(out.getvalue()),
        "crc32c": _native.crc32c(out.getvalue()),
        "metadata": {"k": "v"},
        "options": {},
    }
    trees = {
        "note": {
            "version": 1,
            "layout": {"value": [{"$type": "tensor", "name": "a"}, None]},
            "tensors": {"a": {"kind": "string", "shape": [1]}},
            "dtypes": {"a": "int4"},
            "quantized": {"a": {"mode": "int8", "axis": 0}},
            "origins": {"a": {"name": "A", "device": "cpu"}},
            "encoded": ["user"],
        },
        "sidecar": {"tensorferry": 1, "files": [about]},
        "schema": {"version": 1, "features": [{"name": "a", "dtype": "int64", "shape": [2]}]},
        "typed": {"$type": "tensor", "dtype": "float32", "shape": [2], "values": [1.5, "NaN"]},
    }
    return {name: json.dumps(tree).encode() for name, tree in trees.items()}


MAKERS = {
    "hdf5": hdf5,
    "zip": zips,
    "riegeli": riegelis,
    "textproto": texts,
    "arrow": arrows,
    "parquet": parquets,
    "npz": npys,
    "keras": keras,
    "savedmodel": savedmodels,
    "checkpoint": checkpoints,
    "structure": structures,
    "notes": notes,
}

if __name__ == "__main__":
    for target, make in MAKERS.items():
        folder = CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in make().items():
            (folder / name).write_bytes(data)
