"""The page in a real browser: every screen, by clicks and keys."""

from __future__ import annotations

import re
import struct
import zlib

import numpy as np
import pytest
from conftest import CORPUS, ROOT
from savedmodels import save_module
from servers import Web

import tensorferry as ferry

NONE = "\u2013"

COLOURS = """canvas => {
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  const seen = new Set();
  for (let at = 0; at < data.length; at += 4 * 7)
    seen.add(data[at] << 16 | data[at + 1] << 8 | data[at + 2]);
  return seen.size;
}"""


def colours(page, selector="main canvas"):
    """How many colours a drawing has: an empty one has one or two."""
    return page.locator(selector).first.evaluate(COLOURS)


def width(page):
    """How wide the page is: wider than the window means that it scrolls sideways."""
    return page.evaluate("() => document.documentElement.scrollWidth")


def link(name):
    return f"#/0/tensor/%3D{name}"


def run(program):
    names = {}
    exec(program, names)
    return names


def test_weights(show, weights):
    """Tree, treemap, list, search, a tensor; what is on the screen can be copied."""
    shown = show(weights[0])
    page = shown.page
    assert "24" in page.locator("main dl.facts").inner_text()
    assert colours(page) > 5
    group = page.get_by_role("treeitem", name=re.compile("layers"))
    assert group.get_attribute("aria-expanded") == "true" or group.click() is None
    page.get_by_role("treeitem", name=re.compile(r"^(▶\s*)?3\.")).click()
    page.get_by_role("treeitem", name=re.compile("query.weight")).first.click()
    shown.settled()
    assert page.locator("main h1").inner_text().endswith("query.weight")
    page.wait_for_selector("main .legend span:has-text('each cell is one value')")
    assert colours(page) > 20
    program = page.evaluate("() => document.body.dataset.python")
    assert run(program)["tensor"].shape == (32, 48)
    page.keyboard.press("/")
    page.keyboard.type("cub")
    page.wait_for_selector("text=1 found")
    page.get_by_role("treeitem", name=re.compile("cube")).click()
    page.wait_for_selector("main h1:has-text('cube')")


def test_tree_stays(show, weights):
    """The tree stays as it was opened while one goes from tensor to tensor, by keys as well."""
    shown = show(weights[0], address=link("layers.1.key.weight"))
    page = shown.page
    page.get_by_role("treeitem", name=re.compile(r"^(▶\s*)?4\.")).click()
    page.get_by_role("treeitem", name=re.compile("query.weight")).first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("main h1:has-text('layers.1.query.weight')")
    opened = page.locator(".branch[aria-expanded=true]").all_inner_texts()
    assert len([text for text in opened if re.search(r"[14]\.", text)]) == 2
    chosen = page.locator(".branch[aria-selected=true]")
    assert "query.weight" in chosen.inner_text()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_selector("main h1:has-text('layers.1.key.weight')")


def test_long_path(show, weights, tmp_path):
    """The name of the file can be read, however many folders are before it."""
    folder = tmp_path / ("a long name of a folder " * 4) / ("and another " * 6)
    folder.mkdir(parents=True)
    path = folder / "the-weights.safetensors"
    path.write_bytes(weights[0].read_bytes())
    page = show(path, viewport={"width": 400, "height": 800}).page
    last = page.locator(".crumbs .last")
    assert last.inner_text() == "the-weights.safetensors"
    assert last.evaluate("one => one.scrollWidth <= one.clientWidth + 1")
    assert last.bounding_box()["x"] + last.bounding_box()["width"] <= 400


def test_zoom_and_link(show, weights):
    """A heat map goes down to its numbers; its link restores the window, and copies the slice."""
    path, tensors = weights
    shown = show(path, address=link("cube"))
    page = shown.page
    page.wait_for_selector("main .legend span:has-text('each cell')")
    canvas = page.locator("main canvas").first
    canvas.focus()
    for _ in range(4):
        page.keyboard.press("+")
    page.locator("input[type=range]").fill("3")

    def zoomed():
        window = re.search(r"window=([\d%C,]+)", shown.address)
        numbers = [int(part) for part in window[1].split("%2C")] if window else [0, 99, 0, 99]
        is_small = (numbers[1] - numbers[0]) * (numbers[3] - numbers[2]) < 120
        return numbers if is_small and "at=0%3A3" in shown.address else None

    first, last, left, right = shown.until(zoomed)
    program = shown.program
    assert (run(program)["part"] == tensors["cube"][3, first:last, left:right]).all()
    again = show(path, address=shown.address)
    again.until(lambda: again.program == program)
    assert again.page.locator("input[type=range]").input_value() == "3"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("words", "größe"),
        ("ragged", "[1, 2]"),
        ("sparse", "[4, 2]"),
        ("step", "1200"),
        ("none", "There are none"),
        ("conv", "Outputs 0 to 7 of 8"),
        ("bad", "[17, 3]"),
        ("photo", "Image"),
        ("bias", "3,000"),
    ],
)
def test_every_kind(show, weights, name, expected):
    """A tensor of each kind is shown as what it is."""
    page = show(weights[0], address=link(name)).page
    page.wait_for_selector(f"main >> text={expected}")


