"""Rules: what is denied, asked and allowed.

Comes in: the tables `[rules]` of settings files, and ours in `defaults.toml`. Goes out: `Rules`, which say for a
subject whether one of them denies it, asks about it or allows it. A rule holds where all that it says holds; of several
values of one key one is enough. A denial or a question is there as soon as one part of the subject is meant; what is
allowed has to be meant as a whole.
"""

from __future__ import annotations

import difflib
import fnmatch
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Literal

from codeact_kernel.approval import CLASSES
from codeact_kernel.errors import ConfigError
from codeact_kernel.policy import commands, hosts
from codeact_kernel.policy.commands import Simple
from codeact_kernel.policy.subjects import COMMANDS, PATHS, URLS, Subject, as_text

Effect = Literal["deny", "ask", "allow"]
EFFECTS: tuple[Effect, ...] = ("deny", "ask", "allow")
KEYS = ("tool", "kind", "path", "command", "host", "arguments", "reason")
DEFAULTS = "defaults.toml"
_MISSPELT = "did you mean {!r}? "


@dataclass(frozen=True)
class Rule:
    """One rule."""

    effect: Effect
    tools: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    hosts: tuple[str, ...] = ()
    arguments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reason: str = ""
    """What the model reads besides."""
    words: str = ""
    """It as it was written, and where."""

    @property
    def looks(self) -> bool:
        """Whether it looks at what arguments hold."""
        return bool(self.paths or self.commands or self.hosts or self.arguments)

    def may(self, subject: Subject) -> bool:
        """Whether it is about such subjects at all, whatever their arguments hold."""
        names = {name.lower() for name in subject.arguments}
        return (
            self._is_about(subject)
            and (not self.paths or bool(names & (PATHS | COMMANDS)))
            and (not self.hosts or bool(names & (URLS | COMMANDS)))
            and (not self.commands or bool(names & COMMANDS))
            and all(name in subject.arguments for name in self.arguments)
        )

    def touches(self, subject: Subject) -> bool:
        """Whether some part of a subject is meant, or may be."""
        return (
            self._is_about(subject)
            and (not self.kinds or bool(set(self.kinds) & set(subject.classes)))
            and self._has_arguments(subject)
            and (not self.paths or any(self._is_path(subject, path, True) for path in subject.paths))
            and (not self.hosts or any(map(self._is_host, (*subject.hosts, *subject.hosts_in_commands))))
            and (not self.commands or any(map(self._is_command, subject.commands)))
        )

    def covers(self, subject: Subject, simple: Simple | None) -> bool:
        """Whether a subject is meant as a whole, or one of its commands is, beyond doubt.

        Args:
            subject: The subject.
            simple: The command; None where it runs none.
        """
        if not self._is_about(subject) or not self._has_arguments(subject):
            return False
        if self.kinds and not set(subject.classes) <= set(self.kinds):
            return False
        found = [*subject.given_paths.values(), *(subject.paths_of(simple) if simple else ())]
        if self.paths and (not found and simple is None):
            return False
        if self.paths and not all(path and self._is_path(subject, path, False) for path in found):
            return False
        if self.hosts and not (subject.hosts and all(host and self._is_host(host) for host in subject.hosts)):
            return False
        if not self.commands:
            return True
        if simple is None or (simple.targets and not self.paths):
            return False
        return any(commands.covers(pattern, simple) for pattern in self.commands)

    def _is_about(self, subject: Subject) -> bool:
        if self.kinds and not subject.classes:
            return False
        name = subject.name.replace(".", ":")
        return not self.tools or any(fnmatch.fnmatchcase(name, tool) for tool in self.tools)

    def _has_arguments(self, subject: Subject) -> bool:
        given = subject.arguments
        return all(
            name in given and any(fnmatch.fnmatchcase(as_text(given[name]), pattern) for pattern in patterns)
            for name, patterns in self.arguments.items()
        )

    def _is_path(self, subject: Subject, path: str | None, outside: bool) -> bool:
        """Whether a path is meant; one that is not known may be."""
        if path is None:
            return outside
        return any(subject.places.matches(pattern, path, outside=outside) for pattern in self.paths)

    def _is_host(self, host: str | None) -> bool:
        return host is None or any(hosts.matches(pattern, host) for pattern in self.hosts)

    def _is_command(self, simple: Simple) -> bool:
        return any(commands.touches(pattern, simple) for pattern in self.commands)


