"""A real JupyterLab server, and what a person does with a notebook in its page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.blocking import BlockingKernelClient
from ordinary import OrdinaryClient

PATIENCE = 60.0
"""Seconds that a server and its page may take to start."""
SIGHT = 20.0
"""Seconds until what is expected has to be seen."""
EXTENSION = Path(__file__).parents[2] / "labextension" / "built"
SETTINGS = """
c.IdentityProvider.token = "secret"
c.ServerApp.open_browser = False
c.ServerApp.allow_root = True
c.ServerApp.jpserver_extensions = {"jupyter_lsp": False, "jupyter_server_terminals": False}
c.LabApp.expose_app_in_browser = True
c.LabApp.extension_manager = "readonly"
"""
"""A person's own settings are left out, and what looks for news or packages elsewhere."""
QUIET = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}

SUBSHELL_OF_CONSOLE = """() => {
    const panels = [...window.jupyterapp.shell.widgets("main")].filter(panel => panel.console);
    return panels.at(-1)?.console.sessionContext.session?.kernel?.subshellId;
}"""


@dataclass
class Server:
    """A server that runs."""

    url: str
    folder: Path
    """Where the notebooks are."""
    runtime: Path
    log: Path

    def ask(self, path: str) -> Any:
        """Ask its interface for programs."""
        request = urllib.request.Request(f"{self.url}{path}", headers={"Authorization": "token secret"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def write(self, name: str, *codes: str, kernel: str = "codeact") -> None:
        """Put a notebook into its folder."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in codes])
        notebook.metadata["kernelspec"] = {"name": kernel, "display_name": kernel}
        nbformat.write(notebook, self.folder / name)

    def read(self, name: str) -> nbformat.NotebookNode:
        """A notebook in its folder, as it was saved."""
        return nbformat.read(self.folder / name, as_version=4)

    def kernel_of(self, name: str) -> str:
        """The id of the kernel of a notebook that is open."""
        return next(s["kernel"]["id"] for s in self.ask("api/sessions") if s["path"] == name)

    @contextmanager
    def beside(self, name: str) -> Iterator[OrdinaryClient]:
        """A second client on the kernel of a notebook that is open: it can speak for an agent."""
        file = self.runtime / f"kernel-{self.kernel_of(name)}.json"
        client = BlockingKernelClient(connection_file=str(file))
        client.load_connection_file()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=PATIENCE)
            yield OrdinaryClient(client)
        finally:
            client.stop_channels()


@contextmanager
def lab_server(root: Path) -> Iterator[Server]:
    """Run a server with nothing of the person who runs the tests."""
    places = {f"JUPYTER_{kind.upper()}_DIR": root / kind for kind in ("config", "data", "runtime")}
    places |= {"IPYTHONDIR": root / "ipython", "HOME": root, "JUPYTER_PREFER_ENV_PATH": 0}
    folder = root / "notebooks"
    for place in (folder, root / "config" / "labconfig", root / "data" / "labextensions"):
        place.mkdir(parents=True)
    # As it is now, and not as it was when the package was installed.
    (root / "data" / "labextensions" / "codeact-kernel").symlink_to(EXTENSION)
    (root / "config" / "jupyter_server_config.py").write_text(SETTINGS)
    (root / "config" / "labconfig" / "page_config.json").write_text(json.dumps(QUIET))
    environment = os.environ | {name: str(place) for name, place in places.items()}
    with open(root / "log", "w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab"], cwd=folder, env=environment, stdout=log, stderr=log
        )
    try:
        yield Server(_url(process, root), folder, root / "runtime", root / "log")
    finally:
        process.terminate()
        process.wait(30)


def _url(process: subprocess.Popen[bytes], root: Path) -> str:
    # The server chooses its port itself, and writes it down when it listens.
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        for file in (root / "runtime").glob("jpserver-*.json"):
            try:
                url = str(json.loads(file.read_text())["url"])
                urllib.request.urlopen(f"{url}api?token=secret", timeout=5).close()
            except (OSError, ValueError):
                continue
            return url
        time.sleep(0.05)
    raise AssertionError("the server did not start:\n" + (root / "log").read_text())


class Notebook:
    """A notebook that is open in the page, seen and used as a person does.

    Args:
        page: Playwright's page.
        server: The server.
        name: The notebook's name.
    """

    def __init__(self, page: Any, server: Server, name: str) -> None:
        self.page = page
        self.server = server
        self.name = name
        self.panel = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        self.kernel_status = self.panel.locator(".jp-Notebook-ExecutionIndicator")

    def cell(self, number: int) -> Any:
        """A cell, from 0."""
        return self.panel.locator(".jp-Notebook .jp-Cell").nth(number)

    def prompt(self, number: int) -> Any:
        """What stands left of a cell: "[*]:" while it runs."""
        return self.cell(number).locator(".jp-InputPrompt")

    def output(self, number: int) -> Any:
        """A cell's outputs."""
        return self.cell(number).locator(".jp-OutputArea-output")

    def run(self, number: int) -> None:
        """Run a cell; does not wait for its end."""
        self.edit(number)
        self.page.keyboard.press("Control+Enter")

    def edit(self, number: int) -> None:
        """Put the cursor to the end of a cell's code."""
        self.cell(number).locator(".cm-content").click()
        self.page.keyboard.press("Control+End")

    def code(self, number: int) -> str:
        """A cell's code."""
        return str(self.cell(number).locator(".cm-content").inner_text())

    def press(self, name: str) -> None:
        """Press a button of the notebook's toolbar, by the name of its item."""
        self.panel.locator(f".jp-NotebookPanel-toolbar [data-jp-item-name={name}] button").click()

    def command(self, command: str) -> None:
        """Choose a command, as from the menu or the palette."""
        self.page.evaluate("command => { void window.jupyterapp.commands.execute(command) }", command)

    def save(self) -> nbformat.NotebookNode:
        """Save it, and read what was saved."""
        self.page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
        return self.server.read(self.name)

    def subshell_of_console(self) -> str:
        """The subshell in which the open console runs what is typed; waits until the console knows it."""
        return str(self.page.wait_for_function(SUBSHELL_OF_CONSOLE, timeout=SIGHT * 1000).json_value())
