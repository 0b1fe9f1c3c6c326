"""The gate: decides about blocks before they start, and about calls of tools before they are made.

Comes in: subjects, with the mode, the rules and whoever can be asked. Goes out: rulings; where one asks, the answer of
a person. All agents of a run share one gate, and so what a person has said "always" to. It is asked in one place for
each door (`doors.py`).

What counts, first to last: a rule that denies; in the mode "deny-writes" what the call does; in the mode "auto" that
nothing is asked; what a person has allowed for the run; a rule that asks; a rule that allows; what the mode says of the
rest.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from codeact_kernel.approval import Answer, Approver, Mode, Request, ToolClass
from codeact_kernel.errors import CodeactError
from codeact_kernel.events import DecidedBy
from codeact_kernel.policy.paths import Places
from codeact_kernel.policy.rules import EFFECTS, Rules, default_rules
from codeact_kernel.policy.subjects import Subject

RISKY = frozenset(("write", "destructive", "network"))
"""What the mode "ask" asks about."""
CHANGING = frozenset(("write", "destructive"))
"""What the mode "deny-writes" denies."""
_KNOWN = 1000
"""Kinds of calls of which it is remembered that no rule looks at their arguments."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What comes of a subject."""

    effect: Literal["allow", "ask", "deny"]
    by: DecidedBy
    why: str
    """The rule or the mode, in words."""
    reason: str = ""
    """What the rule says to the model."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a person has allowed for the rest of a run."""

    key: str
    """Empty where it would let nothing pass."""
    words: str


class Gate:
    """Decides.

    Args:
        workspace: Where relative paths count from.
        mode: What holds where no rule does.
        rules: Those of the settings.
        approver: Who is asked; None where nobody can be: what would be asked is then denied.
    """

    def __init__(
        self,
        workspace: Path,
        mode: Mode = "auto",
        rules: Rules | None = None,
        approver: Approver | None = None,
    ) -> None:
        self.mode = mode
        self.places = Places(workspace)
        rules = Rules() if rules is None else rules
        self.rules = rules + default_rules() if rules.defaults else rules
        self.approver = approver
        self._places: dict[str, Places] = {}
        self._one = asyncio.Lock()
        self._always: set[str] = set()
        self._plain: dict[tuple[Any, ...], Ruling | None] = {}

    def places_of(self, folder: str) -> Places:
        """The paths of a tool.

        Args:
            folder: From where they count; empty for the workspace.
        """
        if not folder:
            return self.places
        if folder not in self._places:
            self._places[folder] = Places(Path(folder))
        return self._places[folder]

    def judge(self, subject: Subject) -> Ruling:
        """What comes of a subject, as far as nobody has to be asked.

        Args:
            subject: The subject.
        """
        key = _kind_of(subject)
        if key in self._plain:
            known = self._plain[key]
        else:
            # Where no rule looks at its arguments they need not be read, and most calls are of that kind.
            looks = self.rules.look_at(subject, ("deny",) if self.mode == "auto" else EFFECTS)
            known = self._plain[key] = None if looks else self._by_rules(subject)
            if len(self._plain) > _KNOWN:
                del self._plain[next(iter(self._plain))]
        if known is None or known.effect == "ask":
            known = self._by_rules(subject)
        if known.effect == "ask" and self.approver is None:
            return Ruling("deny", "nobody", known.why, known.reason)
        return known

    def lets_all(self, name: str, classes: tuple[ToolClass, ...], arguments: Iterable[str]) -> bool:
        """Whether the mode lets such calls pass, and no rule looks at what their arguments hold, as far as is known.

        Args:
            name: The tool's full name.
            classes: What a call does.
            arguments: The names of its arguments.
        """
        known = self._plain.get((name, classes, *arguments))
        return known is not None and known.effect == "allow" and known.by == "mode"

    def is_plain(self, subject: Subject) -> bool:
        """Whether a subject that was judged is one of those whose arguments no rule looks at."""
        return self._plain.get(_kind_of(subject)) is not None

    async def ask(
        self, subject: Subject, request: Callable[[str], Awaitable[Request]]
    ) -> tuple[Ruling, Answer]:
        """Ask about a subject of which `judge` says so: one question at a time, the oldest first.

        Args:
            subject: The subject.
            request: Makes the request, of why somebody is asked, when its turn has come.

        Returns:
            The ruling that holds by then, and the answer.
        """
        async with self._one:
            ruling = self.judge(subject)  # an "always" may have come meanwhile
            if ruling.effect != "ask" or self.approver is None:
                return ruling, Answer(ruling.effect == "allow")
            answer = await _answer(self.approver, await request(ruling.why))
            if answer.allowed and answer.always and standing(subject).key:
                self._always.add(standing(subject).key)
            return Ruling("ask", "person", ruling.why), answer

    def _by_rules(self, subject: Subject) -> Ruling:
        rules = self.rules
        if (rule := rules.denying(subject)) is not None:
            return Ruling("deny", "rule", rule.words, rule.reason)
        by_mode = self._by_mode(subject)
        if by_mode.effect == "deny" or self.mode == "auto":
            return by_mode
        if self._always and standing(subject).key in self._always:
            return Ruling("allow", "always", standing(subject).words)
        if (rule := rules.asking(subject)) is not None:
            return Ruling("ask", "rule", rule.words, rule.reason)
        if doubt := rules.doubt(subject):
            return Ruling("ask", "rule", f"no rule can judge the command: {doubt}")
        if (rule := rules.allowing(subject)) is not None:
            return Ruling("allow", "rule", rule.words)
        return by_mode

    def _by_mode(self, subject: Subject) -> Ruling:
        classes = set(subject.classes)
        words = f"the mode {self.mode}"
        match self.mode:
            case "auto":
                return Ruling("allow", "mode", words)
            case "deny-writes" if subject.door == "call" and classes & CHANGING:
                return Ruling("deny", "mode", f"{words} denies what changes something")
            case "deny-writes":
                return Ruling("allow", "mode", words)
            case "ask" if subject.door == "call" and not classes & RISKY:
                return Ruling("allow", "mode", words)
            case "ask":
                what = (
                    f"calls of kind {', '.join(subject.classes)}" if subject.door == "call" else "each block"
                )
                return Ruling("ask", "mode", f"{words} asks about {what}")
            case _:
                return Ruling("ask", "mode", f"{words} asks about what no rule allows")