@dataclass(frozen=True)
class Rules:
    """Rules, by what they do."""

    deny: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    allow: tuple[Rule, ...] = ()
    defaults: bool = True
    """Whether ours hold besides."""

    def __add__(self, other: Rules) -> Rules:
        return Rules(
            self.deny + other.deny,
            self.ask + other.ask,
            self.allow + other.allow,
            self.defaults and other.defaults,
        )

    def look_at(self, subject: Subject, effects: Iterable[Effect] = EFFECTS) -> bool:
        """Whether one of them may look at what the arguments of such a subject hold.

        Args:
            subject: The subject.
            effects: The rules that count.
        """
        return any(rule.looks and rule.may(subject) for effect in effects for rule in self._of(effect))

    def _of(self, effect: Effect) -> tuple[Rule, ...]:
        return {"deny": self.deny, "ask": self.ask, "allow": self.allow}[effect]

    def __str__(self) -> str:
        """The rules, as they were written."""
        written = [rule.words for effect in EFFECTS for rule in self._of(effect)]
        return "; ".join([*written, *([] if self.defaults else ["without the defaults"])])

    def __bool__(self) -> bool:
        """Whether they say anything."""
        return bool(self.deny or self.ask or self.allow or not self.defaults)

    def denying(self, subject: Subject) -> Rule | None:
        """The first rule that denies a subject."""
        return next((rule for rule in self.deny if rule.touches(subject)), None)

    def asking(self, subject: Subject) -> Rule | None:
        """The first rule that asks about a subject."""
        return next((rule for rule in self.ask if rule.touches(subject)), None)

    def doubt(self, subject: Subject) -> str:
        """Why it cannot be told whether a rule about commands denies a subject or asks about it; else empty."""
        if not any(rule.commands and rule.may(subject) for rule in (*self.deny, *self.ask)):
            return ""
        return next((simple.doubt for simple in subject.commands if simple.doubt), "")

    def allowing(self, subject: Subject) -> Rule | None:
        """A rule that allows a subject; of one that runs several commands, each has to be allowed by one."""
        parts: Sequence[Simple | None] = subject.commands or (None,)
        found = [next((rule for rule in self.allow if rule.covers(subject, part)), None) for part in parts]
        return None if None in found else found[0]


def read_rules(table: Mapping[str, Any], where: str) -> Rules:
    """Read a table of rules.

    Args:
        table: By "deny", "ask" and "allow" a list; each rule is the name of a tool, or a table. "defaults" is whether
            ours hold besides.
        where: What it is called in errors and in what the model reads.

    Raises:
        ConfigError: If something of it is wrong.
    """
    _check_keys(table, (*EFFECTS, "defaults"), f"{where}: rules")
    if not isinstance(table.get("defaults", True), bool):
        raise ConfigError(f"{where}: rules.defaults is true or false")
    made: dict[Effect, tuple[Rule, ...]] = {}
    for effect in EFFECTS:
        rules = table.get(effect, [])
        if not isinstance(rules, list):
            raise ConfigError(f"{where}: rules.{effect} takes a list of tools' names and tables")
        made[effect] = tuple(_rule(effect, rule, where) for rule in rules)
    return Rules(**made, defaults=table.get("defaults", True))


def default_rules() -> Rules:
    """The rules that hold besides those of the settings."""
    return read_rules(tomllib.loads(files(__package__).joinpath(DEFAULTS).read_text("utf-8")), "the defaults")


def _rule(effect: Effect, rule: Any, where: str) -> Rule:
    words = f"{effect} {_written(rule)} of {where}"
    if isinstance(rule, str):
        rule = {"tool": rule}
    if not isinstance(rule, Mapping) or not rule.keys() - {"reason"}:
        raise ConfigError(
            f"{where}: rules.{effect} holds {_written(rule)}; a rule is a tool's name, or a table"
        )
    _check_keys(rule, KEYS, f"{where}: a rule of {effect}")
    read = _Reader(rule, f"{where}: rules.{effect}: {_written(rule)}")
    return Rule(
        effect,
        tuple(tool.replace(".", ":") for tool in read.texts("tool")),
        read.each("kind", _kind),
        read.texts("path"),
        read.each("command", commands.read_pattern),
        read.each("host", hosts.read_pattern),
        read.arguments(),
        " ".join(read.texts("reason")),
        words,
    )


class _Reader:
    """Reads the values of one rule."""

    def __init__(self, rule: Mapping[str, Any], where: str) -> None:
        self._rule = rule
        self._where = where

    def texts(self, key: str) -> tuple[str, ...]:
        return self._texts(key, self._rule.get(key, ()))

    def each(self, key: str, read: Callable[[str], Any]) -> tuple[Any, ...]:
        try:
            return tuple(map(read, self.texts(key)))
        except ValueError as error:
            raise ConfigError(f"{self._where}: {error}") from error

    def arguments(self) -> dict[str, tuple[str, ...]]:
        table = self._rule.get("arguments", {})
        if not isinstance(table, Mapping):
            raise ConfigError(f"{self._where}: arguments is a table of patterns by argument")
        return {name: self._texts(f"arguments.{name}", value) for name, value in table.items()}

    def _texts(self, key: str, value: Any) -> tuple[str, ...]:
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) and text for text in texts):
            raise ConfigError(f"{self._where}: {key} takes a text, or a list of texts")
        if key in self._rule and not texts:
            raise ConfigError(f"{self._where}: {key} is empty, so the rule would mean nothing")
        return tuple(texts)


def _kind(kind: str) -> str:
    if kind not in CLASSES:
        raise ValueError(f"{kind!r} is no kind of tool; a kind is one of {', '.join(CLASSES)}")
    return kind


def _check_keys(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = _MISSPELT.format(near[0]) if near else ""
            raise ConfigError(f"{where}: {key!r} is no key; {hint}known are {', '.join(known)}")


def _written(value: Any) -> str:
    """A rule as TOML has it."""
    match value:
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case Mapping():
            return "{" + ", ".join(f"{key} = {_written(part)}" for key, part in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_written, value)) + "]"
        case _:
            return repr(value)
