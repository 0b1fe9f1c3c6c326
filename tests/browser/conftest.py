"""One server and one browser for all tests, and a page in which each test opens its own notebooks."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lab import PATIENCE, SIGHT, Notebook, Server, lab_server

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
"""So that it runs as root, and asks for nothing elsewhere."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A JupyterLab server with our kernelspec, which is where this environment has it."""
    with lab_server(tmp_path_factory.mktemp("lab")) as server:
        yield server


@pytest.fixture(scope="session")
def page(server: Server) -> Iterator[Any]:
    """JupyterLab in Chromium."""
    from playwright.sync_api import expect, sync_playwright

    path = shutil.which("chromium")
    assert path is not None, "these tests need Chromium: apt-get install chromium"
    expect.set_options(timeout=SIGHT * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(SIGHT * 1000)
        _start(page, server)
        yield page
        browser.close()


@pytest.fixture
def open_notebook(
    page: Any, server: Server, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[..., Notebook]]:
    """Opens notebooks of the cells that are given; on failure leaves a picture of the page in `tmp_path`."""
    from playwright.sync_api import expect

    def open_it(*codes: str, kernel: str = "codeact") -> Notebook:
        name = f"{request.node.name}.ipynb"
        server.write(name, *codes, kernel=kernel)
        page.evaluate("path => window.jupyterapp.commands.execute('docmanager:open', { path })", name)
        notebook = Notebook(page, server, name)
        expect(notebook.cell(len(codes) - 1)).to_be_visible()
        expect(notebook.kernel_status).to_have_attribute("data-status", "idle")
        return notebook

    yield open_it
    if request.node.stash.get(FAILED, True):
        page.screenshot(path=tmp_path / "page.png")
        print(f"the page as it was: {tmp_path / 'page.png'}\nthe server's log: {server.log}")
        _start(page, server)
    for command in ("docmanager:save-all", "application:close-all"):
        page.evaluate("command => window.jupyterapp.commands.execute(command)", command)


def _start(page: Any, server: Server) -> None:
    page.goto(f"{server.url}lab?token=secret&reset", timeout=PATIENCE * 1000)
    ready = "window.jupyterapp && window.jupyterapp.commands.hasCommand('docmanager:open')"
    page.wait_for_function(ready, timeout=PATIENCE * 1000)
