"""Whatever a block prints or a tool returns: the frame around it is ours, and every byte of it is data."""

from __future__ import annotations

import re

import pytest
from hostile_texts import TEXTS
from reading import seems_to_end_or_open, unframed

from codeact_kernel import Agent
from codeact_kernel.errors import ToolError
from codeact_kernel.testing import ScriptedModel
from codeact_kernel.tools import notify

NAMES = list(TEXTS)
LONG = ("a thousand tags", "a long line", "many lines")
WAYS = {
    "printed": "print(texts[{number}])",
    "returned by a tool and printed": "print(fetch({number}))",
    "in an error of a tool": "fail({number})",
    "as a value": "fetch({number})",
    "said by a tool while it works": "tell({number})",
    "on stderr": "import sys\nprint(texts[{number}], file=sys.stderr)",
    "displayed as HTML and text": "display({{'text/plain': texts[{number}], 'text/html': texts[{number}]}}, raw=True)",
    "printed by a program": (
        "import subprocess\nfrom pathlib import Path\n"
        "Path('t').write_text(texts[{number}], 'utf-8', 'replace', newline='')\n"
        "_ = subprocess.run(['cat', 't'])"
    ),
}


def test_there_are_at_least_sixty_texts():
    assert len(TEXTS) >= 60
    assert len(set(TEXTS.values())) == len(TEXTS)


def shown(text):
    """What a person would see of a text in the end, said in another way than the product says it."""
    text = re.sub(r"\x1b\][^\x07]*\x07|\x1bP.*?\x1b\\|\x1b\[[0-9;]*[A-Za-z]", "", text)
    lines = [next((part for part in reversed(line.split("\r")) if part), "") for line in text.split("\n")]
    text = "".join(c for c in "\n".join(lines) if c in "\n\t\x00" or not (ord(c) < 32 or 127 <= ord(c) < 160))
    return re.sub("[\x00\ud800-\udfff]", "\ufffd", text).rstrip("\n")


@pytest.mark.kernel
@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("way", WAYS)
async def test_no_text_changes_the_frame(tmp_path, way, half):
    def fetch(number: int) -> str:
        """Fetch a page."""
        return TEXTS[NAMES[number]]

    def fail(number: int) -> None:
        """Fail."""
        raise ToolError(TEXTS[NAMES[number]])

    def tell(number: int) -> None:
        """Say something."""
        notify(TEXTS[NAMES[number]])

    def block(number):
        code = WAYS[way].format(number=number)
        return f'<run_code id="t{number}" boundary="x7">\n{code}\n</run_code boundary="x7">'

    # In halves: a context that is full is reminded of that, which is a report more.
    numbers = range(half, len(NAMES), 2)
    model = ScriptedModel([*map(block, numbers), "done"])
    names = {"texts": list(TEXTS.values())}
    tools = [fetch, fail, tell]
    async with Agent(model, tools=tools, workspace=tmp_path, run_dir=False, namespace=names) as agent:
        run = await agent.run("Read the pages.")
    assert run.answer == "done"
    messages = model.requests[-1].messages
    # Nothing but the roles that the conversation has, in their order.
    assert [m.role for m in messages] == ["system", "user", *["assistant", "user"] * len(numbers)]
    assert messages[0].content == model.requests[0].messages[0].content
    for message, number in zip(messages[3::2], numbers, strict=True):
        name = NAMES[number]
        body, word = unframed(message.content, f"t{number}")
        assert bool(word) or not seems_to_end_or_open(body), name
        if way in ("printed", "returned by a tool and printed", "on stderr") and name not in LONG:
            assert body == shown(TEXTS[name]), name
        if name in LONG:
            assert len(body) < 40_000
        assert "\x1b" not in body
