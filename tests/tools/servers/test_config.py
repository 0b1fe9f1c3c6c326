"""Files of servers: what other programs read is read, and what is wrong is named with its place."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from codeact_kernel.errors import ConfigError
from codeact_kernel.tools.mcp import open as opening
from codeact_kernel.tools.mcp import open_servers
from codeact_kernel.tools.mcp.config import read_servers

ENV = {"HOME": "~may", "TOKEN": "tok-12345", "EMPTY": ""}


def read(tmp_path, servers, key="mcpServers"):
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({key: servers}))
    return read_servers(path, workspace=tmp_path, env=ENV)


def wrong(tmp_path, servers):
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, servers)
    return str(caught.value).replace(str(tmp_path), ".")


def test_a_program_and_an_address_are_read(tmp_path):
    servers = {
        "files": {"command": "npx", "args": ["-y", "files", "${HOME}/x"], "env": {"PORT": 8080}},
        "far": {
            "type": "http",
            "url": "https://example.org/mcp",
            "headers": {"Authorization": "Bearer ${TOKEN}"},
        },
    }
    files, far = read(tmp_path, servers)
    assert files.command == ("npx", "-y", "files", "~may/x")
    assert files.env == {"PORT": "8080"}
    assert files.cwd == tmp_path
    assert files.group == "mcp.files"
    assert far.headers == {"Authorization": "Bearer tok-12345"}


@pytest.mark.parametrize("kind", ["http", "streamable-http", "streamableHttp", None])
def test_the_key_and_types_of_other_programs_are_taken(tmp_path, kind):
    entry = {"url": "http://localhost/mcp", "alwaysAllow": ["x"], **({"type": kind} if kind else {})}
    (server,) = read(tmp_path, {"a": entry, "b": {"command": "x", "disabled": True}}, key="servers")
    assert server.url == "http://localhost/mcp"


def test_what_a_file_would_hold_is_taken_too(tmp_path):
    (server,) = read_servers({"mcpServers": {"a": {"command": "x"}}}, workspace=tmp_path)
    assert server.command == ("x",)


def test_variables_have_defaults(tmp_path):
    text = "${TOKEN}|${env:TOKEN}|${NONE:-a:-b}|${EMPTY:-d}|${EMPTY}|${workspaceFolder}|$TOKEN"
    (server,) = read(tmp_path, {"a": {"command": "x", "args": [text]}})
    assert server.command[1] == f"tok-12345|tok-12345|a:-b|d||{tmp_path}|$TOKEN"


def test_times_and_sizes_are_settable(tmp_path):
    entry = {"command": "x", "timeout": 5, "startTimeout": 0.5, "maxResult": "1MiB"}
    (server,) = read(tmp_path, {"a": entry})
    assert (server.timeout, server.start_timeout, server.max_result) == (5, 0.5, 2**20)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({}, "./mcp.json: mcpServers.a: a server has either a command or a url"),
        (
            {"command": "x", "url": "http://h"},
            "./mcp.json: mcpServers.a: a server has either a command or a url",
        ),
        ([], "./mcp.json: mcpServers.a: a server is an object with a command or a url"),
        ({"command": 7, "args": "y"}, "./mcp.json: mcpServers.a.args: Input should be a valid list"),
        (
            {"command": "x", "env": {"A": ["tok"]}},
            "./mcp.json: mcpServers.a.env.A: Input should be a valid string",
        ),
        ({"command": "x", "timeout": 0}, "./mcp.json: mcpServers.a.timeout: Input should be greater than 0"),
        ({"command": "x", "args": ["${NO}"]}, "./mcp.json: mcpServers.a.args.0: the variable NO is not set"),
        (
            {"command": "x", "env": {"K": "${input:k}"}},
            "./mcp.json: mcpServers.a.env.K: ${input:k} is not known",
        ),
        ({"command": "x", "maxResult": "big"}, "./mcp.json: mcpServers.a.maxResult: 'big' is no size"),
        ({"url": "ftp://h"}, "./mcp.json: mcpServers.a.url: that is no http:// or https:// address"),
        ({"url": "http://h:x/"}, "./mcp.json: mcpServers.a.url: that is no http:// or https:// address"),
        (
            {"url": "http://h", "headers": {"A": "b\nc"}},
            "./mcp.json: mcpServers.a.headers.A: that is no HTTP header",
        ),
        (
            {"url": "http://h", "type": "sse"},
            "./mcp.json: mcpServers.a.type: servers of the old transport (sse)",
        ),
        ({"url": "http://h", "type": "stdio"}, "./mcp.json: mcpServers.a.type: stdio needs a command"),
        ({"command": "x", "type": "http"}, "./mcp.json: mcpServers.a.type: http needs a url"),
        ({"command": "x", "type": "pigeon"}, "./mcp.json: mcpServers.a.type: Input should be 'stdio'"),
        ({"command": "a\0b"}, "./mcp.json: mcpServers.a.command: there is a NUL character in it"),
    ],
)
def test_what_is_wrong_is_named_with_file_server_and_key(tmp_path, entry, text):
    assert wrong(tmp_path, {"a": entry}).startswith(text)


@pytest.mark.parametrize("name", ["", "a:b", "a\nb"])
def test_a_name_that_no_code_could_write_is_refused(tmp_path, name):
    assert "a server's name" in wrong(tmp_path, {name: {"command": "x"}})


def test_two_servers_that_code_would_call_the_same_are_refused(tmp_path):
    text = wrong(tmp_path, {"a-b": {"command": "x"}, "a_b": {"command": "x"}})
    assert text == "./mcp.json: mcpServers.a_b: code would call it mcp.a_b, like a-b"


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"mcpServers": []}', "[" * 100_000])
def test_a_file_that_is_none_is_told_in_one_line(tmp_path, content):
    path = tmp_path / "mcp.json"
    path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        read_servers(path, workspace=tmp_path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere.json cannot be read: No such file"):
        read_servers(tmp_path / "nowhere.json", workspace=tmp_path)


def test_no_value_is_shown_and_none_is_in_the_key(tmp_path):
    entry = {"url": "https://u:pass-word@h/?key=abcdefgh", "headers": {"X": "one two-three"}}
    program = {"command": "x", "args": ["--token=${TOKEN}"], "env": {"A": "sesame-open"}}
    far, near = read(tmp_path, {"a": entry, "b": program})
    for secret in ("pass-word", "abcdefgh", "two-three", "tok-12345", "sesame-open"):
        assert secret not in repr(far) + repr(near)
        assert secret not in far.secrets.hide(near.secrets.hide(f"it is {secret}!"))
    other, _ = read(tmp_path, {"a": {**entry, "headers": {"X": "another"}}, "b": program})
    assert other.key == far.key
    assert far.key != near.key


def test_without_the_sdk_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "OLDEST", 99)
    with pytest.raises(ConfigError, match=r"pip install 'codeact-kernel\[mcp\]'"):
        open_servers({"mcpServers": {}}, workspace=tmp_path, notice=print)


async def test_opening_starts_nothing(tmp_path):
    (toolset,) = open_servers(
        {"mcpServers": {"a-b": {"command": "no-such-program"}}},
        workspace=tmp_path,
        notice=print,
        logs=lambda: pytest.fail("nothing is logged yet"),
    )
    assert (toolset.name, toolset.about, toolset.known()) == ("mcp.a_b", "", None)
    await toolset.aclose()
    assert not (tmp_path / "run").exists()


def test_the_sdk_is_not_loaded_before_a_server_is_needed(tmp_path):
    code = (
        "import sys, pathlib; from codeact_kernel.tools.mcp import open_servers;"
        "open_servers({'mcpServers': {'a': {'command': 'x'}}}, workspace=pathlib.Path(), notice=print)[0].known();"
        "print([name for name in sys.modules if name.partition('.')[0] in ('mcp', 'mcp_types', 'httpx2')])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert ran.stdout == "[]\n"
