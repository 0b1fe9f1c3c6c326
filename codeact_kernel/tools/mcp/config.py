"""`mcpServers` files: which servers there are, and how each is reached.

Comes in: the JSON that Claude Code, VS Code, Cursor and others read, from a file or as a mapping, and the environment.
Goes out: a `Server` for each, checked, with its variables filled in.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from codeact_kernel.errors import ConfigError
from codeact_kernel.masking import is_secret_name, url_password
from codeact_kernel.sizes import parse_size
from codeact_kernel.tools.mcp.names import Secrets, identifier

START_TIMEOUT = 30.0
"""Seconds in which a server has to be ready, its listing included. Claude Code's value."""
TIMEOUT = 600.0
"""Seconds that a call may take where nothing else is said. Ours: blocks have a deadline of their own, so this only
ends what nobody waits for any more."""
MAX_RESULT = 10 * 2**20
"""Bytes of one message of a server that are taken."""

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_NAME = re.compile(r"(?:env:)?([A-Za-z_]\w*)(?::-(.*))?", re.DOTALL)
_SECRET = re.compile(r"(?:\w+ )?(?=\S*\d)(?=\S*[A-Za-z])[^\s/]{16,}")
"""What looks like a token: long, in one piece, of letters and digits, and no path."""
_PLAIN = frozenset({"HOME", "USER", "LOGNAME", "PWD", "SHELL", "TMPDIR", "LANG"})
"""Variables whose values are no secrets."""
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""RFC 9110's token."""


@dataclass(frozen=True, slots=True)
class Server:
    """One server: a program that is started, or an address. Its values are never shown."""

    name: str
    """As the file writes it."""
    command: tuple[str, ...] = field(default=(), repr=False)
    """The program and its arguments; empty where it is reached by `url`."""
    cwd: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    start_timeout: float = START_TIMEOUT
    timeout: float = TIMEOUT
    max_result: int = MAX_RESULT
    key: str = ""
    """What its listing is kept under: the same for the same server, and it tells no secret."""
    secrets: Secrets = field(default_factory=Secrets, repr=False, compare=False)

    @property
    def group(self) -> str:
        """Its tools as code writes them: "mcp.github"."""
        return f"mcp.{identifier(self.name)}"


