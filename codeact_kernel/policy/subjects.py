"""What is judged: a block or a call, as rules see it.

Comes in: blocks, calls of tools. Goes out: `Subject`: its name, classes and arguments, where its paths lead, which
hosts and commands it names. Which arguments are paths, addresses and commands is told by their names.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from codeact_kernel.approval import Call, Door, ToolClass
from codeact_kernel.blocks import Block, CodeBlock
from codeact_kernel.policy import commands
from codeact_kernel.policy.commands import Simple
from codeact_kernel.policy.hosts import host_of
from codeact_kernel.policy.paths import Places

PATHS = frozenset({
    "path", "paths", "file", "files", "filename", "filenames", "file_path", "file_paths", "filepath", "dir",
    "directory", "folder", "cwd", "source", "destination", "src", "dst", "target",
})  # fmt: skip
"""Arguments that are paths."""
URLS = frozenset(("url", "urls", "uri", "uris", "href", "endpoint", "base_url"))
"""Arguments that are addresses."""
COMMANDS = frozenset(("command", "commands", "cmd", "shell_command"))
"""Arguments that are commands: a text for a shell, unless `shell` is false or it is run_command's, or a list."""
UNKNOWN: tuple[ToolClass, ...] = ("write", "network")
"""What a tool does of which nobody says it."""
RUN_CODE, RUN_AGENT = "run_code", "run_agent"


@dataclass(frozen=True)
class Subject:
    """A block or a call."""

    door: Door
    name: str
    arguments: Mapping[str, Any]
    places: Places
    classes: tuple[ToolClass, ...] = ()
    """What a call does; empty for a block."""

    @cached_property
    def given_paths(self) -> dict[str, str | None]:
        """Its paths as they were given, each with where it leads; None where that is nowhere."""
        return {path: self._resolved(path) for path in _texts(self.arguments, PATHS)}

    @cached_property
    def paths(self) -> tuple[str | None, ...]:
        """Where its paths lead, those in its commands too."""
        return (
            *self.given_paths.values(),
            *(path for simple in self.commands for path in self.paths_of(simple)),
        )

    @cached_property
    def hosts(self) -> tuple[str | None, ...]:
        """The hosts of its addresses; None for an address that cannot be read."""
        return tuple(host for host in map(_host, _texts(self.arguments, URLS)) if host != "")

    @cached_property
    def hosts_in_commands(self) -> tuple[str | None, ...]:
        """The hosts of addresses in its commands."""
        words = (word for simple in self.commands for word in simple.words)
        found = (_host(word) for word in words if word is not None and ("://" in word or "." in word))
        return tuple(host for host in found if host != "")

    @cached_property
    def commands(self) -> tuple[Simple, ...]:
        """The simple commands that it runs."""
        fed = bool(self.arguments.get("stdin"))
        shell = self.arguments.get("shell", self.name != "run_command")
        found: list[Simple] = []
        for name in COMMANDS & self.arguments.keys():
            found += _split(self.arguments[name], bool(shell), fed)
        return tuple(found)

    def paths_of(self, simple: Simple) -> tuple[str | None, ...]:
        """Where the paths of one of its commands lead.

        Args:
            simple: The command.
        """
        base = self._resolved(str(self.arguments.get("cwd") or "."))
        return tuple(
            None if path is None or base is None else self._resolved(path, base) for path in simple.paths
        )

    def _resolved(self, path: str, base: str | None = None) -> str | None:
        try:
            return self.places.resolve(path, base)
        except (ValueError, OSError):
            return None


def of_block(block: Block, places: Places) -> Subject:
    """A block that wants to start.

    Args:
        block: The block.
        places: The workspace's paths.
    """
    if isinstance(block, CodeBlock):
        return Subject("block", RUN_CODE, {"code": block.code}, places)
    given = {"task": block.task, "model": block.model, "namespace": list(block.namespace)}
    return Subject("block", RUN_AGENT, {name: value for name, value in given.items() if value}, places)


def of_call(call: Call, places: Places, arguments: Mapping[str, Any] | None = None) -> Subject:
    """A call that wants to be made.

    Args:
        call: The call.
        places: The workspace's paths.
        arguments: Instead of its own.
    """
    given = call.arguments if arguments is None else arguments
    return Subject("call", call.name, given, places, call.classes or UNKNOWN)


def as_text(value: Any) -> str:
    """An argument as patterns see it: a text as it is, else JSON.

    Args:
        value: The argument.
    """
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=repr)


def _texts(arguments: Mapping[str, Any], names: frozenset[str]) -> Iterator[str]:
    for name, value in arguments.items():
        if name.lower() in names:
            for text in value if isinstance(value, list | tuple) else (value,):
                if isinstance(text, str | os.PathLike):
                    yield os.fspath(text)


def _host(url: str) -> str | None:
    try:
        return host_of(url)
    except ValueError:
        return None


def _split(command: Any, shell: bool, fed: bool) -> tuple[Simple, ...]:
    if isinstance(command, str) and not shell:
        try:
            command = shlex.split(command)
        except ValueError:
            return (Simple((), doubt="it cannot be split into words"),)
    if isinstance(command, str):
        return commands.split_line(command, fed)
    if isinstance(command, list | tuple):
        return commands.of_arguments([str(word) for word in command], fed)
    return (Simple((), doubt="it is no text and no list"),)
