"""Looks whether everything is there that an agent needs, and says how to mend what is not.

Comes in: a workspace, and what the command line or the magic says of the model. Goes out: a finding for each part, with
one line of repair for each fault. Nothing is changed, and nothing is sent but a question for the list of models.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import httpx
import platformdirs
from jupyter_core.paths import jupyter_path

from codeact_kernel._version import __version__
from codeact_kernel.agent import Agent, Settings, load_settings
from codeact_kernel.agent.config import FILE_NAME
from codeact_kernel.errors import CodeactError, ConfigError
from codeact_kernel.events import RunStarted
from codeact_kernel.model import ModelSettings, open_model, resolve
from codeact_kernel.model.settings import KEY_VARIABLES, URL_VARIABLES
from codeact_kernel.signing import host_signer
from codeact_kernel.testing import ScriptedModel

PATIENCE = 10.0
"""Seconds that an endpoint may take to answer."""
_PACKAGES = ("ipykernel", "ipython", "jupyter_client", "openai")
_FRONT_ENDS = ("jupyterlab", "notebook")
_EXTENSION = Path("labextensions", "codeact-kernel", "package.json")
_PROXIES = (
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "ALL_PROXY",
    "https_proxy",
    "http_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one part."""

    part: str
    state: Literal["ok", "note", "fault"]
    text: str
    repair: str = ""
    """What mends it; empty where nothing has to be."""

    def __str__(self) -> str:
        mark = {"ok": "ok   ", "note": "note ", "fault": "FAULT"}[self.state]
        return f"{mark} {self.part}: {self.text}" + (f"\n      -> {self.repair}" if self.repair else "")


async def examine(
    workspace: Path,
    model: str | None = None,
    base_url: str | None = None,
    env: Mapping[str, str] = os.environ,
) -> AsyncIterator[Finding]:
    """Look at one part after the other.

    Args:
        workspace: The folder in which blocks would run.
        model: The model that somebody has named; None for the one that the environment or the settings say.
        base_url: The endpoint, in the same way.
        env: The environment.
    """
    yield _versions()
    yield page_of([Path(folder) for folder in jupyter_path()])
    settings = Settings()
    try:
        settings = load_settings(workspace)
        yield Finding("settings", "ok", _sources(workspace))
    except ConfigError as error:
        yield Finding("settings", "fault", error.message, "mend that file")
    try:
        found = resolve(model, settings.models, base_url, env, default=settings.model)
    except ConfigError as error:
        yield Finding("model", "fault", error.message)
    else:
        yield Finding("model", "ok", _whence(found, model, base_url, settings, env))
        yield await answers(found)
    try:
        host_signer()
        yield Finding("signing key", "ok", "records and audits can be signed")
    except ConfigError as error:
        yield Finding("signing key", "fault", error.message)
    yield await _kernel(workspace, settings)


def _versions() -> Finding:
    parts = [f"codeact-kernel {__version__}", f"Python {platform.python_version()} ({sys.executable})"]
    return Finding("versions", "ok", ", ".join(parts + [f"{name} {_version(name)}" for name in _PACKAGES]))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "is missing"


def page_of(folders: Sequence[Path]) -> Finding:
    """Whether JupyterLab of this environment has our extension, of this version.

    Args:
        folders: Where Jupyter looks for its data, the first one first.
    """
    there = [f"{name} {_version(name)}" for name in _FRONT_ENDS if _version(name) != "is missing"]
    files = [folder / _EXTENSION for folder in folders if (folder / _EXTENSION).is_file()]
    if not there:
        return Finding(
            "JupyterLab", "note", "is not in this environment; where it is, live cells need the extension, too",
            "pip install codeact-kernel in the environment of your JupyterLab",
        )  # fmt: skip
    if not files:
        return Finding("JupyterLab", "fault", f"{', '.join(there)} without our extension: outputs are shown as HTML",
                       "pip install --force-reinstall codeact-kernel")  # fmt: skip
    try:
        has = str(json.loads(files[0].read_text("utf-8"))["version"])
    except (OSError, ValueError, KeyError):
        has = "unreadable"
    if has != __version__:
        return Finding("JupyterLab", "fault", f"its extension is {has}, and the package {__version__}",
                       "pip install --upgrade codeact-kernel there, and reload the page")  # fmt: skip
    return Finding("JupyterLab", "ok", f"{', '.join(there)} with our extension {has}")


