"""Two records of the same blocks, side by side.

Comes in: two recorded runs. Goes out: for each block whether it ended and put out the same, or what only differs as
times, addresses and the like do, or something else.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import filterfalse, zip_longest
from typing import Any, Literal

from codeact_kernel.agent.recorded.pacing import GOES_ON
from codeact_kernel.agent.recorded.run import RecordedRun
from codeact_kernel.agent.remains import RESULTS
from codeact_kernel.controls import plain
from codeact_kernel.events import Entry, Knowledge, Observation, Reply, Task

Verdict = Literal["same", "volatile", "differs", "missing", "new"]

VOLATILE = (
    r"\b0x[0-9a-fA-F]{4,}\b",  # addresses
    r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b",
    r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?",
    r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?",
    r"\b\d+(?:\.\d+)?(?:e-?\d+)?\s?(?:ns|[µμu]s|ms|s|sec|seconds|min)\b(?: ± [^\n]*)?",
    r"\b1[5-9]\d{8}(?:\.\d+)?\b",  # seconds since the epoch
    r"\b(?:pid|PID|process)[ =:]{1,3}\d+",
    r"\bIn ?\[\d+\]",
    r"/tmp/[\w./-]+",
)
"""What differs from one time to the next and says nothing: ours; a user may add more."""
_WAITED = re.compile(r"\n\[it waited for [^\n]*\]")
"""The notes of what a block has waited for: with another time, for something else."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A block, in two records."""

    turn: int
    id: str
    verdict: Verdict
    before: str = ""
    """How it ended and what it put out, as text."""
    after: str = ""

    def difference(self, lines: int = 20) -> list[str]:
        """What differs, line by line.

        Args:
            lines: How many at most.
        """
        before, after = self.before.splitlines(), self.after.splitlines()
        found = list(difflib.unified_diff(before, after, "recorded", "now", lineterm="", n=1))[2:]
        more = [f"… {len(found) - lines} more lines"] if len(found) > lines else []
        return [*found[:lines], *more]


def compare(before: RecordedRun, after: RecordedRun, volatile: Sequence[str] = ()) -> list[Compared]:
    """Compare the blocks of two runs, turn by turn and in order.

    Args:
        before: The one that was recorded.
        after: The other one.
        volatile: Further patterns of what may differ, as regular expressions.

    Raises:
        ValueError: If one of them is no pattern.
    """
    pattern = _pattern(volatile, (place_of(before), place_of(after)))
    one, other = _turns(before), _turns(after)
    return [
        _compared(turn, left, right, pattern)
        for turn in sorted({*one, *other})
        for left, right in zip_longest(one.get(turn, ()), other.get(turn, ()))
    ]


def divergence(before: RecordedRun, after: RecordedRun, volatile: Sequence[str] = ()) -> Compared | None:
    """Where two conversations part: the first turn whose model had read something else.

    Blocks take another time each time: that a result is read in an earlier or later turn, and what a block has waited
    for, are no differences.

    Args:
        before: The run that was recorded.
        after: The other one.
        volatile: As for `compare`.

    Returns:
        The turn, with what was read before it; None where all was the same.

    Raises:
        ValueError: As for `compare`.
    """
    course = Course(before, place_of(after), volatile)
    for _, read in _read(after):
        if (parting := course.next(read)) is not None:
            return parting
    return course.missing


