"""Trains a translation model, then saves and loads its predictions and itself in every format.

`python examples/translation/translation.py [FOLDER]` runs it. Another process, without
TensorFlow, then reads the files: `read_back.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import tensorflow as tf
from models import MODELS
from recipes import RECIPES
from train import train

import tensorferry as ferry

SUFFIXES = ("safetensors", "npz", "arrow", "structure", "ckpt")


def predict(service: Any, sentences: list[str]) -> dict[str, Any]:
    """The translations of sentences: ragged ids, scores, attention, text."""
    found = service.translate(tf.constant(sentences))
    ids = tf.RaggedTensor.from_tensor(found["ids"], lengths=found["lengths"])
    return {
        "source": tf.constant(sentences),
        "ids": tf.cast(ids, tf.int64),  # the only integers that an Example has
        "scores": found["scores"],
        "attention": found["attention"],
        "text": found["text"],
    }


def save_predictions(predictions: dict[str, Any], folder: Path) -> None:
    """Saves the predictions in every format, tensor by tensor where a file holds only one."""
    for suffix in SUFFIXES:
        ferry.save(predictions, folder / f"predictions.{suffix}", metadata={"model": "en-de"})
    for name in ("scores", "attention"):
        ferry.save(predictions[name], folder / f"{name}.npy")
        ferry.save(predictions[name], folder / f"{name}.pb")  # a TensorProto
    with ferry.writer(folder / "predictions.tfrecord") as out:
        out.write_batch(predictions)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="translation-"))
    folder.mkdir(parents=True, exist_ok=True)
    print("training ...", flush=True)
    start = time.perf_counter()
    service, sentences, expected = train()
    predictions = predict(service, sentences)
    right = sum(map(str.__eq__, [text.decode() for text in predictions["text"].numpy()], expected))
    took = time.perf_counter() - start
    print(f"trained in {took:.0f} s; {right} of {len(expected)} new sentences are right, such as")
    print(f"  {sentences[0]} -> {predictions['text'][0].numpy().decode()}")

    save_predictions(predictions, folder)
    print("\nits predictions, read where there is no TensorFlow")
    command = [sys.executable, str(Path(__file__).with_name("read_back.py")), str(folder)]
    subprocess.run(command, check=True)

    for title, recipes in (("recipes for tensors", RECIPES), ("the model itself", MODELS)):
        print(f"\n{title}")
        for name, recipe in recipes.items():
            recipe(folder, service, predictions)
            print(f"  ✓ {name}", flush=True)
    print(f"\neverything is in {folder}")


if __name__ == "__main__":
    main()
