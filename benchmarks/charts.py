"""Draws the charts of README and docs/performance.md: python benchmarks/charts.py.

Every number is a ratio in a table of docs/performance.md, which a benchmark measured and wrote. The
charts are SVG files in docs/images, readable on light and dark pages. The list of what is slower,
with which the page opens, is made of the same tables. The tests hold that all of it is up to date.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from html import escape
from math import log10
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/performance.md"
IMAGES = ROOT / "docs/images"

# What the list of slower jobs calls tables whose mark says little.
TITLES = {"tensorproto": "a tensor to bytes", "savedmodel": "inspecting a SavedModel"}
# Differences below this are noise.
NOISE = 0.95
WIDTH, ROW, RIGHT = 860, 30, 90
LABEL, LETTER = 60, 7.6  # the most letters of a label, and the width of one
STYLE = """
text { font: 14px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2937 }
.title { font-weight: 600 } .small { font-size: 12px; fill: #57606a }
.page { fill: #ffffff } .bar { fill: #0f766e } .slow { fill: #b45309 }
line { stroke: #8c959f; stroke-width: 1 }
@media (prefers-color-scheme: dark) {
  .page { fill: #0d1117 } text { fill: #e6edf3 } .small { fill: #9da7b3 }
  .bar { fill: #2dd4bf } .slow { fill: #f59e0b }
}"""


@dataclass(frozen=True)
class Bar:
    """A peer that takes `ratio` times as long as tensorferry, or a quantity with its unit."""

    label: str
    ratio: float
    unit: str = ""


@dataclass(frozen=True)
class Wanted:
    """A cell of a table: the ratio in `column` of the row that starts with `work` and `by`."""

    table: str
    work: str
    by: str
    label: str
    column: str = "ratio"
    # The row of ours that the peer is compared with; by default the one with ratio 1.
    against: str = ""


README = (
    Wanted("tensorproto", "64 floats", "TensorFlow", "serialize a small tensor", "write_ratio"),
    Wanted("tensorproto", "64 floats", "TensorFlow", "parse a small tensor", "read_ratio"),
    Wanted(
        "tfrecord",
        "file to columns",
        "tf.data + parse_example, AUTOTUNE",
        "read TFRecords as columns",
    ),
    Wanted("tfrecord", "records to file GZIP", "tf.io.TFRecordWriter", "write gzip TFRecords"),
    Wanted(
        "checkpoint",
        "read 1 GB",
        "TensorFlow, verified",
        "read a checkpoint, checksums verified",
        against="tensorferry, verified",
    ),
    Wanted("savedmodel", "mobilenet", "saved_model_cli show --all", "inspect a SavedModel"),
)

# Charts of the jobs that bench_everything.py measures, by words in their names.
GROUPS = {
    "rows": ("Rows one by one: time relative to tensorferry", "^rows|rows, one by one"),
    "tables": ("Tables: time relative to tensorferry", "Parquet|CSV|Arrow"),
    "frameworks": ("Tensors of frameworks: time relative to tensorferry", "torch|tf\\.|Eager"),
}


def tables() -> dict[str, list[dict[str, str]]]:
    """The tables of the page by their marks."""
    found = {}
    marks = r"<!-- (\w+) -->\n(.*?)<!-- (?:end|/\1) -->"
    for name, text in re.findall(marks, PAGE.read_text(), re.DOTALL):
        lines = [line for line in text.splitlines() if line.startswith("|")]
        if not lines:
            continue
        head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        found[name] = [dict(zip(head, row, strict=True)) for row in rows]
    return found


def number(text: str) -> float | None:
    """A ratio as a number; None for a cell that holds none."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def chosen(wanted: Wanted, page: dict[str, list[dict[str, str]]]) -> Bar:
    """The bar of one cell."""
    rows = {(row[next(iter(row))], row["by"]): row for row in page[wanted.table]}
    ratio = number(rows[wanted.work, wanted.by][wanted.column])
    base = number(rows[wanted.work, wanted.against][wanted.column]) if wanted.against else 1.0
    if not ratio or not base:
        raise SystemExit(f"{wanted.table}: {wanted.work}, {wanted.by} has no ratio")
    return Bar(wanted.label, ratio / base)


def whole(rows: list[dict[str, str]], column: str) -> list[Bar]:
    """A bar for every peer of a table."""
    first = next(iter(rows[0]))
    bars = []
    for row in rows:
        ratio = number(row.get(column, ""))
        if ratio and not row.get("by", "").startswith(("tensorferry", "ferry", "the limit")):
            bars.append(Bar(f"{row[first]}: {row['by']}", ratio))
    return bars


def largest(rows: list[dict[str, str]], words: str) -> list[Bar]:
    """A bar for every peer in the jobs that match, each at the largest size that was measured."""
    bars: dict[tuple[str, str], Bar] = {}
    for size in ("small", "medium", "large"):
        for row in rows:
            ratio = number(row["ratio"])
            if ratio and row["size"].startswith(size) and re.search(words, row["job"]):
                bars[row["job"], row["by"]] = Bar(f"{row['job']}: {row['by']}", ratio)
    return list(bars.values())


def compared(rows: list[dict[str, str]], column: str) -> list[Bar]:
    """A bar for every ratio of a table without a column for who did it."""
    bars = []
    for row in rows:
        name = re.sub(r" \(.*?\)", "", next(iter(row.values())))
        ratio = ratio_of(row[column])
        if ratio and not name.startswith("ferry "):
            bars.append(Bar(name, ratio))
    return bars


def ratio_of(text: str) -> float | None:
    """A ratio, also in words: "7 times faster", "0.5 times the time"."""
    first, _, rest = text.partition(" times ")
    ratio = number(first)
    return 1 / ratio if ratio and rest == "the time" else ratio


def quantities(rows: list[dict[str, str]], column: str, unit: str) -> list[Bar]:
    """A bar for every row of a table that has a quantity there, of one unit."""
    scales = {"ms": 1.0, "s": 1e3} if unit == "ms" else {unit: 1.0}
    bars = []
    for row in rows:
        name = ": ".join(list(row.values())[: 2 if "server" in row else 1])
        text, _, found = row[column].partition(" ")
        value = number(text)
        if value is not None:
            bars.append(Bar(name, value * scales[found or unit], unit))
    return bars


def drawn(title: str, bars: list[Bar]) -> str:
    """Bars beside tensorferry's 1; the scale is logarithmic where they differ a lot."""
    height = 66 + ROW * len(bars)
    labels = [bar.label if len(bar.label) < LABEL else bar.label[: LABEL - 2] + "…" for bar in bars]
    left = max(map(len, labels)) * LETTER + 16
    unit = bars[0].unit
    plain = bool(unit) or all(1 <= bar.ratio <= 100 for bar in bars)
    lengths = [bar.ratio if plain else log10(bar.ratio) for bar in bars]
    low, high = min(0.0, *lengths), max(*lengths, *([] if unit else [1.0]))
    scale = (WIDTH - left - RIGHT) / (high - low)
    zero = left - low * scale
    one = zero + scale if plain else zero
    legend = "tensorferry = 1" if plain else "tensorferry = 1, logarithmic scale"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="6"/>',
        f'<text class="title" x="12" y="22">{escape(title)}</text>',
    ]
    for place, (bar, length) in enumerate(zip(bars, lengths, strict=True)):
        y = 40 + ROW * place
        end = zero + length * scale
        kind = "bar" if unit or bar.ratio >= 1 else "slow"
        parts += [
            f'<text x="{left - 8:.1f}" y="{y + 15}" text-anchor="end">'
            f"{escape(labels[place])}</text>",
            f'<rect class="{kind}" x="{min(zero, end):.1f}" y="{y}" '
            f'width="{max(abs(end - zero), 1):.1f}" height="{ROW - 10}" rx="3"/>',
            f'<text x="{max(zero, end) + 6:.1f}" y="{y + 15}">{_shown(bar)}</text>',
        ]
    if not unit:
        parts += [
            f'<line x1="{one:.1f}" y1="34" x2="{one:.1f}" y2="{height - 22}"/>',
            f'<text class="small" x="{one:.1f}" y="{height - 8}" text-anchor="middle">'
            f"{legend}</text>",
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _shown(bar: Bar) -> str:
    digits = 0 if bar.ratio >= 10 else 1 if bar.ratio >= 1 else 2
    return f"{bar.ratio:,.{digits}f}" + (f" {bar.unit}" if bar.unit else "\u00d7")


def slower() -> str:
    """The jobs in which somebody else is faster, worst first, as a table."""
    found: dict[str, list[tuple[float, str, str]]] = {}
    for name, rows in tables().items():
        if name == "since":  # the other is an older version
            continue
        for row in rows:
            first = row[next(iter(row))]
            by = row.get("by", "others")
            if "process" in row:
                by, _, first = first.partition(", ")
            if by.startswith(("tensorferry", "ferry", "raw writev", "the limit")) or by == "copy":
                continue  # ours, and limits of the machine
            for column in ("ratio", "write_ratio", "read_ratio", "to_ferry"):
                ratio = number(row.get(column, ""))
                if ratio and ratio < NOISE:
                    doing = {"write_ratio": "writing ", "read_ratio": "reading "}.get(column, "")
                    job = (
                        f"{TITLES.get(name, name)}: {doing}{first}"
                        if name != "everything"
                        else first
                    )
                    size = row.get("size", "").partition(":")[0] if "job" in row else ""
                    found.setdefault(job, []).append((ratio, by, size))
    lines = ["| job | sizes | who is faster | they take, of our time |", "|---|---|---|---:|"]
    for job, cases in sorted(found.items(), key=lambda one: min(one[1])):
        sizes = [
            size for size in ("small", "medium", "large") if size in {case[2] for case in cases}
        ]
        peers = dict.fromkeys(by for _, by, _ in sorted(cases))
        low, high = min(cases)[0], max(cases)[0]
        share = f"{low:.0%}" + (f" to {high:.0%}" if f"{low:.0%}" != f"{high:.0%}" else "")
        lines.append(f"| {job} | {', '.join(sizes)} | {'; '.join(peers)} | {share} |")
    return "\n".join(lines) + "\n"


def opened(page: str) -> str:
    """The page with the list of what is slower as it is now."""
    return re.sub(
        r"(<!-- what is slower -->\n).*?(<!-- end of it -->)",
        lambda marks: marks[1] + slower() + marks[2],
        page,
        flags=re.DOTALL,
    )


def charts() -> dict[str, str]:
    """Every chart, by the name of its file."""
    page = tables()
    made = {
        "ratios.svg": drawn(
            "How many times faster than TensorFlow", [chosen(one, page) for one in README]
        )
    }
    titles = {
        "tfrecord": ("TFRecords: time relative to tensorferry", "ratio"),
        "files": ("Files: time relative to tensorferry", "ratio"),
        "checkpoint": ("Checkpoints: time relative to tensorferry", "ratio"),
        "savedmodel": ("Looking into models: time relative to tensorferry", "ratio"),
        "convert": ("Conversion: time relative to tensorferry", "ratio"),
        "feeds": ("Training loops: time relative to tensorferry", "ratio"),
    }
    for name, (title, column) in titles.items():
        made[f"{name}.svg"] = drawn(title, whole(page[name], column))
    for name, (title, words) in GROUPS.items():
        made[f"{name}.svg"] = drawn(title, largest(page["everything"], words))
    written = [
        Bar(f"{row['size']}: {row['by']}", ratio)
        for row in page["tensorproto"]
        if row["by"] != "tensorferry" and (ratio := number(row["write_ratio"]))
    ]
    for name, (title, bars) in {
        "serving": (
            "Serving's messages: time of the others relative to tensorferry",
            compared(page["serving"], "ratio"),
        ),
        "ray": (
            "On a Ray cluster: time of the others relative to tensorferry",
            compared(page["ray"], "ratio"),
        ),
        "command": (
            "Other programs: time relative to the ferry command that does the same",
            compared(page["command"], "to_ferry"),
        ),
        "import": ("A process that starts and ends", quantities(page["import"], "time", "ms")),
        "memory": (
            "Memory beyond the start, while a TFRecord file is read in batches",
            quantities(page["memory"], "memory", "MB"),
        ),
        "view": (
            "From the start of the process to the first screen",
            quantities(page["view"], "first screen, s", "s"),
        ),
    }.items():
        made[f"{name}.svg"] = drawn(title, bars)
    made["tensorproto.svg"] = drawn("A tensor to bytes: time relative to tensorferry", written)
    return made


def main() -> int:
    """Writes the charts, and the list of what is slower."""
    IMAGES.mkdir(exist_ok=True)
    for name, text in charts().items():
        (IMAGES / name).write_text(text)
    PAGE.write_text(opened(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
