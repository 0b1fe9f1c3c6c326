"""The page about the command line has the options and events that there are.

Run as a program, this file writes them into the page: `python tests/cli/test_command_line_page.py`.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path

import pytest
import typer

from codeact_kernel import events
from codeact_kernel.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "command-line.md"
_MARKED = re.compile(r"<!-- (options: [\w ]+|events) -->\n(.*?)<!-- end -->\n", re.DOTALL)
_SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def command_of(words):
    command = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    return command


def options_table(words):
    """The arguments and options of a command as a table, in the order of its help, in its help's words."""
    rows = ["| option | what it says |", "|---|---|"]
    for param in command_of(words).params:
        names = ", ".join(f"`{name}`" for name in param.opts) if param.opts[0].startswith("-") else ""
        value = f" `{param.metavar}`" if param.metavar else ""
        rows.append(f"| {cell((names + value).strip())} | {cell(param.help)} |")
    return "\n".join(rows) + "\n"


def cell(text):
    """A text as a cell of a table: a bar that is its own would end it, in back quotes, too."""
    return text.replace("|", "\\|")


def events_table():
    """The events with the first lines of their docstrings."""
    rows = ["| event | when | its fields |", "|---|---|---|"]
    for event in events.Event.__args__:
        fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(event))
        rows.append(f"| `{event.__name__}` | {event.__doc__.splitlines()[0].rstrip('.')} | {fields} |")
    return "\n".join(rows) + "\n"


def generated(mark):
    return events_table() if mark == "events" else options_table(mark.removeprefix("options: ").split())


def filled(page):
    """The page with its generated parts as they have to be."""
    return _MARKED.sub(lambda found: f"<!-- {found[1]} -->\n{generated(found[1])}<!-- end -->\n", page)


def test_the_page_has_the_options_and_events_that_there_are():
    text = PAGE.read_text("utf-8")
    marks = [found[1] for found in _MARKED.finditer(text)]
    assert {"options: run", "options: chat", "options: demo", "options: install", "events"} < set(marks)
    assert text == filled(text), f"run: python {Path(__file__).relative_to(ROOT)}"


def test_each_command_has_its_place_on_the_page():
    text = PAGE.read_text("utf-8")
    for name in command_of([]).commands:
        assert f"\n## codeact {name}\n" in text


def shown_commands():
    for page in (*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"):
        for script in _SHELL.findall(page.read_text("utf-8")):
            for line in script.splitlines():
                for command in re.split(r"\s[|>]\s", line):
                    if command.startswith("codeact "):
                        yield pytest.param(command, id=f"{page.name}: {command[:40]}")


@pytest.mark.parametrize("shown", [*shown_commands()])
def test_each_command_that_the_documentation_shows_can_be_typed(shown):
    words = shlex.split(shown, comments=True)[1:]
    command, names = command_of([]), []
    while words and words[0] in getattr(command, "commands", {}):
        names.append(words.pop(0))
        command = command.commands[names[-1]]
    command.make_context(" ".join(names), words)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
