"""A run that a test kills at any moment: a model that knows nothing but what it reads, and tools with effects.

The model works off steps. Each calls a tool whose effect can be counted; one is done by a sub-agent. What it is told to
have ended with its host, it looks up before it does it again.
"""

from __future__ import annotations

import re
from pathlib import Path

from codeact_kernel.testing.replies import EndpointReply

TASK = "ROOT: work off the steps."
STEPS = ["one", "two", "sub", "three", "four"]
ANSWER = "All steps are done."
TOOLS = '''
import os
from typing import Literal

LOG = {log!r}

def effect(text: str) -> None:
    """Write a line: not to be done twice."""
    fd = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, (text + "\\n").encode())
    os.close(fd)

def effects() -> str:
    """Tell what was written."""
    try:
        return open(LOG).read()
    except FileNotFoundError:
        return ""
'''
_BEGIN = re.compile(r'^<run_(?:code id|agent name)="(\w+)"', re.MULTILINE)
_END = re.compile(
    r'<(?:run_code|agent)_result (?:id|name)="(\w+)"(?: status="(\w+)")?[^>]*>(.*?)</', re.DOTALL
)


def reply(request):
    """What the model says to a request."""
    said = [message["content"] for message in request.messages if message["role"] != "system"]
    own = [message["content"] for message in request.messages if message["role"] == "assistant"]
    text = _sub(said) if said[0].startswith("SUB") else _root(said, own)
    return EndpointReply(text, piece=40, delay=0.004)


def _sub(said):
    if "written" in said[-1]:
        return "The sub-agent has done it."
    return 'I do it.\n<run_code id="w">\neffect("sub")\nprint("written")\n</run_code>'


def _root(said, own):
    ends = [
        (id_, _step_of(id_), status, body) for text in said[1:] for id_, status, body in _END.findall(text)
    ]
    begun = [id_ for text in own for id_ in _BEGIN.findall(text)]
    alive = {_step_of(id_) for id_ in begun if id_ not in {end[0] for end in ends}}
    done = {step for _, step, status, _ in ends if not status}
    seen = next((body for _, step, _, body in reversed(ends) if step == "look"), "")
    done |= set(re.findall(r"effect:(\w+)", seen))
    lost = {step for _, step, status, _ in ends if status} - done - {"look"}
    if any("nothing else is known of it" in text for text in said) and not seen:
        lost.add("unseen")
    looked = bool(ends) and ends[-1][1] == "look" and not ends[-1][2]
    if lost and not looked and "look" not in alive:
        return _block(
            f"look{len(said)}", 'print(*(f"effect:{line}" for line in effects().split()))', after=""
        )
    wanted = [step for step in STEPS if step not in done | alive][: 2 - len(alive)]
    if not wanted:
        return "I wait." if alive else ANSWER
    return "I go on.\n" + "\nAnd:\n".join(_step(step, len(said)) for step in wanted)


def _step_of(name):
    return name.rstrip("0123456789")


def _step(step, number):
    if step == "sub":
        return f'<run_agent name="sub{number}" namespace="effect">\nSUB: do it.\n</run_agent>'
    return _block(
        f"{step}{number}", f'effect("{step}")\nimport time; time.sleep(0.1)\nprint("done")', after=""
    )


def _block(name, code, **attributes):
    more = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f'<run_code id="{name}"{more}>\n{code}\n</run_code>'


def make_tools(folder: Path) -> tuple[Path, Path]:
    """Write the tools; gives their file, and that of their effects."""
    file, log = folder / "crash_tools.py", folder / "effects.log"
    file.write_text(TOOLS.format(log=str(log)))
    return file, log
