"""Look at a page in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CHECK = """
<script>
addEventListener("load", () => {
  document.querySelectorAll("details").forEach(each => { each.open = true; });
  const width = document.documentElement.clientWidth, wrong = [];
  const name = each => each.tagName + "#" + each.id + "." + each.getAttribute("class");
  if (document.documentElement.scrollWidth > width) wrong.push("the page scrolls sideways");
  for (const each of document.body.querySelectorAll("*:not(svg *)")) {
    const box = each.getBoundingClientRect();
    if (each.closest("thead") && getComputedStyle(each.closest("thead")).position === "absolute") continue;
    if (box.right > width + 0.5 || box.left < -0.5) wrong.push(name(each) + " is cut off");
    const hides = getComputedStyle(each).overflowX !== "visible";
    if (hides && each.clientWidth > 0 && each.scrollWidth > each.clientWidth + 1)
      wrong.push(name(each) + " hides what it holds");
  }
  let figures = 0, labels = 0;
  for (const svg of document.querySelectorAll("figure .panel svg, .file svg")) {
    const box = svg.getBoundingClientRect();
    if (box.width < 250 || box.height < 120) wrong.push("a figure is " + box.width + " by " + box.height);
    figures += 1;
    const texts = [...svg.querySelectorAll("g[id*=text_]")].filter(each => each.getBoundingClientRect().width > 0);
    const boxes = texts.map(each => each.getBoundingClientRect());
    labels += boxes.length;
    boxes.forEach((one, i) => {
      if (one.left < box.left - 1 || one.right > box.right + 1 || one.top < box.top - 1 || one.bottom > box.bottom + 1)
        wrong.push(texts[i].id + " is cut off");
      boxes.slice(0, i).forEach((other, j) => {
        if (one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom)
          wrong.push(texts[i].id + " covers " + texts[j].id);
      });
    });
  }
  for (const image of document.images) if (!image.naturalWidth) wrong.push("an image is missing");
  const fills = [...document.querySelectorAll(".panel svg :is(path, use)")].map(each => getComputedStyle(each).fill);
  const black = fills.filter(fill => fill === "rgb(0, 0, 0)").length;
  const style = getComputedStyle(document.body);
  parent.postMessage({width, wrong, figures, labels, black, ink: style.color, ground: style.backgroundColor}, "*");
});
</script>
"""
WIDTHS = (400, 1400)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]


def find_browser() -> str:
    """Return the path of a browser, or skip the test."""
    browser = next((path for path in map(shutil.which, BROWSERS) if path), None)
    if browser is None:
        pytest.skip(f"no browser found (looked for {', '.join(BROWSERS)}): the page was not looked at")
    return browser


def printed_pages(folder: Path, page: str, size: str = "A4") -> int:
    """Return the number of sheets on which a browser prints a page."""
    browser = find_browser()
    folder.mkdir()
    (folder / "page.html").write_text(page.replace("@page {", f"@page {{ size: {size};"), encoding="utf-8")
    target = folder / "page.pdf"
    subprocess.run(
        [
            browser,
            *FLAGS,
            f"--user-data-dir={folder / 'profile'}",
            "--no-pdf-header-footer",
            f"--print-to-pdf={target}",
            (folder / "page.html").as_uri(),
        ],
        capture_output=True,
        timeout=120,
        check=True,
    )
    return len(re.findall(rb"/Type\s*/Page\b", target.read_bytes()))


def look(
    folder: Path, page: str, widths: tuple[int, ...] = WIDTHS, dark: bool = False
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return what the check finds on a page, in frames of the given widths, and what the console says."""
    browser = find_browser()
    folder.mkdir()
    (folder / "page.html").write_text(page.replace("</body>", CHECK + "</body>"), encoding="utf-8")
    # frames, since a window is never narrower than 500 pixels
    frames = [f'<iframe src="page.html" style="width:{width}px;height:900px;border:0"></iframe>' for width in widths]
    (folder / "frames.html").write_text(
        '<!DOCTYPE html><meta charset="utf-8"><pre id="said"></pre><script>const all = [];'
        "addEventListener('message', told => { all.push(told.data);"
        f"said.textContent = JSON.stringify(all); }});</script>{''.join(frames)}"
    )
    told = subprocess.run(
        [
            browser,
            *FLAGS,
            *["--enable-logging=stderr", "--virtual-time-budget=20000"],
            *(["--blink-settings=preferredColorScheme=0"] if dark else []),
            f"--user-data-dir={folder / 'profile'}",
            "--dump-dom",
            (folder / "frames.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r'<pre id="said">(.*?)</pre>', told.stdout, re.DOTALL)
    assert found is not None, told.stderr
    assert found[1], told.stderr
    reports = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert len(reports) == len(frames)
    console = [line for line in told.stderr.splitlines() if "CONSOLE" in line]
    return sorted(reports, key=lambda each: each["width"]), console
