"""The server on HTTP: any number of clients, each with a namespace of its own.

Comes in: streamable HTTP on a socket. Goes out: answers. A session of the protocol has a kernel; that ends when the
client ends the session, or was not heard of for an hour and nothing of it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import socket
from collections import Counter
from collections.abc import Iterator

import uvicorn
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from codeact_kernel.errors import ConfigError
from codeact_kernel.mcpserver.peers import SameUser
from codeact_kernel.mcpserver.server import SESSION_HEADER, make_server
from codeact_kernel.mcpserver.sessions import Open, Sessions

PATH = "/mcp"
IDLE = 3600.0
"""Seconds without a request, an open stream or a running block after which a session's kernel is ended."""
FORGOTTEN = 24 * 3600.0
"""Seconds after which a session without requests is forgotten, and its client has to begin a new one."""
LAST_WORDS = 1
"""Seconds that answers may take which are being sent when the server ends."""
_NAMES = ("127.0.0.1", "localhost", "[::1]")
_LOCAL = TransportSecuritySettings(
    allowed_hosts=[f"{name}:*" for name in _NAMES], allowed_origins=[f"http://{name}:*" for name in _NAMES]
)
"""What keeps pages of other sites out, which a browser on this machine may be shown (DNS rebinding)."""


def read_address(text: str) -> tuple[str, int]:
    """Read `HOST:PORT`, or `PORT` on this machine alone.

    Args:
        text: What was written.

    Raises:
        ConfigError: If it is none.
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 2**16):
        raise ConfigError(f"--http {text}: write HOST:PORT, such as 127.0.0.1:8000")
    return host.removeprefix("[").removesuffix("]") or _NAMES[0], int(port)


def is_local(host: str) -> bool:
    """Whether only this machine reaches an address.

    Args:
        host: A name or an address.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class HttpServer:
    """Listens at once, and serves until it is cancelled.

    Args:
        host: Where it listens.
        port: Where it listens; 0 for any that is free.
        token: What clients have to send; None for no such thing: then only processes of the same user, on this
            machine, are served.

    Raises:
        ConfigError: If others could reach it without a token, or it cannot listen there.
    """

    def __init__(self, host: str, port: int, token: str | None) -> None:
        if not is_local(host) and not token:
            raise ConfigError(
                f"others may reach {host}, and whoever does can run code: give --token or CODEACT_MCP_TOKEN"
            )
        self._host, self._token = host, token
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            self._socket = socket.create_server((host, port), family=family)
        except OSError as error:
            raise ConfigError(f"--http {host}:{port}: {error.strerror or error}") from error

    @property
    def url(self) -> str:
        """Where clients find it."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._socket.getsockname()[1]}{PATH}"

    def close(self) -> None:
        """Listen no longer."""
        self._socket.close()

    async def serve(self, open_session: Open) -> None:
        """Serve.

        Args:
            open_session: Opens a client's namespace, with its first call.
        """
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(self.close)
            sessions = await stack.enter_async_context(Sessions(open_session))
            security = _LOCAL if is_local(self._host) else None
            manager = StreamableHTTPSessionManager(
                make_server(sessions, http=True), security_settings=security, session_idle_timeout=FORGOTTEN
            )
            app: ASGIApp = Watch(StreamableHTTPASGIApp(manager), sessions)
            app = (
                RequireAuthMiddleware(app, [])
                if self._token
                else SameUser(app, self._socket.getsockname()[1])
            )
            backend = BearerAuthBackend(_OneToken(self._token or ""))
            guards = [Middleware(AuthenticationMiddleware, backend=backend)] if self._token else []
            await _run(Starlette(routes=[Route(PATH, app)], middleware=guards), manager, self._socket)


async def _run(app: ASGIApp, manager: StreamableHTTPSessionManager, listening: socket.socket) -> None:
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # whoever is there says who he is
        timeout_graceful_shutdown=LAST_WORDS,
    )
    server = _Quiet(config)
    serving = asyncio.ensure_future(server.serve([listening]))
    try:
        async with manager.run():
            try:
                await asyncio.shield(serving)
            finally:
                # First no new request, then an end to the streams that are open: there is nothing left to wait for.
                server.should_exit = True
    finally:
        await asyncio.wait({serving})


class _Quiet(uvicorn.Server):
    """A server that leaves signals to the command that runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take none."""
        yield


class _OneToken:
    """Knows one token (a `TokenVerifier`)."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        """Look whether it is the one, in a time that does not tell how much of it is right."""
        same = hmac.compare_digest(token.encode(), self._token)
        return AccessToken(token=token, client_id="client", scopes=[]) if same else None


class Watch:
    """Ends the kernel of a session that its client has ended, or that was forgotten.

    Args:
        app: What answers.
        sessions: Who has the kernels.
    """

    def __init__(self, app: ASGIApp, sessions: Sessions) -> None:
        self._app = app
        self._sessions = sessions
        self._in_flight: Counter[str] = Counter()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, as ASGI has it."""
        key = Headers(scope=scope).get(SESSION_HEADER)
        if key is None:
            await self._app(scope, receive, send)
            return
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        self._in_flight[key] += 1
        if key in self._timers:
            self._timers.pop(key).cancel()
        try:
            await self._app(scope, receive, watched)
        finally:
            self._in_flight -= Counter([key])
            if status == 404 or (scope["method"] == "DELETE" and status == 200):
                self._sessions.end(key)
            elif not self._in_flight[key]:
                self._wait(key)

    def _wait(self, key: str) -> None:
        self._timers[key] = asyncio.get_running_loop().call_later(IDLE, self._forget, key)

    def _forget(self, key: str) -> None:
        if self._sessions.is_busy(key):
            self._wait(key)
            return
        self._timers.pop(key, None)
        self._sessions.end(key, "nothing was heard of this session for an hour, and its kernel was ended")
