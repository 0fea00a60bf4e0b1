"""A real browser, and pages that are served to it."""

from __future__ import annotations

import os
import shutil
import time
import warnings

import numpy as np
import pytest

import tensorferry as ferry

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PATIENCE = 180
"""Seconds until a test gives up waiting for the page: only a page that hangs takes as long."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def find_browser():
    """The path of a browser that is installed."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


@pytest.fixture(scope="session")
def chromium():
    """Debian's Chromium, driven by playwright; without it, the tests of the page are skipped."""
    path = os.environ.get("FERRY_BROWSER") or find_browser()
    if path is None:
        text = "NO BROWSER: the page is not tested. apt-get install chromium"
        warnings.warn(text, stacklevel=1)
        pytest.skip(text)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


class Page:
    """A page of some files in the browser, with everything that went wrong in it."""

    def __init__(self, chromium, view, **settings):
        self.view = view
        self.errors = []
        self.requests = []
        self.context = chromium.new_context(
            **{"viewport": {"width": 1280, "height": 860}} | settings
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE * 1000)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._heard)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda dialog: self.errors.append(f"dialog {dialog.message}"))

    def _heard(self, message):
        # A question that is refused is told by the browser, too; the page shows the reason.
        if message.type == "error" and "422" not in message.text:
            self.errors.append(message.text)

    def go(self, address="#/"):
        """Opens an address, and waits until it is shown."""
        self.page.goto("about:blank")
        self.page.goto(self.view.url + address)
        self.settled()
        return self.page

    def settled(self):
        """Waits until what was asked for is there: by selectors, as the page allows no eval."""
        self.page.wait_for_selector("main[data-ready]")
        self.page.wait_for_selector("main .waiting", state="detached")

    def until(self, holds):
        """Waits until something holds, however slow the machine is; gives what it is."""
        end = time.monotonic() + PATIENCE
        while not (found := holds()):
            assert time.monotonic() < end, "the page does not get there"
            self.page.wait_for_timeout(30)
        return found

    @property
    def address(self):
        """What the address says behind the token."""
        return self.page.evaluate("() => location.hash")

    @property
    def program(self):
        """What "copy as Python" gives."""
        return self.page.evaluate("() => document.body.dataset.python")

    def close(self):
        self.context.close()


@pytest.fixture
def show(chromium):
    """Serves files, and opens their page; nothing may go wrong in it, and nobody else is asked."""
    opened = []

    def open_page(*paths, address="#/", **settings):
        page = Page(chromium, ferry.view(*paths, browser=False), **settings)
        opened.append(page)
        page.go(address)
        return page

    yield open_page
    for page in opened:
        page.close()
        page.view.close()
        assert page.errors == []
        assert not [url for url in page.requests if not url.startswith((page.view.url, "data:"))]


@pytest.fixture(scope="session")
def weights(tmp_path_factory):
    """Weights of a small model, with what is remarkable."""
    generator = np.random.default_rng(3)
    tensors = {
        f"layers.{n}.{part}.weight": generator.standard_normal((32, 48)).astype(np.float32)
        for n in range(6)
        for part in ("query", "key")
    }
    bad = generator.standard_normal((40, 30)).astype(np.float32)
    bad[17, 3] = np.nan
    tensors |= {
        "bad": bad,
        "dead": np.zeros((16, 16), np.float32),
        "bias": np.linspace(-1, 1, 3000),
        "conv": generator.standard_normal((3, 3, 4, 8)).astype(np.float32),
        "photo": generator.integers(0, 255, (40, 60, 3), dtype=np.uint8),
        "cube": generator.standard_normal((5, 20, 30)).astype(np.float32),
        "large": generator.integers(-(2**62), 2**62, (6, 5)),
        "words": np.array([b"alpha", "größe".encode(), b"\xff\x00"], object),
        "ragged": ferry.RaggedTensor.from_rows([[1, 2], [], [3]]),
        "sparse": ferry.SparseTensor(
            np.array([[0, 1], [4, 2]]), np.array([1.5, -2.0]), np.array([9, 9])
        ),
        "step": np.int64(1200),
        "none": np.zeros((0, 4)),
    }
    path = tmp_path_factory.mktemp("weights") / "weights.safetensors"
    ferry.save(tensors, path, metadata={"author": "a friend"})
    return path, tensors
