"""The golden screens: every command on a terminal of 80 and of 200 columns, on real files.

    PYTHONPATH=tests python -m cli.test_golden_screens

writes them anew into tests/cli/screens; whoever does that looks at them. The files are those of the
corpus, which is no part of this repository, and copies of them that were changed.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from commands import run_on_terminal
from conftest import CORPUS

import tensorferry as ferry

needs_corpus = pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")

FOLDER = Path(__file__).parent / "screens"
WIDTHS = (80, 200)

CHECKPOINT = "tensorflow/ckpt_mnist_46900"
TAXI = "tfx/csv_example_gen/Split-train/data_tfrecord-00000-of-00012.gz"
MODEL = "serving/saved_model_half_plus_two_tf2_cpu/00000123"
TIMES = "neighbours/decimals.parquet"

SCREENS: dict[str, list[str]] = {
    "info": ["info", CHECKPOINT, MODEL, TIMES],
    "ls": ["ls", CHECKPOINT],
    "tree": ["tree", MODEL],
    "show": ["show", CHECKPOINT, "dense_1/bias"],
    "head": ["head", "-3", TAXI],
    "head_times": ["head", "-3", TIMES],
    "tail_images": [
        "tail",
        "-2",
        "tfds/testing/test_data/fake_examples/dmlab/dmlab-test.tfrecord*",
    ],
    "stats": ["stats", TAXI],
    "stats_weights": ["stats", CHECKPOINT],
    "verify": ["verify", TIMES, "damaged.tfrecord"],
    "damaged": ["head", "-n", "2", "damaged.tfrecord"],
    "diff": ["diff", CHECKPOINT, "changed.safetensors"],
    "hash": ["hash", TIMES, "-s", "PatId"],
    "schema": ["schema", TAXI],
    "formats": ["formats"],
    "convert": ["convert", CHECKPOINT, "written.npz", "--dry-run"],
    "repair": ["repair", "damaged.tfrecord", "good.tfrecord", "--force"],
    "stranger": ["info", "tensorflow/ckpt_profiler/ckpt.meta"],
    "help": ["help", "diff"],
    "count": ["count", TAXI, TIMES],
    "markdown": ["head", "-3", TIMES, "--to", "markdown", "-s", "PatId,EventDate"],
    "slice": ["slice", TIMES, "slice.parquet", "-2:", "--force"],
    "sample": ["sample", TAXI, "sample.tfrecord", "-n", "5", "--force"],
    "shuffle": ["shuffle", TIMES, "mixed.parquet", "--force"],
    "split": ["split", TAXI, "fit.tfrecord", "test.tfrecord", "--ratio", "0.9,0.1", "--force"],
    "merge": ["merge", TIMES, TIMES, "merged.parquet", "--force"],
    "edit": ["edit", CHECKPOINT, "-o", "slim.safetensors", "--drop", "*Adam*", "--force"],
    "sql": [
        "sql",
        f'select payment_type, count(*) as n, avg(fare) from "{TAXI}" group by 1 order by 2, 1',
    ],
    "sql_refused": ["sql", "select * from read_csv('/etc/hostname')"],
    "edit_unknown": ["edit", CHECKPOINT, "-o", "slim.npz", "--drop", "dense_1/kernl"],
}
"""The arguments of each screen; paths are below a folder that `prepare` makes."""


def prepare(folder: Path) -> None:
    """Fills a folder with links to the corpus, and with files that were changed."""
    for entry in CORPUS.iterdir():
        (folder / entry.name).symlink_to(entry)
    tensors = dict(ferry.load(CORPUS / CHECKPOINT))
    changed = {name.replace("dense_1", "head"): tensor for name, tensor in tensors.items()}
    changed["conv2d/kernel"] = changed["conv2d/kernel"].copy()
    changed["conv2d/kernel"][0, 1, 0, 7] += 0.25
    changed["conv2d/bias"] = changed["conv2d/bias"].astype("float16")
    changed["dense/kernel"] = changed["dense/kernel"].T.copy()
    del changed["global_step"]
    ferry.save(changed, folder / "changed.safetensors", durable=False)
    data = bytearray((CORPUS / "tfx/mnist/data/mnist.tfrecord").read_bytes())
    data[100] ^= 1
    (folder / "damaged.tfrecord").write_bytes(data[:-10])


def draw(name: str, width: int, folder: Path) -> str:
    """A screen, as it stands on the terminal when the command has ended."""
    arguments = SCREENS[name]
    ran = run_on_terminal(*arguments, columns=width, cwd=folder, NO_COLOR="1")
    lines = [line.rstrip() for line in ran.out.split("\n")]
    text = re.sub(r"\d+(\.\d)? s$", "0.0 s", "\n".join(lines).rstrip("\n"), flags=re.MULTILINE)
    # How large a Parquet file becomes is the matter of PyArrow's version.
    text = re.sub(r"(: parquet, \d+ rows, )[\d.]+ kB", r"\g<1>1.6 kB", text)
    return f"$ ferry {' '.join(arguments)}\n{text}\n[exit code {ran.code}]\n"


def path_of(name: str, width: int) -> Path:
    """Where a screen is kept."""
    return FOLDER / f"{name}.{width}.txt"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The files of the screens."""
    folder = tmp_path_factory.mktemp("screens")
    prepare(folder)
    return folder


@needs_corpus
@pytest.mark.parametrize("name", SCREENS)
def test_screens(folder, name):
    """Every screen is the one that was looked at, at 80 and at 200 columns."""
    for width in WIDTHS:
        assert draw(name, width, folder) == path_of(name, width).read_text()


def test_no_table_is_wrapped():
    """No line of a table is wider than its terminal; errors and notes go over several lines."""
    for name in SCREENS:
        for width in WIDTHS:
            lines = path_of(name, width).read_text().splitlines()[1:]
            told = (
                "ferry: ",
                "hint: ",
                "  note: ",
                "cannot be read: ",
                "sha256:",
                "    '",
                "  damaged.",
            )
            wide = [line for line in lines if len(line) > width and not line.startswith(told)]
            assert [line for line in wide if " → " not in line] == []  # a sentence, no table


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    scratch = Path(tempfile.mkdtemp())
    prepare(scratch)
    wanted = sys.argv[1:] or list(SCREENS)
    for screen in wanted:
        for columns in WIDTHS:
            path_of(screen, columns).write_text(draw(screen, columns, scratch))
    shutil.rmtree(scratch)
