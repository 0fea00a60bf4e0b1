"""How soon does a page show large files, and how much memory does its server take?

Each server is a process of its own, and Chromium shows its page. A time runs from the start of the
process to the moment when names or rows are on the screen; it has the start of Python and the
imports in it. An empty page, served by Python's own server, says how much of it nobody can avoid.
Netron, where it is installed, serves the same small file, which it can open. Its page cannot be
asked whether it is done, so both are timed until theirs has loaded. Servers take turns, so that a
slow moment of the machine hits all of them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measure import Report

import tensorferry as ferry

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
TENSORS, SHAPE = 200, (3200, 4096)
ROWS = 1_000_000
ROUNDS = 5


def make_weights(path: Path, count: int = TENSORS) -> None:
    """A safetensors file of zeros, of which the disk holds the header only."""
    size = SHAPE[0] * SHAPE[1] * 4
    header = {
        f"layers.{n}.weight": {
            "dtype": "F32",
            "shape": SHAPE,
            "data_offsets": [n * size, (n + 1) * size],
        }
        for n in range(count)
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + count * size)


def make_rows(path: Path) -> None:
    """A TFRecord file of a million rows."""
    with ferry.writer(path, durable=False) as writer:
        for start in range(0, ROWS, 100_000):
            numbers = np.arange(start, start + 100_000)
            texts = np.array([b"row %d" % number for number in numbers], object)
            writer.write_batch(
                {"id": numbers, "half": (numbers / 2).astype(np.float32), "text": texts}
            )


def memory_of(process: subprocess.Popen[str]) -> float:
    """The most memory that a process has had, in megabytes, mapped files included."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def serve_nothing(path: Path) -> tuple[subprocess.Popen[str], str]:
    program = (
        "import http.server\n"
        "class Handler(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200)\n"
        "        self.end_headers()\n"
        "        self.wfile.write(b'<!doctype html><p>nothing')\n"
        "    def log_message(self, *given): pass\n"
        "server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)\n"
        "print(f'http://127.0.0.1:{server.server_port}/', flush=True)\n"
        "server.serve_forever()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def serve_ferry(path: Path) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "tensorferry", "view", "--no-browser", "--json", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["url"]


def serve_netron(path: Path) -> tuple[subprocess.Popen[str], str]:
    program = (
        "import contextlib, io, netron, sys, time\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    host, port = netron.start(sys.argv[1], ('127.0.0.1', None), browse=False)\n"
        "print(f'http://{host}:{port}/', flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-c", program, str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def measure(
    browser: Any,
    serve: Callable[[Path], tuple[subprocess.Popen[str], str]],
    path: Path,
    first: str | None,
    then: Callable[[Any], None] | None = None,
) -> tuple[float, float, float]:
    """Seconds to the first screen, seconds of what follows, and the most megabytes."""
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    page = context.new_page()
    start = time.perf_counter()
    process, url = serve(path)
    try:
        page.goto(url)
        if first is not None:
            page.wait_for_selector(first, timeout=60_000)
        shown = time.perf_counter() - start
        start = time.perf_counter()
        if then is not None:
            then(page)
        return shown, time.perf_counter() - start, memory_of(process)
    finally:
        context.close()
        process.terminate()
        process.wait()


def look_at_tensors(page: Any) -> None:
    """Opens two tensors, with heat map and distribution."""
    for number in (17, 150):
        page.evaluate("hash => { location.hash = hash; }", f"#/0/tensor/~{number}")
        page.wait_for_selector(f"main h1:has-text('layers.{number}.weight')")
        page.wait_for_selector(".legend span:has-text('every'), .legend span:has-text('a cell is')")
        page.wait_for_selector("text=A sample")


def jump_through_rows(page: Any) -> None:
    """Goes to ten places far apart, and checks what is there."""
    for row in range(50_000, ROWS, 100_000):
        page.get_by_label("Go to row").fill(str(row))
        page.get_by_label("Go to row").press("Enter")
        page.wait_for_selector(f".list .row.chosen:has-text('row {row}')")


def best(runs: list[tuple[float, float, float]]) -> tuple[float, float, float]:
    """The shortest times and the most memory of some runs."""
    return min(r[0] for r in runs), min(r[1] for r in runs), max(r[2] for r in runs)


def main() -> None:
    from playwright.sync_api import sync_playwright

    report = Report(str(__doc__).splitlines()[0])
    path = shutil.which("chromium")
    if path is None:
        raise SystemExit("no chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        weights, rows = Path(folder) / "weights.safetensors", Path(folder) / "rows.tfrecord"
        small = Path(folder) / "small.safetensors"
        make_weights(weights)
        make_weights(small, 4)
        make_rows(rows)
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        cases: list[tuple[str, str, Any, Path, str | None, Any]] = [
            ("10 GB of weights, then two tensors", "ferry", serve_ferry, weights,
             ".list .row:has-text('layers.3.weight')", look_at_tensors),
            ("1,000,000 rows, then ten jumps", "ferry", serve_ferry, rows,
             ".list .row:has-text('row 3')", jump_through_rows),
            ("210 MB of weights, page loaded", "ferry", serve_ferry, small, None, None),
            ("nothing", "an empty page", serve_nothing, small, "p", None),
        ]  # fmt: skip
        try:
            import netron  # noqa: F401

            cases.append(
                (
                    "210 MB of weights, page loaded",
                    "netron",
                    serve_netron,
                    small,
                    None,
                    None,
                )
            )
        except ImportError:
            report.notes.append("netron is not installed: pip install netron")
        runs: list[list[tuple[float, float, float]]] = [[] for _ in cases]
        for _ in range(ROUNDS):
            for kept, (_, _, serve, file, first, then) in zip(runs, cases, strict=True):
                kept.append(measure(browser, serve, file, first, then))
        for kept, (case, server, _, _, _, then) in zip(runs, cases, strict=True):
            shown, more, memory = best(kept)
            report.add(
                **{
                    "file": case,
                    "server": server,
                    "first screen, s": round(shown, 2),
                    "then, s": round(more, 2) if then is not None else "",
                    "server's memory, MB": round(memory),
                }
            )
        browser.close()
    report.notes.append(f"load of the machine meanwhile: {os.getloadavg()[0]:.1f}")
    report.notes.append("not measured: remote files, compressed files, other browsers")
    report.finish("view")


if __name__ == "__main__":
    main()