def test_first_nan(show, weights):
    """A click on where the first NaN is leads to the cell."""
    shown = show(weights[0], address=link("bad"))
    shown.page.get_by_role("button", name="[17, 3]").click()
    shown.until(lambda: re.search(r"window=1\d%2C2\d%2C0%2C1\d", shown.address))
    shown.page.wait_for_selector(".legend span:has-text('NaN is red')")


def test_statistics(show, weights):
    """What is dead or broken is on top, when sorted by that."""
    page = show(weights[0], address="#/0/statistics").page
    page.wait_for_selector("text=2 tensors to look at")
    page.get_by_role("button", name="Remarkable").click()
    rows = page.locator(".list .row")
    texts = sorted(rows.all_inner_texts(), key=lambda text: "NaN" not in text)
    assert "1 NaN" in texts[0]
    assert any("all zero" in text and "dead" in text for text in texts[:4])
    assert "sort=verdict-" in page.evaluate("() => location.hash")


def png(seed):
    """A small picture."""
    pixels = np.random.default_rng(seed).integers(0, 255, (20, 30, 3), dtype=np.uint8)
    raw = b"".join(b"\0" + row.tobytes() for row in pixels)

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", 30, 20, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    path = tmp_path_factory.mktemp("records") / "train.tfrecord"
    count = 20_000
    pictures = [png(seed) for seed in range(20)]
    with ferry.writer(path) as writer:
        writer.write_batch(
            {
                "id": np.arange(count),
                "image": np.array([pictures[n % 20] for n in range(count)], object),
                "text": np.array([f"row {n}".encode() for n in range(count)], object),
                "tokens": ferry.RaggedTensor.from_rows([list(range(n % 40)) for n in range(count)]),
            }
        )
    return path


