"""How long does it take to see what is in a SavedModel, beside TensorFlow's saved_model_cli?

A module with two signatures, and MobileNetV2 as Keras exports it; whole processes from start to
end, compiled before, taking turns. The signatures that are printed as JSON are compared with those
that TensorFlow parses before anything is timed. The last rows are of a process that runs already.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import keras
import tensorflow as tf
from measure import Report, best, duration
from tensorflow.python.saved_model import loader_impl

import tensorferry as ferry
from tensorferry import dtypes

ROUNDS = 5
TIMES = 3  # as many runs of ours for one of theirs, which takes far longer


def save_module(path: str) -> None:
    module = tf.Module()
    module.kernel = tf.Variable(tf.ones((4, 3)))
    floats, texts = tf.TensorSpec([None, 4], tf.float32), tf.TensorSpec([None], tf.string)
    module.serve = tf.function(lambda x: {"y": x @ module.kernel}, input_signature=[floats])
    module.read = tf.function(
        lambda path: {"bytes": tf.map_fn(tf.io.read_file, path)}, input_signature=[texts]
    )
    signatures = {"serving_default": module.serve, "read": module.read}
    tf.saved_model.save(module, path, signatures=signatures)


def expected(path: str) -> list[dict[str, Any]]:
    """The signatures, as TensorFlow parses them."""

    def plain(infos: Any) -> dict[str, Any]:
        return {
            name: (
                dtypes.BY_ENUM[info.dtype].name if info.dtype else None,
                None
                if info.tensor_shape.unknown_rank
                else [None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim],
            )
            for name, info in infos.items()
        }

    return [
        {
            name: (plain(signature.inputs), plain(signature.outputs))
            for name, signature in graph.signature_def.items()
        }
        for graph in loader_impl.parse_saved_model(path).meta_graphs
    ]


def ours(document: str) -> list[dict[str, Any]]:
    """The signatures, as `ferry info --json` prints them."""

    def plain(arguments: Any) -> dict[str, Any]:
        return {argument["name"]: (argument["dtype"], argument["shape"]) for argument in arguments}

    (found,) = json.loads(document)["files"]
    return [
        {s["name"]: (plain(s["inputs"]), plain(s["outputs"])) for s in graph["signatures"]}
        for graph in found["model"]["graphs"]
    ]


def time_processes(
    processes: dict[str, list[str]], environment: dict[str, str]
) -> dict[str, float]:
    times = dict.fromkeys(processes, float("inf"))
    for _ in range(ROUNDS):
        for name, command in processes.items():
            for _ in range(1 if name == "saved_model_cli show --all" else TIMES):
                start = time.perf_counter()
                subprocess.run(
                    command,
                    check=True,
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                times[name] = min(times[name], time.perf_counter() - start)
    return times


def main() -> None:
    report = Report("What is in a SavedModel: the shortest of several runs, taking turns")
    with tempfile.TemporaryDirectory() as folder:
        # As it is installed: compiled once, not in every process.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = f"{folder}/bytecode"
        save_module(f"{folder}/module")
        keras.applications.MobileNetV2(weights=None).export(f"{folder}/mobilenet", verbose=False)
        for name in ("module", "mobilenet"):
            path = f"{folder}/{name}"
            command = [str(Path(sys.executable).with_name("ferry")), "info", path]
            shown = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True)
            if ours(shown.stdout) != expected(path):
                raise SystemExit(f"{name}: the signatures are not TensorFlow's")
            code = f"import tensorferry; tensorferry.inspect({path!r})"
            theirs = str(Path(sys.executable).with_name("saved_model_cli"))
            processes = {
                "python -c pass": [sys.executable, "-c", "pass"],
                "ferry info": command,
                "tensorferry.inspect": [sys.executable, "-c", code],
                "saved_model_cli show --all": [theirs, "show", "--dir", path, "--all"],
            }
            times = time_processes(processes, environment)
            running: dict[str, Callable[[], Any]] = {
                "tensorferry.inspect": partial(ferry.inspect, path),
                "TensorFlow's parser alone": partial(loader_impl.parse_saved_model, path),
            }
            inside = best(running)
            # What nobody can do without: a start of Python, and one parse of the message.
            least = times["python -c pass"] + inside["TensorFlow's parser alone"]
            times["python -c pass, and TensorFlow's parser alone"] = least
            for work, own, found in (
                (name, "ferry info", times),
                (f"{name}, no start-up", "tensorferry.inspect", inside),
            ):
                for by, seconds in found.items():
                    ratio = seconds / found[own]  # of the other's time to ours
                    report.add(model=work, by=by, time=duration(seconds), ratio=ratio)
            size = sum(file.stat().st_size for file in Path(path).glob("saved_model.pb"))
            report.notes.append(f"{name}: a graph of {size / 1000:,.0f} kB")
    report.notes.append("TensorFlow's parser copies the message; it checks no node, op or variable")
    report.finish("savedmodel")


if __name__ == "__main__":
    main()
