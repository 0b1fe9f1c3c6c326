"""Records of runs on the stage, as their folders hold them."""

from __future__ import annotations

from dataclasses import replace

from codeact_kernel.events import RunEnded
from codeact_kernel.messages import CallPiece, EndPiece, TextPiece, Usage
from codeact_kernel.record import notebook_text, to_notebook, write_journal
from codeact_kernel.runfiles import Folder
from codeact_kernel.transcript import Transcript

EVIL = "<script>alert(1)</script> \x1b[31mü"
CODES = {
    "a": "print('é <b>')\nshow('<Figure>', id='d')\nvalue('42')",
    "b": "print('x')\nfail('ValueError', 'no')",
}
TAGS = [
    f"I look. {EVIL}\n"
    + "\n".join(f'<run_code id="{name}">\n{code}\n</run_code>' for name, code in CODES.items()),
    "Done & done.",
]


def _call(index, name, code):
    text = code.replace("\n", "\\n")
    return CallPiece(index, f"call_{name}", "run_code", f'{{"code": "{text}", "id": "{name}"}}')


CALLS = [
    [
        TextPiece(f"I look. {EVIL}"),
        *(_call(at, *each) for at, each in enumerate(CODES.items())),
        EndPiece("tool_calls", Usage(10, 2, 3, 1)),
    ],
    "Done & done.",
]
SAID = {"tags": TAGS, "tools": CALLS}


def told(events):
    transcript = Transcript()
    for event in events:
        transcript.apply(event)
    return transcript


async def played(play, protocol, replies=None, **how):
    """The events of a run on the stage, with its end."""
    answer = await play.run(*(replies or SAID[protocol]), protocol=protocol, task=f"Do it. {EVIL}", **how)
    events = [replace(play.events[0], options={"protocol": protocol}), *play.events[1:]]
    at = max(getattr(event, "at", 0.0) for event in events)
    return [*events, RunEnded("answered", answer, play.transcript.usage, 2, at)]


def written(folder, events):
    """A run's folder with its journal and its notebook."""
    place = Folder.make(folder)
    write_journal(place, "journal.jsonl", events, None)
    place.close()
    (folder / "run.ipynb").write_text(notebook_text(to_notebook(told(events))), "utf-8")
    return folder
