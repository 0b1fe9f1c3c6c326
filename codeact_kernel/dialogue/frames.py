"""Reports, framed: how the runtime writes to the model.

Comes in: reports, and what the model wrote down at a compaction. Goes out: text in which each report stands
in tags of its own. A body that holds one of our tags where it would be misread travels inside a boundary,
so no output can imitate a note, a reminder or another result, and no body is ever changed for that.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from codeact_kernel.controls import sendable
from codeact_kernel.dialogue.format import attribute
from codeact_kernel.dialogue.vocabulary import holds_tag, imitates
from codeact_kernel.events import Knowledge, Observation, Report

_INLINE = ("note", "reminder", "fault")


class Framer:
    """Frames reports; the same report always in the same way, so that a context only grows at its end.

    A boundary's word is a keyed hash of the report. So it is fresh for each report, cannot be foreseen by
    what produced the body, and is the same in the next request.

    Args:
        secret: The key. None takes a random one; a resumed run that gives its old key keeps its old words,
        and
            with them what the endpoint has cached.
    """

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = secrets.token_bytes(16) if secret is None else secret

    def frame(self, report: Report) -> str:
        """Write one report in its tags."""
        attrs = list(report.attrs)
        if report.id is not None:
            name = report.id.partition("#")[0]
            attrs.insert(0, ("name" if report.kind == "agent_result" else "id", name))
        return self._frame(report.kind, attrs, report.body)

    def observation(self, observation: Observation) -> str:
        """Write all reports of an observation, one below the other."""
        return "\n".join(map(self.frame, observation.reports))

    def knowledge(self, entry: Knowledge) -> str:
        """Write what the model wrote down, and below it what is alive."""
        parts = [("knowledge", entry.text), ("alive", entry.inventory)]
        return "\n".join(self._frame(tag, [], body) for tag, body in parts if body)

    def _frame(self, tag: str, attrs: list[tuple[str, str]], body: str) -> str:
        opening = tag + sendable("".join(attribute(name, value) for name, value in attrs))
        body = sendable(body)
        if tag in _INLINE and body.splitlines() in ([], [body]) and not holds_tag(body):
            return f"<{opening}>{body}</{tag}>"
        boundary = attribute("boundary", self._word(opening, body)) if imitates(body) else ""
        lines = f"{body}\n" if body else ""
        return f"<{opening}{boundary}>\n{lines}</{tag}{boundary}>"

    def _word(self, opening: str, body: str) -> str:
        key, text, number = self._secret, f"{opening}>{body}".encode(), 0
        while True:
            word = hmac.new(key, b"%d:%s" % (number, text), hashlib.sha256).hexdigest()[:8]
            if word not in body:
                return word
            number += 1