def _sources(workspace: Path) -> str:
    files = (platformdirs.user_config_path("codeact-kernel") / FILE_NAME, workspace / FILE_NAME)
    return "; ".join(f"{file} ({'read' if file.is_file() else 'is not there'})" for file in files)


def _whence(
    found: ModelSettings, model: str | None, base_url: str | None, settings: Settings, env: Mapping[str, str]
) -> str:
    by = "as asked" if model else "from CODEACT_MODEL" if env.get("CODEACT_MODEL") else f"from {FILE_NAME}"
    if found.kind != "endpoint":
        return f"{found.name} ({by})"
    url_by = "as asked" if base_url else next((name for name in URL_VARIABLES if env.get(name)), "")
    if found.name in settings.models:
        url_by = url_by or f"{FILE_NAME}, or the default"
    proxies = [name for name in _PROXIES if env.get(name)]
    through = f", with {', '.join(proxies)}" if proxies else ""
    key = f"a key ({found.key_from})" if found.key else "no key"
    return f"{found.model} ({by}) at {found.base_url} ({url_by or 'the default'}), {key}{through}"


async def answers(found: ModelSettings) -> Finding:
    """Whether a model can be asked.

    Args:
        found: The model.
    """
    if found.kind != "endpoint":
        try:
            model = open_model(found)
        except CodeactError as error:
            return Finding("endpoint", "fault", error.message)
        close = getattr(model, "aclose", None)
        if close is not None:
            await close()
        return Finding("endpoint", "ok", f"none is needed for {found.name}")
    headers = {"Authorization": f"Bearer {found.key.reveal()}"} if found.key else {}
    try:
        async with httpx.AsyncClient(timeout=PATIENCE, follow_redirects=True) as client:
            answer = await client.get(f"{found.base_url.rstrip('/')}/models", headers=headers)
    except httpx.HTTPError as error:
        why = f"{type(error).__name__}: {error}"
        repair = "is it running, is the address right (--base-url, LLM_BASE_URL), and is a proxy needed (HTTPS_PROXY)?"
        if "CERTIFICATE" in why.upper():
            repair = "point SSL_CERT_FILE at the certificates of your organisation"
        return Finding("endpoint", "fault", f"{found.base_url} cannot be reached: {why}", repair)
    if answer.status_code in (401, 403):
        what = "the key is refused" if found.key else "a key is wanted"
        return Finding("endpoint", "fault", f"{found.base_url}: {what}", f"set {' or '.join(KEY_VARIABLES)}")
    if answer.status_code != 200:
        return Finding(
            "endpoint", "note", f"{found.base_url} gives no list of models ({answer.status_code}); others do"
        )
    try:
        names = {str(each["id"]) for each in answer.json()["data"]}
    except (ValueError, KeyError, TypeError):
        names = set()
    if names and found.model not in names:
        few = ", ".join(sorted(names)[:5])
        return Finding(
            "endpoint", "fault", f"{found.base_url} does not list {found.model}", f"it has {few}, …"
        )
    return Finding("endpoint", "ok", f"{found.base_url} answers")


async def _kernel(workspace: Path, settings: Settings) -> Finding:
    """Whether an agent's kernel starts and runs a block, and behind which walls."""
    heard: list[RunStarted] = []
    model = ScriptedModel(["<run_code>\nprint('it runs')\n</run_code>", "It runs."])
    try:
        agent = Agent(
            model,
            workspace=workspace,
            run_dir=False,
            settings=settings,
            observers=[lambda event: heard.append(event) if isinstance(event, RunStarted) else None],
        )
        async with agent:
            await agent.run("Does it run?", max_time=60)
    except CodeactError as error:
        return Finding("kernel", "fault", error.message)
    about = heard[0]
    state: Literal["ok", "note"] = "note" if about.sandbox in ("none", "limits") else "ok"
    repair = "install bubblewrap for a sandbox that holds" if state == "note" else ""
    return Finding(
        "kernel", state, f"{about.kernel} runs blocks; {about.about_sandbox or about.sandbox}", repair
    )
