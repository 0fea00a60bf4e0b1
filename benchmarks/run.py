"""Runs every benchmark, or those named: python benchmarks/run.py [NAME ...].

With --docs, the tables go into docs/performance.md, between the marks that name them; some have no
place there. `since` has to be told what it compares with, and runs only by itself.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from measure import RESULTS, markdown

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs/performance.md"


def main() -> int:
    names = [name for name in sys.argv[1:] if name != "--docs"]
    known = {path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py")}
    names = names or sorted(known - {"since"})
    for name in names:
        code = subprocess.run([sys.executable, str(HERE / f"bench_{name}.py")]).returncode
        if code:
            return code
        if "--docs" in sys.argv and f"<!-- {name} -->" in PAGE.read_text():
            publish(name)
    return 0


def publish(name: str) -> None:
    result = json.loads((RESULTS / f"{name}.json").read_text())
    machine = ", ".join(f"{key} {value}" for key, value in result["machine"].items())
    notes = "\n".join(f"- {note}" for note in result["notes"])
    table = markdown(result["rows"])
    question = result["question"] + ("" if result["question"].endswith("?") else ".")
    text = f"{question}\n\n{table}\n\n{notes}\n\nMeasured with {machine}.\n"
    marks = rf"(<!-- {name} -->\n).*?(<!-- (?:end|/{name}) -->)"
    page, found = re.subn(marks, lambda m: m[1] + text + m[2], PAGE.read_text(), flags=re.DOTALL)
    if not found:
        raise SystemExit(f"{PAGE} has no marks for {name}")
    PAGE.write_text(page)


if __name__ == "__main__":
    sys.exit(main())