def _kind_of(subject: Subject) -> tuple[Any, ...]:
    return (subject.name, subject.classes, *subject.arguments)


def standing(subject: Subject) -> Standing:
    """What an "always" to a subject lets pass: its name, with where it leads, or with all its arguments.

    Args:
        subject: The subject.
    """
    if subject.door == "block":
        return Standing(subject.name, f"every {subject.name} block, whatever is in it")
    paths, hosts = sorted(map(str, subject.given_paths.values())), sorted(map(str, subject.hosts))
    where, words = ([], "with exactly these arguments")
    if not subject.commands and None not in subject.hosts and None not in subject.given_paths.values():
        if paths and not hosts:
            where, words = (
                ["paths", *paths],
                f"on {', '.join(subject.given_paths)}, whatever else it is given",
            )
        elif hosts and not paths:
            where, words = ["hosts", *hosts], f"on {', '.join(hosts)}, whatever else it is given"
    try:
        exact = where or [json.dumps(dict(subject.arguments), sort_keys=True)]
    except (TypeError, ValueError):
        return Standing("", "")  # what it holds cannot be told from something that looks like it
    return Standing(json.dumps([subject.name, *exact]), f"{subject.name} {words}")


async def _answer(approver: Approver, request: Request) -> Answer:
    """Ask; what is no answer is a no."""
    try:
        if _is_async(approver):
            said = await approver(request)  # type: ignore[misc]
        else:
            said = await asyncio.to_thread(approver, request)
            said = await said if inspect.isawaitable(said) else said
    except CodeactError as error:
        return Answer(False, error.message)
    except Exception as error:
        return Answer(False, f"who should decide failed: {type(error).__name__}: {error}")
    if isinstance(said, bool):
        return Answer(said)
    if not isinstance(said, Answer):
        return Answer(False, f"who should decide said {said!r:.80}, which is no answer")
    return said


def _is_async(function: Any) -> bool:
    call = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
