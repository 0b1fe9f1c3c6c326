"""How long a person waits in JupyterLab: from key to first character in a cell, and from a block to the screen.

A real JupyterLab in a real Chromium (as the tests marked `browser` have it), with an endpoint that answers at once:
what is left is what we add. The page says when a key went down and when a text stood in a cell; the endpoint says when
its first word left, and the block when it printed: all of it on one machine.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / place) for place in ("browser", "kernels", "inkernel")]

from lab import Notebook, lab_server  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

from codeact_kernel.testing import ScriptedEndpoint  # noqa: E402

ROUNDS, PRINTS = 20, 40
TARGET = 0.15
"""Seconds that we may add."""
BLOCK = f"""<run_code>
import time
time.sleep(1)
for number in range({PRINTS}):
    print(f"stamp {{time.time():.4f}}", flush=True)
    time.sleep(0.2)
</run_code>"""
CONNECTED = """() => {
    const session = window.jupyterapp.shell.currentWidget.sessionContext.session;
    return session?.kernel?.connectionStatus === 'connected';
}"""
WATCH = """() => {
    window.seen = {key: [], said: {}, stamps: {}};
    document.addEventListener('keydown', event => {
        if (event.ctrlKey && event.key === 'Enter') window.seen.key.push(Date.now() / 1000);
    }, true);
    new MutationObserver(changes => {
        const now = Date.now() / 1000;
        for (const change of changes) {
            const text = change.target.textContent ?? '';
            for (const [, word] of text.matchAll(/(hello-\\d+) there/g)) window.seen.said[word] ??= now;
            for (const [, stamp] of text.matchAll(/stamp (\\d+\\.\\d{4})/g)) window.seen.stamps[stamp] ??= now;
        }
    }).observe(document.querySelector('.jp-Notebook'), {subtree: true, childList: true, characterData: true});
}"""


def show(what: str, seconds: list[float]) -> None:
    """Print a median and a 95th percentile."""
    middle, late = statistics.median(seconds), statistics.quantiles(seconds, n=20)[-1]
    said = "as wanted" if middle <= TARGET else f"more than the {TARGET * 1e3:.0f} ms that are wanted"
    print(f"{what:<52}{middle * 1e3:6.0f} ms median {late * 1e3:6.0f} ms 95th of {len(seconds)}   {said}")


def first_words(notebook: Notebook, sent: dict[str, float]) -> list[list[float]]:
    """From the key, and from the endpoint's first word, to the word in a cell; one run after the other."""
    page = notebook.page
    page.evaluate(WATCH)
    for number in range(ROUNDS):
        notebook.run(0)
        page.wait_for_function("word => word in window.seen.said", arg=f"hello-{number}", timeout=30_000)
        page.wait_for_function("count => window.seen.key.length === count", arg=number + 1)
        page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for()
    seen: dict[str, Any] = page.evaluate("window.seen")
    words = [f"hello-{number}" for number in range(ROUNDS)]
    from_key = [seen["said"][word] - key for word, key in zip(words, seen["key"], strict=True)][1:]
    return [from_key, [seen["said"][word] - sent[word] for word in words][1:]]


def outputs(notebook: Notebook) -> list[float]:
    """From a print of a block to its text on the screen."""
    notebook.page.evaluate(WATCH)
    notebook.run(notebook.panel.locator(".jp-Notebook .jp-Cell").count() - 1)
    done = f"Object.keys(window.seen.stamps).length >= {PRINTS}"
    notebook.page.wait_for_function(done, timeout=60_000)
    seen = notebook.page.evaluate("window.seen.stamps")
    return [at - float(stamp) for stamp, at in seen.items()]


def main() -> None:
    """Measure and print."""
    sent: dict[str, float] = {}

    def says(asked: Any) -> str:
        last = str(asked.body["messages"][-1]["content"])
        if "stamps" in last:
            return BLOCK
        if "run_code_result" in last:
            return "That was all."
        word = f"hello-{len(sent)}"
        sent[word] = time.time()
        return f"{word} there."

    chromium = shutil.which("chromium")
    assert chromium is not None, "this needs Chromium: apt-get install chromium"
    with ScriptedEndpoint(says) as endpoint, tempfile.TemporaryDirectory() as place:
        os.environ |= {"CODEACT_MODEL": "scripted", "LLM_BASE_URL": endpoint.base_url, "LLM_API_KEY": "none"}
        with lab_server(Path(place)) as server, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1200, "height": 1000})
            server.write("lab.ipynb", "%agent --rerun say hello", "%agent --rerun print stamps")
            page.goto(f"{server.url}lab/tree/lab.ipynb?token=secret&reset", timeout=60_000)
            notebook = Notebook(page, server, "lab.ipynb")
            page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for(timeout=60_000)
            page.wait_for_function(CONNECTED, timeout=60_000)
            from_key, from_word = first_words(notebook, sent)
            show("from the key to the first character in a cell", from_key)
            show("from the model's first word to that character", from_word)
            show("from a block's print to the screen", outputs(notebook))
            browser.close()


if __name__ == "__main__":
    main()
