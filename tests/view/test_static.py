"""One file to send to somebody: it opens without a server, and says what is left out."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from commands import run as run_command

import tensorferry as ferry
from tensorferry.viewer import static
from tensorferry.viewer.api import Api
from tensorferry.viewer.opening import find_files


def recorded(path):
    text = path.read_text()
    return json.loads(re.search(r'id="recording">(.*?)</script>', text, re.DOTALL)[1])


@pytest.fixture
def open_file(chromium):
    """Opens a file in the browser, offline; nothing may go wrong."""
    context = chromium.new_context(viewport={"width": 1280, "height": 860}, offline=True)
    page = context.new_page()
    page.set_default_timeout(180_000)
    errors, asked = [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "console", lambda message: errors.append(message.text) if message.type == "error" else None
    )
    page.on("request", lambda request: asked.append(request.url))

    def open_page(path, address=""):
        page.goto(f"file://{path}{address}")
        page.wait_for_selector("main[data-ready]")
        return page

    yield open_page
    context.close()
    assert errors == []
    assert not [url for url in asked if not url.startswith(("file:", "data:"))]


def test_weights(weights, tmp_path, open_file):
    """Tensors, statistics and pictures are there."""
    out = tmp_path / "out.html"
    report = static.write(Api(find_files([weights[0]])), out)
    assert report.nbytes == out.stat().st_size < 2_000_000
    assert all("values of" not in line for line in report.left_out)
    page = open_file(out)
    page.wait_for_selector("text=Written")
    page.get_by_role("link", name="Statistics").click()
    page.wait_for_selector("text=2 tensors to look at")
    page.evaluate("() => { location.hash = '#/0/tensor/%3Dcube'; }")
    page.wait_for_selector("main h1:has-text('cube')")
    page.wait_for_selector(".legend span:has-text('cell')")
    assert page.get_by_text("Download npy").count() == 0


def test_rows_by_command(tmp_path, open_file):
    """`ferry view --static`: the first rows; the others are named as left out."""
    with ferry.writer(tmp_path / "x.tfrecord") as writer:
        writer.write_batch(
            {"id": np.arange(5000), "text": np.array([b"</script><b>"] * 5000, object)}
        )
    out = tmp_path / "out.html"
    ran = run_command("view", tmp_path / "x.tfrecord", "--static", out)
    assert ran.code == 0, ran.err
    assert "left out: rows" in ran.out
    page = open_file(out)
    page.wait_for_selector(".list .row:has-text('</script><b>')")
    page.get_by_role("columnheader", name=re.compile("^id")).get_by_role("button").click()
    page.wait_for_selector(".drawer >> text=5,000 rows")


def test_comparison(weights, tmp_path, open_file):
    """Two files, compared."""
    path, tensors = weights
    ferry.save({**tensors, "bias": tensors["bias"] + 1}, tmp_path / "b.safetensors")
    out = tmp_path / "out.html"
    static.write(Api(find_files([path, tmp_path / "b.safetensors"])), out)
    page = open_file(out)
    page.locator(".list .row a").first.click()
    page.wait_for_selector("main h1:has-text('bias')")


def test_bounded(tmp_path, monkeypatch):
    """A file has a size that it does not exceed, and what does not fit is told."""
    generator = np.random.default_rng(1)
    tensors = {f"t{n}": generator.standard_normal((300, 300)) for n in range(40)}
    ferry.save(tensors, tmp_path / "x.npz")
    monkeypatch.setattr(static, "LARGEST", 500_000)
    report = static.write(Api(find_files([tmp_path / "x.npz"])), tmp_path / "out.html")
    assert report.nbytes < 1_000_000
    assert re.search(r"the values of \d+ of 40 tensors", report.left_out[0])
    assert recorded(tmp_path / "out.html")["left_out"] == list(report.left_out)
