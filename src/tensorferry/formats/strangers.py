"""Strangers: files of other programs that are often taken for ours, named for what they are.

    find(Glimpse("model.tflite", head))     # Stranger("a TensorFlow Lite model", "...")

They are models and archives of PyTorch, ONNX, TensorFlow Lite and Python, which hold programs or
objects. They are recognised by their first bytes, or by those and the name, and nothing is read.
"""

from __future__ import annotations

from tensorferry.classes import NamedTuple
from tensorferry.formats.contract import Glimpse

# The position of the name of an archive's first member.
_MEMBER_NAME = 30
# The number that a file of torch.save began with before version 1.6, pickled.
_OLD_TORCH = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e")
# The first operation of a pickle: smaller ones are values of other messages.
_FIRST_OPERATION = 0x28

_TORCH = "read it with torch.load(path, weights_only=True), and keep it with tensorferry.save"


class Stranger(NamedTuple):
    """A file of another program.

    Attributes:
        what: What it is.
        hint: What to do with it.
    """

    what: str
    hint: str


def find(glimpse: Glimpse) -> Stranger | None:
    """The kind of a file that belongs to another program and that no format of ours reads."""
    head, name = glimpse.head, glimpse.name.lower()
    if head[4:8] == b"TFL3":
        return Stranger("a TensorFlow Lite model", "tf.lite.Interpreter runs it")
    if head.startswith(b"GGUF"):
        return Stranger("a GGUF model", "the package gguf reads it")
    if head.startswith(b"PK\x03\x04") and b"/data.pkl" in head[_MEMBER_NAME:]:
        return Stranger("a PyTorch archive", _TORCH)
    if head.startswith(_OLD_TORCH):
        return Stranger("a PyTorch file, which is a pickle", _TORCH)
    is_pickle = head[:1] == b"\x80" and head[1:2] in (b"\2", b"\3", b"\4", b"\5")
    if is_pickle and head[2:3] >= bytes([_FIRST_OPERATION]):
        return Stranger("a pickle, which may run anything when it is loaded", _PICKLE)
    if name.endswith((".pkl", ".pickle")) and head[:1] in (b"(", b"}", b"]", b"c"):
        return Stranger("a pickle, which may run anything when it is loaded", _PICKLE)
    if name.endswith(".onnx") and head[:1] in (b"\x08", b"\x12"):
        return Stranger("an ONNX model", "onnx.load reads it")
    if name.endswith(".meta") and head[:1] == b"\n":
        import shlex  # imported late: hardly any file is one

        beside = glimpse.name[: -len(".meta")]
        return Stranger(
            "the graph of a TensorFlow 1 checkpoint (a MetaGraphDef)",
            f"its variables lie beside it: `ferry info {shlex.quote(beside)}`",
        )
    return None


def named(path: str) -> str | None:
    """What a file of a name would be that belongs to another program; None for other names."""
    return _NAMES.get(path[path.rfind(".") :].lower())


# What people ask for by name, and nothing here writes.
_NAMES = {
    **dict.fromkeys((".pt", ".pth"), "a PyTorch archive"),
    **dict.fromkeys((".pkl", ".pickle", ".joblib"), "a pickle"),
    ".onnx": "an ONNX model",
    ".tflite": "a TensorFlow Lite model",
    ".gguf": "a GGUF model",
    ".mat": "a file of MATLAB",
}

_PICKLE = "load it where it is trusted, and keep its arrays with tensorferry.save"
