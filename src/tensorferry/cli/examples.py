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
        "ferry cat train.parquet --where 'label in (1, 2)' --to csv",
    ),
    "count": (
        "ferry count train.tfrecord",
        "ferry count train.parquet --where 'label in (1, 2)'",
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
    "edit": (
        "ferry edit model.npz --drop encoder/bias --metadata stage=1 -o slim.npz",
        "ferry edit model.npz --rename 'encoder/*=e/*' --cast '*=float16' -o half.npz",
    ),
    "stats": ("ferry stats model.npz", "ferry stats train.parquet -s label,score"),
    "schema": ("ferry schema train.tfrecord", "ferry schema train.parquet --as arrow"),
    "repair": (
        "ferry repair damaged.tfrecord good.tfrecord",
        "ferry repair damaged.tfrecord -o good.tfrecord --force",
    ),
    "index": ("ferry index train.tfrecord", "ferry index 'train-*.tfrecord'"),
    "slice": (
        "ferry slice train.tfrecord last.tfrecord -5:",
        "ferry slice train.parquet ones.parquet --where 'label == 1'",
    ),
    "sample": (
        "ferry sample train.tfrecord some.tfrecord -n 5",
        "ferry sample train.parquet tenth.parquet --ratio 0.1 --seed 7",
    ),
    "shuffle": (
        "ferry shuffle train.tfrecord mixed.tfrecord",
        "ferry shuffle train.parquet mixed.parquet --seed 7",
    ),
    "split": (
        "ferry split train.parquet fit.parquet test.parquet --ratio 0.9,0.1 --by id",
        "ferry split train.tfrecord part.tfrecord --shards 4",
    ),
    "merge": (
        "ferry merge train-1.tfrecord train-2.tfrecord whole.tfrecord",
        "ferry merge 'train-*.tfrecord' all.tfrecord.gz",
    ),
    "sql": (
        """ferry sql 'select label, count(*) from "train.parquet" group by label'""",
        """ferry sql 'select max(score) from "train.tfrecord" where label=1' --to csv""",
    ),
    "bench": ("ferry bench model.npz --runs 1", "ferry bench --shape 100,10 --runs 1"),
    "formats": ("ferry formats", "ferry formats --json"),
    "help": ("ferry help convert", "ferry help"),
    "completion": ('eval "$(ferry completion bash)"', "ferry completion fish"),
}
