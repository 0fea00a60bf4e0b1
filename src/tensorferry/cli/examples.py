"""Examples: two lines that run, of each command; its help opens with them.

The tests run all of them, in a folder with files of these names.
"""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, str]] = {
    "info": ("ferry info model.safetensors", "ferry info 'train-*.tfrecord' --json"),
    "ls": ("ferry ls model.safetensors", "ferry ls model.npz --sort size -s 'encoder/*'"),
    "tree": ("ferry tree model.safetensors", "ferry tree model.npz other.npz"),
    "show": (
        "ferry show model.npz encoder/kernel",
        "ferry show model.npz 'encoder/kernel[0:2,:5]'",
    ),
    "view": (
        "ferry view model.npz --static page.html",
        "ferry view model.npz other.npz --static pair.html",
    ),
    "head": ("ferry head train.parquet", "ferry head -3 train.tfrecord --where 'label == 1'"),
    "tail": ("ferry tail -3 train.tfrecord", "ferry tail train.parquet -s id,label -x"),
    "cat": (
        "ferry cat train.tfrecord",
        "ferry cat train.parquet --where 'label == 1 or label == 2'",
    ),
    "verify": ("ferry verify model.safetensors", "ferry verify 'train-*.tfrecord' --duplicates"),
    "diff": (
        "ferry diff model.npz model.safetensors",
        "ferry diff train.parquet b.parquet --key id",
    ),
    "hash": ("ferry hash model.npz model.safetensors", "ferry hash train.parquet -s 'id,label'"),
    "convert": (
        "ferry convert train.tfrecord train.arrow",
        "ferry convert model.npz small.safetensors --dtype bfloat16 --verify",
    ),
    "stats": ("ferry stats model.npz", "ferry stats train.parquet -s label,score"),
    "schema": ("ferry schema train.tfrecord", "ferry schema train.parquet --as arrow"),
    "repair": (
        "ferry repair damaged.tfrecord good.tfrecord",
        "ferry repair damaged.tfrecord -o good.tfrecord --force",
    ),
    "index": ("ferry index train.tfrecord", "ferry index 'train-*.tfrecord'"),
    "split": (
        "ferry split train.tfrecord part.tfrecord --shards 4",
        "ferry split train.tfrecord small.tfrecord --records 100",
    ),
    "merge": (
        "ferry merge train-1.tfrecord train-2.tfrecord whole.tfrecord",
        "ferry merge 'train-*.tfrecord' all.tfrecord.gz",
    ),
    "slice": (
        "ferry slice train.tfrecord last.tfrecord -5:",
        "ferry slice train.tfrecord ones.tfrecord --where 'label == 1'",
    ),
    "bench": ("ferry bench model.npz --runs 1", "ferry bench --shape 100,10 --runs 1"),
    "formats": ("ferry formats", "ferry formats --json"),
    "help": ("ferry help convert", "ferry help"),
    "completion": ('eval "$(ferry completion bash)"', "ferry completion fish"),
}
