"""The embedded model: real weights, run on this machine, asked like any other endpoint.

Comes in: settings whose model names fetched weights or a GGUF file. Goes out: a `Model`. llama.cpp's server
runs in a child process on loopback, so that the loop never stalls while the model thinks; it starts with the
first call, is started anew should it die, and cannot outlive this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import secrets
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from codeact_kernel.errors import ConfigError, ModelUnreachable
from codeact_kernel.messages import ModelRequest, Piece
from codeact_kernel.model.address import Key
from codeact_kernel.model.catalogue import ASSETS
from codeact_kernel.model.endpoint import EndpointModel
from codeact_kernel.model.retry import OnRetry, Retrying, RetryPolicy
from codeact_kernel.model.settings import LOCAL_WINDOW, ModelSettings
from codeact_kernel.model.specials import harmless
from codeact_kernel.model.weights import locate

START_TIMEOUT = 180.0
"""Seconds for the server to load its weights: the default takes 2, a large GGUF on a cold disk minutes."""
STOP_TIMEOUT = 3.0
"""Seconds for the server to end by itself (0.1 measured)."""
MOST_THREADS = 8
"""More threads than this wait for memory, not for each other's work."""


def check_runtime() -> None:
    """Make sure that the package which runs embedded models is installed; it is not loaded.

    Raises:
        ConfigError: If it is not.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise ConfigError('the embedded model needs one more package: pip install "codeact-kernel[local]"')


def find_weights(model: str) -> Path:
    """Find the GGUF file that settings name.

    Args:
        model: The name of an asset, or a path.

    Raises:
        ConfigError: If it is not there, or no GGUF file.
    """
    if model in ASSETS:
        path = locate(model)
        if path is None:
            size = ASSETS[model].size / 1e6
            raise ConfigError(
                f"the weights of {model} ({size:.0f} MB) are not here yet: run `codeact model fetch {model}`"
            )
        return path
    path = Path(model).absolute()
    try:
        with path.open("rb") as stream:
            magic = stream.read(4)
    except OSError as error:
        raise ConfigError(f"cannot read the weights {path}: {error.strerror or error}") from None
    if magic != b"GGUF":
        raise ConfigError(f"{path} is no GGUF file")
    return path


def choose_threads(env: Mapping[str, str] | None = None) -> int:
    """Choose how many threads the model computes with.

    `CODEACT_LOCAL_THREADS` says it. Otherwise it is all cores, but one where the machine is busy: threads
    that wait for each other on loaded cores are slower than one (on two busy cores two threads gave 3 tokens
    a second, one gave 12; measured).

    Args:
        env: The environment; None takes that of the process.

    Raises:
        ConfigError: If the variable holds no number above zero.
    """
    chosen = (os.environ if env is None else env).get("CODEACT_LOCAL_THREADS", "").strip()
    if chosen:
        if not chosen.isdecimal() or int(chosen) < 1:
            raise ConfigError(f"CODEACT_LOCAL_THREADS: {chosen!r} is no number of threads")
        return int(chosen)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    busy = hasattr(os, "getloadavg") and os.getloadavg()[0] >= cores / 2
    return 1 if busy else min(cores, MOST_THREADS)


class LocalServer:
    """A child process that serves one model.

    Args:
        path: The weights.
        window: Tokens of its window.
        threads: How many it computes with.
    """

    def __init__(self, path: Path, window: int, threads: int) -> None:
        self.key = Key(secrets.token_urlsafe(16))
        self.url = ""
        self._path = path
        self._config = {"path": str(path), "name": path.stem, "window": window, "threads": threads}
        self._process: asyncio.subprocess.Process | None = None

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            ModelUnreachable: If it does not, with its last words.
        """
        program = Path(__file__).with_name("local_server.py")
        with tempfile.TemporaryFile() as words:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                str(program),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=words,
            )
            self._process = process
            try:
                self.url = await self._greet(process)
            except BaseException as error:
                await self.stop()
                if isinstance(error, ValueError | OSError | TimeoutError):
                    raise self._failed(words) from None
                raise

    async def _greet(self, process: asyncio.subprocess.Process) -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        config = {**self._config, "key": self.key.reveal()}
        process.stdin.write(json.dumps(config).encode() + b"\n")
        async with asyncio.timeout(START_TIMEOUT):
            return str(json.loads(await process.stdout.readline())["url"]) + "/v1"

    def _failed(self, words: IO[bytes]) -> ModelUnreachable:
        words.seek(0)
        lines = words.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
        return ModelUnreachable(
            f"the embedded model {self._path.name} did not start: {last}", model=self._path.stem
        )

    async def stop(self) -> None:
        """End it: by the end of its stdin, else by force."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


class LocalModel:
    """An embedded model.

    Args:
        settings: Which weights, and how it is asked.
        on_retry: Hears of each retry.

    Raises:
        ConfigError: If the runtime or the weights are not there.
    """

    def __init__(self, settings: ModelSettings, on_retry: OnRetry | None = None) -> None:
        check_runtime()
        self._settings = settings
        # A server of our own is never busy or limited: it answers, or it has died and is started anew.
        self._retrying = Retrying(RetryPolicy(attempts=2, first_attempts=2), on_retry)
        self._path = find_weights(settings.model)
        self._window = settings.window or LOCAL_WINDOW
        self._threads = choose_threads()
        self._server: LocalServer | None = None
        self._endpoint: EndpointModel | None = None
        self._starting = asyncio.Lock()

    @property
    def name(self) -> str:
        """The name of its weights."""
        return self._path.stem

    @property
    def window(self) -> int | None:
        """Tokens of its window."""
        return self._window

    async def start(self) -> EndpointModel:
        """Load the weights now rather than with the first call; they take seconds.

        Returns:
            The endpoint that serves them.

        Raises:
            ModelUnreachable: If they cannot be loaded.
        """
        async with self._starting:
            if self._endpoint is None or self._server is None or not self._server.alive:
                await self.aclose()
                server = LocalServer(self._path, self._window, self._threads)
                await server.start()
                self._server = server
                self._endpoint = EndpointModel(self._served(server), self._retrying)
            return self._endpoint

    def _served(self, server: LocalServer) -> ModelSettings:
        who: dict[str, Any] = {"kind": "endpoint", "model": self.name, "window": self._window}
        return replace(self._settings, base_url=server.url, key=server.key, **who)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Piece, None]:
        """Ask, and stream the reply; see `protocols.Model.stream`."""
        for last in (False, True):
            endpoint = await self.start()
            try:
                async with contextlib.aclosing(endpoint.stream(harmless(request))) as pieces:
                    async for piece in pieces:
                        yield piece
            except ModelUnreachable:
                if last or (self._server is not None and self._server.alive):
                    raise
            else:
                return

    async def aclose(self) -> None:
        """End the server."""
        if self._endpoint is not None:
            await self._endpoint.aclose()
        if self._server is not None:
            await self._server.stop()
        self._endpoint = self._server = None