class Course:
    """What the model of a run had read before each of its replies, for a comparison that goes along with another one.

    Args:
        before: The run that was recorded.
        place: Where the other one's blocks run.
        volatile: As for `compare`.

    Raises:
        ValueError: As for `compare`.
    """

    def __init__(self, before: RecordedRun, place: str, volatile: Sequence[str] = ()) -> None:
        self._pattern = _pattern(volatile, (place_of(before), place))
        self._wanted = deque(_read(before))
        self._owed: list[tuple[int, str]] = []
        """Results that had been read by now and are not here yet, each with its turn."""
        self._came: defaultdict[str, deque[str]] = defaultdict(deque)
        """Results that are here and were not read by now, by what they are of."""

    def next(self, read: Sequence[str]) -> Compared | None:
        """Compare what is read before the next reply.

        Args:
            read: As `texts_of` gives it, of all since the reply before.

        Returns:
            Where it is something else; None where it is not, or more than was recorded.
        """
        for text in filter(_is_result, read):
            self._came[_of(text)].append(text)
        if self._wanted:
            turn, wanted = self._wanted.popleft()
            self._owed += [(turn, text) for text in filter(_is_result, wanted)]
            rest, other = (list(filterfalse(_is_result, texts)) for texts in (wanted, read))
            if Counter(map(self._bare, rest)) != Counter(map(self._bare, other)):
                return _parting(turn, "\n".join(rest), "\n".join(other))
        owed, self._owed = self._owed, []
        for turn, text in owed:
            came = self._came[_of(text)]
            if not came:
                self._owed.append((turn, text))
            elif self._bare(text) != self._bare(now := came.popleft()):
                return _parting(turn, text, now)
        return None

    @property
    def missing(self) -> Compared | None:
        """The first result that had been read by now, and is not here."""
        return _parting(*self._owed[0], "") if self._owed else None

    def _bare(self, text: str) -> str:
        return self._pattern.sub("~", text)


def texts_of(entry: Entry) -> list[str]:
    """What of an entry of the context counts in a comparison.

    Heartbeats are left out, which come as the time goes, and what keeps a replay going.

    Args:
        entry: The entry.
    """
    match entry:
        case Task() | Knowledge():
            return [entry.text]
        case Observation():
            told = sorted(entry.reports, key=lambda report: report.id or "")
            return [
                f"{report.kind} {report.id or ''}\n{_WAITED.sub('', report.body)}"
                for report in told
                if report.kind != "running" and report.body != GOES_ON
            ]
    return []


def _parting(turn: int, before: str, after: str) -> Compared:
    return Compared(turn, "what was read", "differs", before, after)


def place_of(run: RecordedRun) -> str:
    """The folder in which a run's blocks ran; empty where it is not known.

    Args:
        run: The run.
    """
    return str(run.about.options.get("workspace", ""))


def _pattern(volatile: Sequence[str], places: Sequence[str]) -> re.Pattern[str]:
    """What may differ; where blocks run does, and what lies below that does not."""
    known = [f"{re.escape(place)}(?![\\w-]|\\.\\w)" for place in places if len(place) > 1]
    try:
        return re.compile("|".join(f"(?:{one})" for one in (*known, *VOLATILE, *volatile)))
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from error


def _is_result(text: str) -> bool:
    return text.startswith(RESULTS)


def _of(result: str) -> str:
    """Which block or sub-agent it is of."""
    return result.partition("\n")[0]


def _read(run: RecordedRun) -> Iterator[tuple[int, list[str]]]:
    """What was read since the reply before, for each reply."""
    read: list[str] = []
    for entry in run.transcript.entries:
        if isinstance(entry, Reply):
            yield entry.turn, read
            read = []
        else:
            read += texts_of(entry)


def _compared(
    turn: int, left: tuple[str, str] | None, right: tuple[str, str] | None, pattern: re.Pattern[str]
) -> Compared:
    if left is None or right is None:
        name, text = left or right or ("", "")
        return Compared(
            turn, name, "new" if left is None else "missing", *(("", text) if left is None else (text, ""))
        )
    (name, before), (_, after) = left, right
    verdict: Verdict = "same"
    if before != after:
        verdict = "volatile" if pattern.sub("~", before) == pattern.sub("~", after) else "differs"
    return Compared(turn, name, verdict, before, after)


def _turns(run: RecordedRun) -> dict[int, list[tuple[str, str]]]:
    """By turn the blocks of code, each with its id, and with its end and its output as text."""
    turns: dict[int, list[tuple[str, str]]] = {}
    for cell in run.to_notebook()["cells"]:
        about = cell["metadata"]["codeact"]
        if about["kind"] == "run_code" and "id" in about:
            text = "\n".join([f"[{about['status']}]", *_texts(cell["outputs"])])
            turns.setdefault(about["turn"], []).append((about["id"], text))
    return turns


def _texts(outputs: Sequence[dict[str, Any]]) -> Iterator[str]:
    for output in outputs:
        match output["output_type"]:
            case "stream":
                yield plain(output["text"])
            case "error":
                yield plain(f"{output['ename']}: {output['evalue']}")
            case _:
                for mime, value in sorted(output["data"].items()):
                    yield f"{mime}: {value}"