_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Entry(BaseModel):
    """One server as it stands in a file. Other programs' keys are left alone."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    type: Literal["stdio", "http", "streamable-http", "streamableHttp", "sse"] | None = None
    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    disabled: bool = False
    timeout: _Seconds = TIMEOUT
    startTimeout: _Seconds = START_TIMEOUT  # noqa: N815
    maxResult: int | str = MAX_RESULT  # noqa: N815


def read_servers(
    source: Path | str | Mapping[str, Any], *, workspace: Path, env: Mapping[str, str] | None = None
) -> list[Server]:
    """Read the servers of a file.

    Args:
        source: The file's path, or what such a file holds: `{"mcpServers": {name: {…}}}`; `servers`, as VS Code
            writes it, is the same.
        workspace: What `${workspaceFolder}` stands for, and where programs run that name no folder.
        env: The environment that `${VAR}` is taken from; None takes that of the process.

    Returns:
        The servers in order, without those that are disabled.

    Raises:
        ConfigError: If it cannot be read or something in it is wrong; the file, server and key are named.
    """
    label, content = _load(source)
    tables = [(key, content[key]) for key in ("mcpServers", "servers") if key in content]
    if not tables or not isinstance(tables[0][1], dict):
        raise ConfigError(f'{label} has no servers: write {{"mcpServers": {{"NAME": {{"command": "…"}}}}}}')
    table, entries = tables[0]
    found: dict[str, Server] = {}
    for name, entry in entries.items():
        where = f"{label}: {table}.{name}"
        server = _server(where, str(name), entry, workspace, os.environ if env is None else env)
        if server is None:
            continue
        if server.group in found:
            raise ConfigError(f"{where}: code would call it {server.group}, like {found[server.group].name}")
        found[server.group] = server
    return list(found.values())


def secrets_of(server: Server) -> dict[str, str]:
    """What of a server's values is a secret, by name: by what its variable or header is called, or by its looks.

    Not all of them: the path of the workspace may be one, and is to be read everywhere.

    Args:
        server: The server.
    """
    given = {**server.headers, **server.env, **dict(parse_qsl(urlsplit(server.url).query))}
    found = {name: value for name, value in given.items() if is_secret_name(name) or _SECRET.fullmatch(value)}
    found["url"] = url_password(server.url)
    return {f"{name} of {server.name}": value for name, value in found.items() if value}


def _load(source: Path | str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    if isinstance(source, Mapping):
        return "mcp", dict(source)
    path = Path(source).expanduser()
    try:
        content = json.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"the MCP servers of {path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no JSON: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path} has to hold an object with mcpServers")
    return str(path), content


def _server(where: str, name: str, content: Any, workspace: Path, env: Mapping[str, str]) -> Server | None:
    if not name or ":" in name or not name.isprintable():
        raise ConfigError(f"{where}: a server's name is not empty, and has no colon or control character")
    if not isinstance(content, dict):
        raise ConfigError(f"{where}: a server is an object with a command or a url")
    try:
        entry = _Entry.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join((where, *map(str, first["loc"])))
        raise ConfigError(f"{place}: {first['msg']}") from None
    if entry.disabled:
        return None
    if bool(entry.command) == bool(entry.url):
        raise ConfigError(f"{where}: a server has either a command or a url")
    if entry.type == "sse":
        raise ConfigError(
            f"{where}.type: servers of the old transport (sse) are not supported; most offer streamable HTTP, "
            'too: "type": "http", often at a path that ends in /mcp'
        )
    if entry.type is not None and (entry.type == "stdio") != bool(entry.command):
        raise ConfigError(
            f"{where}.type: {entry.type} needs a {'command' if entry.type == 'stdio' else 'url'}"
        )
    return _filled(where, name, entry, workspace, env)


def _filled(where: str, name: str, entry: _Entry, workspace: Path, env: Mapping[str, str]) -> Server:
    """A server with its variables filled in."""
    secret: set[str] = set()

    def fill(key: str, text: str, hide: bool = False) -> str:
        value = _VARIABLE.sub(lambda m: _value(f"{where}.{key}", m[1], workspace, env, secret), text)
        if "\0" in value:
            raise ConfigError(f"{where}.{key}: there is a NUL character in it")
        secret.update({value} if hide else ())
        return value

    command = [fill("command", entry.command)] if entry.command else []
    command += [fill(f"args.{number}", arg) for number, arg in enumerate(entry.args)] if command else []
    variables = {key: fill(f"env.{key}", value, hide=True) for key, value in entry.env.items()}
    headers = {key: fill(f"headers.{key}", value, hide=True) for key, value in entry.headers.items()}
    url = fill("url", entry.url) if entry.url else ""
    _check_http(where, url, headers, secret)
    cwd = workspace / Path(fill("cwd", entry.cwd)).expanduser() if entry.cwd else workspace
    return Server(
        name=name,
        command=tuple(command),
        cwd=cwd if command else None,
        env=variables,
        url=url,
        headers=headers,
        start_timeout=entry.startTimeout,
        timeout=entry.timeout,
        max_result=_size(f"{where}.maxResult", entry.maxResult),
        key=_key(name, entry),
        secrets=Secrets(secret),
    )


def _value(place: str, reference: str, workspace: Path, env: Mapping[str, str], secret: set[str]) -> str:
    """What `${reference}` stands for."""
    folders: dict[str, Callable[[], Path]] = {
        "workspaceFolder": workspace.absolute,
        "userHome": Path.home,
    }
    if reference in folders:
        return str(folders[reference]())
    match = _NAME.fullmatch(reference)
    if match is None:
        raise ConfigError(
            f"{place}: ${{{reference}}} is not known; write ${{VARIABLE}} or ${{VARIABLE:-default}}"
        )
    variable, default = match[1], match[2]
    value = env.get(variable) or (env.get(variable) if default is None else default)
    if value is None:
        raise ConfigError(
            f"{place}: the variable {variable} is not set; set it, or write ${{{variable}:-default}}"
        )
    if variable not in _PLAIN and variable in env:
        secret.add(value)
    return value


def _check_http(where: str, url: str, headers: Mapping[str, str], secret: set[str]) -> None:
    if url:
        try:
            parts = urlsplit(url)
            good = parts.scheme in ("http", "https") and bool(parts.hostname)
            _ = parts.port
        except ValueError:
            good = False
        if not good:
            raise ConfigError(f"{where}.url: that is no http:// or https:// address")
        secret.update(filter(None, [parts.password, *(value for _, value in parse_qsl(parts.query))]))
    for key, value in headers.items():
        if not _HEADER.fullmatch(key) or not value.isascii() or not value.isprintable():
            raise ConfigError(f"{where}.headers.{key}: that is no HTTP header: plain ASCII, on one line")


def _size(place: str, value: int | str) -> int:
    try:
        return parse_size(str(value))
    except ValueError as error:
        raise ConfigError(f"{place}: {error}") from None


def _key(name: str, entry: _Entry) -> str:
    # As it is written: what variables stand for is not in it.
    what = [name, entry.command, entry.args, entry.cwd, entry.url, sorted(entry.env), sorted(entry.headers)]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:32]
