"""A translation model's predictions to bytes and back, in every format, verified.

Run it with `make demo`. It needs no TensorFlow and makes its own data.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import tensorferry as ferry
from tensorferry import tfio

COLOUR = sys.stdout.isatty()


def predictions() -> dict[str, Any]:
    """Predictions as a small English-German model might return them for three sentences."""
    generator = np.random.default_rng(7)
    sentences = ["The ferry leaves at noon.", "Good morning!", "Where is the harbour?"]
    translated = ["Die Fähre legt mittags ab.", "Guten Morgen!", "Wo ist der Hafen?"]
    tokens = [generator.integers(0, 32_000, len(text.split()) + 2) for text in translated]
    attention = generator.random((3, 64, 64)) * (generator.random((3, 64, 64)) > 0.97)
    return {
        "source": np.array([text.encode() for text in sentences], dtype=object),
        "text": np.array([text.encode() for text in translated], dtype=object),
        "tokens": ferry.RaggedTensor.from_rows(tokens),
        "logits": generator.standard_normal((3, 8, 4000), dtype=np.float32),
        "encoder": generator.standard_normal((3, 64, 512)).astype(ml_dtypes.bfloat16),
        "attention": ferry.SparseTensor.from_dense(attention.astype(np.float32)),
        "model": "en-de-small",
        "beam": (4, 0.6),
    }


def same(left: Any, right: Any) -> bool:
    """Whether two values agree in every bit."""
    if isinstance(left, np.ndarray):
        equal = left.tolist() == right.tolist() if left.dtype == object else _bits(left, right)
        return left.dtype == right.dtype and left.shape == right.shape and equal
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, tuple | list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, ferry.RaggedTensor):
        return same(
            (left.flat_values, left.nested_row_splits), (right.flat_values, right.nested_row_splits)
        )
    if isinstance(left, ferry.SparseTensor):
        return all(
            same(getattr(left, part), getattr(right, part)) for part in ("indices", "values")
        )
    return bool(left == right)


def _bits(left: Any, right: Any) -> bool:
    return bool(left.tobytes() == right.tobytes())


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """The result of a function, and the shortest of several times."""
    function()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return result, min(times)


def paint(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if COLOUR else text


def heading(text: str) -> None:
    print(f"\n{paint(text, '1')}")


def show(what: str, value: Any, *, format: str, **options: Any) -> None:
    """Prints one line: a value through a format, with size, times, and whether it came back."""
    data, write = timed(lambda: ferry.dumps(value, format=format))
    result, read = timed(lambda: ferry.loads(data, format=format, **options))
    verdict = paint("✓ same bits", "32") if same(value, result) else paint("✗ differs", "31")
    times = f"{write * 1e6:9,.1f} µs {read * 1e6:9,.1f} µs"
    print(f"  {what:<22} {format:<12} {len(data):>10,} B {times}   {verdict}")
    if not same(value, result):
        raise SystemExit(1)


def describe(name: str, value: Any) -> None:
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        kind = f"{'string' if value.dtype == object else value.dtype} {list(value.shape)}"
    elif isinstance(value, ferry.RaggedTensor | ferry.SparseTensor):
        shape = ", ".join("?" if size is None else str(size) for size in value.shape)
        kind = f"{kind} {value.dtype} [{shape}]"
    else:
        kind = repr(value)
    print(f"  {name:<10} {kind}")


def weights() -> dict[str, Any]:
    """The weights of a small transformer, nested as in a program."""
    generator = np.random.default_rng(3)

    def kernel(*shape: int) -> Any:
        return generator.standard_normal(shape, dtype=np.float32) * 0.02

    layers = [
        {"attention": kernel(256, 768), "mlp": [kernel(256, 1024), kernel(1024, 256)]}
        for _ in range(4)
    ]
    return {"embedding": kernel(8000, 256), "layers": layers, "step": np.array(900)}


def show_files(folder: Path, value: dict[str, Any]) -> None:
    """Predictions and weights: a round trip through files of every format."""
    heading(f"{'Into files and back':<37} {'size':>12} {'write':>12} {'read':>12}")
    cases = {"predictions": value, "weights": weights()}
    names = (
        "npz",
        "safetensors",
        "json",
        "structure",
        "arrow",
        "parquet",
        "safetensors.zst",
        "ckpt",
        "savedmodel",
    )
    for what, content in cases.items():
        for suffix in names if what == "predictions" else ("npz", "safetensors", "arrow", "ckpt"):
            path = folder / f"{what}.{suffix}"
            # A SavedModel is a folder, and its name tells no format.
            named = "savedmodel" if suffix == "savedmodel" else None
            save = partial(ferry.save, content, path, format=named, durable=False)
            try:
                saved, write = timed(save)
            except ferry.MissingExtraError as error:
                print(f"  {what:<20} {suffix:<15} {str(error).replace(chr(10), '; ')}")
                continue
            result, read = timed(partial(ferry.load, path))
            good = same(content, result)
            verdict = paint("✓ same bits", "32") if good else paint("✗ differs", "31")
            times = f"{write * 1e3:9,.2f} ms {read * 1e3:9,.2f} ms"
            print(f"  {what:<20} {suffix:<15} {saved.nbytes:>9,} B {times}   {verdict}")
            if not good:
                raise SystemExit(1)

    heading("Weights of a quarter of the size, and what that costs")
    saved = ferry.save(
        weights(), folder / "small.safetensors", quantize={"kind": "int8", "axis": 0}
    )
    worst = max(report.relative_error for report in saved.quantized.values())
    print(f"  int8 by channel: {saved.nbytes:,} B, errors up to {worst:.2%} of the largest weight")
    with ferry.open(folder / "small.safetensors") as bundle:
        assert isinstance(bundle, ferry.Bundle)
        info = bundle.info["layers/0/attention"]
        print(f"  {info.name}: {info.dtype} {list(info.shape)}, stored as {info.quantized}")


def training_data(rows: int = 100_000) -> dict[str, Any]:
    """Columns of training data for a translation model."""
    generator = np.random.default_rng(7)
    splits = np.concatenate([[0], np.cumsum(generator.integers(5, 25, rows))])
    texts = [b"sentence number %d" % row for row in range(rows)]
    return {
        "id": np.arange(rows),
        "tokens": ferry.RaggedTensor(generator.integers(0, 32_000, splits[-1]), (splits,)),
        "embedding": generator.standard_normal((rows, 16), dtype=np.float32),
        "text": np.array(texts, dtype=object),
        "weight": generator.random(rows, np.float32),
    }


def show_records(path: Path) -> None:
    """A round trip of a dataset through TFRecords; then a damaged file."""
    data = training_data()
    rows = len(data["id"])
    heading(f"{rows:,} training examples into TFRecords and back, both checksums on")
    for suffix in ("", ".gz", ".zst"):
        name = f"{path}{suffix}"
        written = timed(partial(write_records, name, data))[1]
        batches, read = timed(partial(read_records, name))
        good = all(same_column(data[key], [batch[key] for batch in batches]) for key in data)
        verdict = paint("✓ same values", "32") if good else paint("✗ differs", "31")
        size = Path(name).stat().st_size
        rates = f"{rows / written / 1e6:6.2f} M/s written {rows / read / 1e6:6.2f} M/s read"
        print(f"  {Path(name).name:<22} {size:>12,} B {rates}   {verdict}")
        if not good:
            raise SystemExit(1)

    heading("A damaged file gives every whole record back, and says what was lost")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content[:-1000])
    try:
        for _ in ferry.open(path, raw=True):
            pass
    except ferry.FormatError as error:
        print("  " + str(error).replace(f"{path.parent}/", "").replace("\n", "\n  "))
    with ferry.open(path, raw=True, on_error="skip") as records:
        assert isinstance(records, ferry.Rows)
        print(f"  on_error='skip': {sum(1 for _ in records):,} of {rows:,} records")
        for damage in records.damages:
            print(f"    byte {damage.offset:,}: {damage.problem}")


def write_records(path: str, data: dict[str, Any]) -> None:
    with ferry.writer(path) as out:
        out.write_batch(data)


def read_records(path: str) -> list[Any]:
    with ferry.open(path) as records:
        assert isinstance(records, ferry.Rows)
        return list(records.batches(4096))


def same_column(column: Any, parts: list[Any]) -> bool:
    """Whether the batches of a column, joined, equal the column."""
    if isinstance(column, ferry.RaggedTensor):
        values = np.concatenate([part.flat_values for part in parts])
        return same(column.flat_values, values)
    return same(column, np.concatenate(parts))


def main() -> None:
    value = predictions()
    heading("A translation model's predictions")
    for name, part in value.items():
        describe(name, part)

    heading(f"{'To bytes and back':<37} {'size':>12} {'write':>12} {'read':>12}")
    logits, encoder = value["logits"], value["encoder"]
    show("logits", logits, format="tensorproto")
    show("logits", logits, format="raw", dtype="float32", shape=(3, 8, -1))
    show("logits", logits, format="json")
    show("encoder (bfloat16)", encoder, format="tensorproto")
    show("text (strings)", value["text"], format="tensorproto")
    show("everything, nested", value, format="structure")
    show("everything, nested", value, format="json")

    heading("The bytes are TensorFlow's, and need no TensorFlow")
    data = tfio.serialize_tensor([1.5, -2.0])
    print(f"  tfio.serialize_tensor([1.5, -2.0])  {data.hex(' ')}")
    print(f"  tfio.parse_tensor(...)              {tfio.parse_tensor(data)!r}, no dtype asked")
    print(f"  ferry.struct_format(...)            {ferry.struct_format(tfio.parse_tensor(data))!r}")
    imported = sorted({"tensorflow", "torch", "jax"} & set(sys.modules))
    print(f"  frameworks imported                 {', '.join(imported) or 'none'}")

    with tempfile.TemporaryDirectory() as folder:
        show_files(Path(folder), value)
        show_records(Path(folder) / "train.tfrecord")
    print()


if __name__ == "__main__":
    main()