def test_rows(show, records):
    """Scrolling anywhere, pictures, a row by its number, and links that restore the place."""
    shown = show(records)
    page = shown.page
    page.wait_for_selector(".list .row img")
    assert (
        page.locator(".list .row img").first.evaluate(
            "async image => { await image.decode(); return image.naturalWidth; }"
        )
        == 30
    )
    box = page.locator(".list")
    box.evaluate("box => { box.scrollTop = box.scrollHeight * 0.6; }")
    page.wait_for_selector(".list .row:has-text('row 120')")
    assert page.locator(".list .row").count() < 60
    page.keyboard.press("g")
    page.keyboard.type("17123")
    page.keyboard.press("Enter")
    page.wait_for_selector(".list .row.chosen:has-text('row 17123')")
    shown.until(lambda: re.search(r"row=171[12]\d", shown.address))
    asked = [url for url in shown.requests if "/api/rows" in url]
    assert len(asked) < 25


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Rows that are shown before they are counted."""
    path = tmp_path_factory.mktemp("large") / "large.tfrecord"
    with ferry.writer(path, durable=False) as writer:
        for number in range(300):
            writer.write({"id": number, "name": f"row {number}".encode(), "blob": b"x" * 60_000})
    return path


def test_rows_before_they_are_counted(show, large):
    """The first rows come with few questions; a row far behind is found once all are counted."""
    shown = show(large)
    page = shown.page
    page.wait_for_selector(".list .row:has-text('row 3')")
    asked = {url.split("?")[0] for url in shown.requests}
    assert len(asked) <= 16, sorted(asked)
    page.wait_for_selector("dl.facts >> text=300")
    page.get_by_label("Go to row").fill("290")
    page.get_by_label("Go to row").press("Enter")
    page.wait_for_selector(".list .row.chosen:has-text('row 290')")
    shown.until(lambda: "row=" in shown.address)
    shown.until(lambda: re.search(r"rows\[\d+:\d+\]", shown.program))
    shown.go("#/0/rows?row=200")
    page.wait_for_selector(".list .row:has-text('row 200')")


def test_rows_that_nobody_can_count(show, large):
    """Of a remote file, rows are shown as far as they were read, and the end is found."""
    web = Web(large.read_bytes())
    page = show(web.url("large.tfrecord")).page
    page.wait_for_selector(".list .row:has-text('row 3')")
    page.get_by_label("Go to row").fill("1000")
    page.get_by_label("Go to row").press("Enter")
    page.wait_for_selector(".list .row:has-text('row 299')")
    assert page.locator(".list").get_attribute("aria-rowcount") == "300"
    web.stop()


def test_filters(show, records):
    """Conditions as on the command line; what is wrong with one is said."""
    page = show(records).page
    where = page.get_by_label("Condition on rows")
    where.fill("id > 19990 and len(tokens) > 3")
    where.press("Enter")
    page.wait_for_selector("text=/^9 found$/")
    page.wait_for_selector(".list .row:has-text('row 19999')")
    where.fill("idd > 3")
    where.press("Enter")
    page.wait_for_selector("[role=alert] >> text=did you mean 'id'?")
    page.wait_for_selector(".list .row:has-text('row 0')")  # all rows are shown again
    where.fill("id < 0")
    where.press("Enter")
    page.wait_for_selector("text=No row fits.")
    assert page.locator("main [role=alert]").count() == 0
    page.get_by_role("button", name="Show all").click()
    page.wait_for_selector(".list .row:has-text('row 0')")
    page.get_by_label("Search text in all columns").fill("ROW 1234")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_selector("text=/^11 found$/")


def test_values_and_columns(show, records):
    """A long value opens in a panel, a column has its statistics; Escape closes."""
    page = show(records, address="#/0/rows?row=30").page
    page.locator(".list .row button:has-text('…')").first.click()
    page.wait_for_selector(".drawer pre")
    assert page.locator(".drawer pre").inner_text().startswith("[0, 1, 2")
    page.keyboard.press("Escape")
    assert page.locator(".drawer").count() == 0
    page.get_by_role("columnheader", name=re.compile("^id")).get_by_role("button").click()
    page.wait_for_selector(".drawer >> text=20,000 rows")
    assert "9999.5" in page.locator(".drawer").inner_text()
    # wait_for_function evaluates a text, which the policy of the page forbids.
    drawing = ".drawer canvas"
    assert any(colours(page, drawing) > 1 or page.wait_for_timeout(50) for _ in range(200))


def test_damage(show, records, tmp_path):
    """Damage is told, and marked where it is."""
    data = bytearray(records.read_bytes())
    data[len(data) // 2] ^= 1
    path = tmp_path / "damaged.tfrecord"
    path.write_bytes(data)
    page = show(path).page
    page.wait_for_selector("text=1 damaged place")
    page.get_by_role("button", name=re.compile("before row")).click()
    page.wait_for_selector(".list .row.damaged.chosen")
    page.get_by_role("button", name="Check").click()
    page.wait_for_selector("text=1 problem")


def test_comparison(show, weights, tmp_path):
    """Changed, renamed and new tensors, and the cells of one."""
    path, tensors = weights
    other = dict(tensors)
    other["renamed"] = other.pop("bias")
    other["layers.2.key.weight"] = other["layers.2.key.weight"] + np.float32(0.5)
    other["added"] = np.ones(3)
    ferry.save(other, tmp_path / "other.safetensors")
    shown = show(path, tmp_path / "other.safetensors")
    page = shown.page
    page.wait_for_selector(".choice >> text=Renamed")
    facts = re.sub(r"\s+", " ", page.locator("main dl.facts").first.inner_text())
    assert facts == "Changed 1 Equal 22 Renamed 1 Only in A 0 Only in B 1"
    assert colours(page) > 3
    page.get_by_role("radio", name="Renamed").click()
    page.wait_for_selector(".list .row:has-text('renamed')")
    page.get_by_role("radio", name="Changed").click()
    page.locator(".list .row a").first.click()
    page.wait_for_selector("main h1:has-text('layers.2.key.weight')")
    page.wait_for_selector(".legend span:has-text('each cell')")
    assert "0.5" in page.locator(".legend").inner_text()
    assert "0.5" in page.locator("main dl.facts").inner_text()
    page.get_by_role("radio", name="A", exact=True).click()
    shown.until(lambda: colours(page) > 20)


def test_pairs(show, weights, tmp_path):
    """Cells of any slice; what is no plane of numbers is shown beside each other."""
    path, tensors = weights
    cube = tensors["cube"].copy()
    cube[3] += np.float32(0.25)
    other = {
        **tensors,
        "cube": cube,
        "words": np.array([b"beta", *tensors["words"][1:]], object),
        "step": np.int64(1300),
        "sparse": ferry.SparseTensor(
            np.array([[0, 1], [5, 5]]), np.array([1.5, 7.0]), np.array([9, 9])
        ),
    }
    ferry.save(other, tmp_path / "other.safetensors")
    shown = show(path, tmp_path / "other.safetensors", address="#/compare/0/1/%3Dcube")
    page = shown.page
    page.wait_for_selector(".legend span:has-text('each cell')")
    page.get_by_label("Index of axis 0").fill("3")
    page.wait_for_selector(".legend span:has-text('0.25')")
    shown.until(lambda: "at=0%3A3" in shown.address)
    page.wait_for_selector("main dl.facts >> text=600 of 3,000")
    for name, differing in (
        ("words", ["alpha", "beta"]),
        ("step", ["1200", "1300"]),
        ("sparse", ["-2.0", NONE, NONE, "7.0"]),
    ):
        shown.go(f"#/compare/0/1/%3D{name}")
        page.wait_for_selector("td.differs")
        assert page.locator("td.differs").all_inner_texts() == differing


def test_comparison_of_rows(show, tmp_path):
    """Rows that differ, by position and by key."""
    values = np.arange(50.0)
    with ferry.writer(tmp_path / "a.parquet") as writer:
        writer.write_batch({"id": np.arange(50), "x": values})
    values[[7, 9]] = -1
    with ferry.writer(tmp_path / "b.parquet") as writer:
        writer.write_batch({"id": np.arange(50)[::-1].copy(), "x": values[::-1].copy()})
    page = show(tmp_path / "a.parquet", tmp_path / "b.parquet").page
    page.wait_for_selector("text=50 rows differ")
    page.get_by_label("Rows belong together by").select_option("id")
    page.wait_for_selector("text=2 rows differ")
    page.wait_for_selector(".cell.differs:has-text('-1.0')")


def test_savedmodel(show, tf, tmp_path):
    """What a model has, what it would do besides computing, and a drawing of each function."""
    shown = show(save_module(tf, tmp_path))
    page = shown.page
    assert "reads files: ReadFile" in page.locator("main [role=alert]").inner_text()
    text = page.locator("main").inner_text()
    for expected in ("serving_default", "words.txt", "MatMul", "layer/kernel"):
        assert expected in text
    page.get_by_role("link", name="Graph", exact=True).click()
    page.wait_for_selector(".graph .box")
    names = page.get_by_label("Function").locator("option").all_inner_texts()
    serve = next(number for number, name in enumerate(names) if "inference_serve" in name)
    page.get_by_label("Function").select_option(index=serve)
    page.wait_for_selector(".graph text:has-text('MatMul')")

    def larger():
        wide = page.locator(".graph svg").bounding_box()["width"]
        page.locator(".graph").focus()
        page.keyboard.press("+")
        return page.locator(".graph svg").bounding_box()["width"] > wide

    shown.until(larger)  # a drawing that is replaced meanwhile has its own size
    page.locator(".graph .box.open", has_text="cond").click()  # a condition has two branches
    page.get_by_role("button", name=re.compile("cond_true")).click()
    page.wait_for_selector(".graph .box >> text=While")
    wrapper = next(number for number, name in enumerate(names) if "signature_wrapper" in name)
    page.get_by_label("Function").select_option(index=wrapper)
    page.locator(".graph .box.open").click()  # a call leads to what is called
    shown.until(lambda: f"function={wrapper - 1}" not in shown.address)
    page.wait_for_selector(".graph .box >> text=argument")


def test_keras(show):
    """Layers have their settings, and lead to their weights."""
    shown = show(ROOT / "tests/golden/keras/keras-2.13.keras")
    row = shown.page.locator("main tr", has=shown.page.get_by_text("first", exact=True))
    assert "units 4" in row.inner_text()
    row.get_by_role("link", name="kernel").click()
    shown.page.wait_for_selector("main h1:has-text('first/kernel')")


NAMES = {
    "<script>alert(1)</script>": "script",
    "<img src=x onerror=alert(2)>": "image",
    "\u202eevil\u202c rtl": "direction",
    "javascript:alert(3)": "scheme",
    "../../etc/passwd": "path",
    "a" * 1_000_000: "long",
    "'\";</style></textarea>&lt;b&gt;": "quotes",
    "\x00\x1b[31mred\n": "controls",
    "#/0/rows?row=1": "address",
}


def test_hostile_names(show, tmp_path):
    """Names are text, whatever they look like: nothing runs, nothing breaks."""
    path = tmp_path / "hostile.safetensors"
    tensors = {name: np.ones((3, 3), np.float32) for name in NAMES}
    from safetensors.numpy import save_file

    save_file(tensors, str(path), metadata={"<b>": "<script>alert(4)</script>"})
    shown = show(path)
    page = shown.page
    assert page.locator("script").count() == 1
    assert page.locator("main img, main style, main textarea, main b").count() == 0
    page.wait_for_selector(".list .row:has-text('<script>alert(1)</script>')")
    assert "\u202e" not in page.locator("main").inner_text()
    assert "\\u202e" in page.locator("main").inner_text()
    assert width(page) <= 1280
    for place in range(0, len(NAMES), 2):
        shown.go(f"#/0/tensor/~{place}")
        page.wait_for_selector("main h1")
        page.wait_for_selector(".legend span:has-text('each cell')")
        assert width(page) <= 1280
    shown.go("#/0/statistics")
    assert page.locator("script").count() == 1


def test_hostile_rows(show, tmp_path):
    """The same for columns and values."""
    with ferry.writer(tmp_path / "x.tfrecord") as writer:
        writer.write(
            {
                "<script>": b"<img src=x onerror=alert(1)>",
                "b": b"\xe2\x80\xaeabc",
                "c": b"x" * 10**6,
            }
        )
    shown = show(tmp_path / "x.tfrecord")
    page = shown.page
    page.wait_for_selector(".list .row:has-text('<img src=x')")
    assert page.locator("main img").count() == 0
    page.locator(".list .row button:has-text('xxxx')").click()
    page.wait_for_selector(".drawer pre")
    assert len(page.locator(".drawer pre").inner_text()) < 100_000


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_narrow(show, weights, records, theme):
    """On a telephone nothing scrolls sideways, and in the dark the ground is dark."""
    settings = {"viewport": {"width": 400, "height": 800}, "color_scheme": theme}
    for path, address in ((weights[0], "#/"), (weights[0], link("cube")), (records, "#/")):
        page = show(path, address=address, **settings).page
        assert width(page) <= 400
        ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert (int(re.search(r"\d+", ground)[0]) < 60) == (theme == "dark")
    page.keyboard.press("t")
    ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert (int(re.search(r"\d+", ground)[0]) < 60) == (theme == "light")


def test_names_for_readers(show, weights, records):
    """Everything that can be pressed has a name, and every drawing a label."""
    unnamed = """() => [...document.querySelectorAll('button, a[href], input, select, canvas, img')]
      .filter(one => one.getClientRects().length && one.getAttribute('aria-hidden') !== 'true')
      .filter(one => !(one.getAttribute('aria-label') || one.title || one.alt))
      .filter(one => !(one.textContent.trim() || one.labels?.length))
      .map(one => one.outerHTML.slice(0, 120))"""
    for path, address in ((weights[0], "#/"), (weights[0], link("cube")), (records, "#/")):
        page = show(path, address=address).page
        assert page.evaluate(unnamed) == []
    page.keyboard.press("?")
    assert page.get_by_role("dialog").is_visible()


def contrast(first, second):
    def light(text):
        parts = [int(text[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        red, green, blue = (
            (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4) for p in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    high, low = sorted((light(first), light(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast():
    """Text stands out from its ground by 4.5 to 1 in both themes."""
    style = (ROOT / "src/tensorferry/viewer/page/style.css").read_text()
    for block in re.findall(r":root[^{]*\{(.*?)\}", style, re.DOTALL)[:2]:
        tone = dict(re.findall(r"--([\w-]+): (#\w{6});", block))
        for ink in ("ink", "soft", "mute", "accent", "bad", "warn", "good"):
            for ground in ("card", "ground", "faint"):
                if ink in ("ink", "soft", "mute", "accent") or ground == "card":
                    least = 4.5 if ground != "faint" or ink != "mute" else 4
                    assert contrast(tone[ink], tone[ground]) >= least, (ink, ground)
        for ink, ground in (
            ("bad", "bad-soft"),
            ("warn", "warn-soft"),
            ("accent", "accent-soft"),
            ("on-accent", "accent"),
        ):
            assert contrast(tone[ink], tone[ground]) >= 4.5, (ink, ground)


def test_hostile_addresses(show, weights, records):
    """An address may say anything: the page shows something, or a reason."""
    shown = show(weights[0], records, address="#/0/tensors")
    for address in (
        *("#/9", "#/-1/tensors", "#/0/nothing", "#/constructor/x", "#/0/constructor", "#/%E0%A4"),
        *("#/0/tensor/~-1", "#/0/tensor/~1e99", "#/0/tensor/%3D%3Cscript%3E", "#/compare/0/9"),
        f"{link('cube')}?window=9,3,5,1&at=0:99,7:7&axes=9,9",
        f"{link('cube')}?window=NaN,1,2,3&at=x:y",
        f"{link('photo')}?image=-4",
        *("#/1/rows?row=NaN", "#/1/rows?row=-5", "#/1/rows?row=1e300", "#/1/rows?where=%00"),
        "#/0/statistics?sort=__proto__-",
        "#/0/tensors?sort=constructor",
    ):
        shown.go(address)
        assert shown.page.locator("main *").count() > 0
        assert width(shown.page) <= 1280
    shown.go("#/1/rows?row=1e300")
    shown.page.wait_for_selector(".list .row >> text=/^row 199\\d\\d$/")  # near the end


def test_colours_follow_the_theme(show, weights):
    """A heat map that is on the screen gets the colours of the other theme."""
    shown = show(weights[0], address=link("cube"), color_scheme="light")
    page = shown.page
    page.wait_for_selector(".legend span:has-text('each cell')")
    mean = """canvas => {
      const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
      let sum = 0;
      for (let at = 0; at < data.length; at += 4) sum += data[at] + data[at + 1] + data[at + 2];
      return sum / data.length;
    }"""
    canvas = page.locator("main canvas").first
    shown.until(lambda: canvas.evaluate(mean) > 120)
    page.keyboard.press("t")
    shown.until(lambda: canvas.evaluate(mean) < 90)


def test_server_gone(show, weights):
    """A page whose server has ended says so."""
    shown = show(weights[0])
    shown.view.close()
    shown.page.get_by_role("link", name="Statistics").click()
    shown.page.wait_for_selector("text=The server has ended")
    shown.errors.clear()  # the browser tells that it cannot connect


def test_several_files_are_counted(show, weights, large):
    """Rows of large files are counted when the list is on the screen."""
    page = show(weights[0], large, weights[0]).page
    page.wait_for_selector("tr:has-text('large.tfrecord') td >> text=/^300$/")


def test_several_files(show, weights, records, tmp_path):
    """A list of files; one that cannot be read does not hide the others."""
    broken = tmp_path / "broken.npz"
    broken.write_bytes(b"PK\x03\x04 no zip at all")
    shown = show(weights[0], records, broken)
    page = shown.page
    page.wait_for_selector("text=cannot be read")
    page.get_by_role("link", name=re.compile("train.tfrecord")).click()
    page.wait_for_selector(".list .row:has-text('row 0')")


@pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")
def test_files_of_others(show):
    """One file of every kind and place of the corpus opens without an error of the page."""
    chosen = {}
    for path in sorted(CORPUS.rglob("*")):
        if path.is_file() and path.stat().st_size < 3_000_000 and "large_" not in path.name:
            chosen.setdefault((path.parent.parent, path.suffix), path)
    paths = [path for path in chosen.values() if path.suffix not in (".md", ".txt")][::2]
    shown = show(*paths)
    page = shown.page
    files = page.evaluate("async () => (await (await fetch('api/files')).json()).files")
    readable = [file for file in files if not file.get("error")]
    assert len(readable) > 12
    assert len({file["format"] for file in readable}) > 6
    for file in readable:
        views = ["rows"] if file["holds"] != "tensors" else ["tensors", "tensor/~0"]
        views += ["model"] if file["model"] else []
        views += ["graph"] if file["model"] in ("savedmodel", "graph") else []
        for view in views:
            page.evaluate("hash => { location.hash = hash; }", f"#/{file['number']}/{view}")
            page.wait_for_selector(f"main[data-ready='{file['number']}/{view}']")
            shown.settled()
            if view != "tensor/~0" or file["count"]:
                failed = page.locator("main > .failure")
                assert failed.count() == 0, (file["name"], view, failed.inner_text())
