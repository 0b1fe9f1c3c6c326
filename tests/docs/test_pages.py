"""The pages name what there is: every setting, field, event and hook, and files that exist."""

from __future__ import annotations

import dataclasses
import inspect
import re
import shlex
import tomllib
import typing

import pytest
import typer
from doc_pages import (
    DOCS,
    ROOT,
    cells_of,
    examples_of,
    exchanges_of,
    fences_of,
    links_of,
    names_in,
    table_under,
    tables_of,
)

from codeact_kernel import Agent, Run, events
from codeact_kernel.agent import Hooks, Options, Settings, load_settings
from codeact_kernel.cli.app import app
from codeact_kernel.dialogue.attributes import KNOWN
from codeact_kernel.inkernel.agentself import AgentSelf
from codeact_kernel.record.summary import Summary
from codeact_kernel.transcript import Transcript

PYTHON, SETTINGS, TOOLS, BLOCKS, COMMANDS = (
    DOCS / f"{name}.md" for name in ("python", "settings", "tools", "blocks", "command-line")
)
PAGES = [*sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("*.md"))]
every_page = pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])

NOTHING = "\u2013"
"""What stands for no default."""

_PLACES = re.compile(
    r"(?<![\w.~/])/(?:home|root|work|tmp|Users|mnt)/|\b(?:pypi\.org|pythonhosted\.org|npmjs\.org)"
)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def fields_of(kind):
    return [field.name for field in dataclasses.fields(kind) if field.name != "_"]


def public(kind):
    return [name for name in vars(kind) if not name.startswith("_")]


def anchor(heading):
    """The anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


# -- tables --------------------------------------------------------------------------------------------------


def test_the_settings_page_has_every_key_with_its_default(tmp_path):
    rows = table_under(SETTINGS, "Keys")
    assert names_in(rows) == fields_of(Settings)
    lines = [f"{row[0].strip('`')} = {row[1].strip('`')}" for row in rows if row[1] != NOTHING]
    assert len(lines) > 5
    (tmp_path / "own.toml").write_text("\n".join(lines))
    assert load_settings(tmp_path, tmp_path / "own.toml") == Settings()
    left_out = [row[0].strip("`") for row in rows if row[1] == NOTHING]
    assert [name for name in left_out if getattr(Settings(), name)] == []


def test_the_settings_page_s_example_is_read(tmp_path):
    (example,) = [fence for fence in fences_of(SETTINGS) if fence.language == "toml"]
    (tmp_path / "codeact.toml").write_text(example.text)
    settings = load_settings(tmp_path, tmp_path / "none.toml", trusted=True)
    assert set(tomllib.loads(example.text)) <= set(fields_of(Settings))
    assert settings.block_timeout == 600
    assert settings.models == {"flash": "gpt-5-mini"}


def test_the_python_page_has_every_field_of_an_agent_and_of_a_run():
    assert names_in(table_under(PYTHON, "The fields of an agent")) == fields_of(Options)
    assert names_in(table_under(PYTHON, "What comes back")) == fields_of(Run)


def test_the_python_page_has_every_event_with_its_fields():
    rows = table_under(PYTHON, "Events")
    there = {kind.__name__: fields_of(kind) for kind in typing.get_args(events.Event)}
    told = {re.findall(r"`(\w+)`", row[0])[0]: re.findall(r"`(\w+)`", row[2]) for row in rows}
    assert told == there


def test_the_python_page_has_every_hook_and_its_arguments():
    rows = table_under(PYTHON, "Hooks")
    there = [
        f"{name}({', '.join(list(inspect.signature(getattr(Hooks, name)).parameters)[1:])})"
        for name in public(Hooks)
    ]
    assert [row[0].strip("`") for row in rows] == there


def test_the_python_page_has_every_public_part_of_an_agent():
    text = PYTHON.read_text("utf-8")
    told = [*names_in(table_under(PYTHON, "While it runs")), "run", "stream"]
    there = [*public(Agent), "transcript", "record_error"]
    assert [name for name in there if name not in told and f"gent.{name}`" not in text] == []


def test_the_tools_page_has_every_method_of_self():
    rows = table_under(TOOLS, "`self`: the agent as a block sees it")
    assert [re.findall(r"self\.(\w+)", row[0])[0] for row in rows] == public(AgentSelf)


def test_the_command_line_page_has_every_field_of_a_summary():
    transcript = Transcript()
    summary = Summary(transcript)
    transcript.apply(events.RunStarted("r", "x", "m", "", 1.0))
    (told,) = re.findall(r"`summary\.json`.*?\n\n", COMMANDS.read_text("utf-8"), re.DOTALL)
    there = summary.told()
    assert set(re.findall(r"`(\w+)`", told)) == {*there, *there["tokens"]}


def test_the_blocks_page_has_every_attribute_and_status():
    from codeact_kernel.blocks import Status

    assert names_in(table_under(BLOCKS, "Attributes")) == list(KNOWN["run_code"])
    statuses = re.findall(r"^\| `(\w+)` \|", BLOCKS.read_text("utf-8").split("| status |")[1], re.MULTILINE)
    assert set(statuses[: len(typing.get_args(Status)) - 1]) == set(typing.get_args(Status)) - {"ok"}


@every_page
def test_every_row_of_a_table_has_as_many_cells_as_its_head(page):
    """Else it is shown cut off; a bar in a cell is written with a backslash."""
    for head, *rows in tables_of(page):
        assert [row for row in rows if len(cells_of(row)) != len(cells_of(head))] == []


# -- links, and what no page holds ---------------------------------------------------------------------------


@every_page
def test_every_link_of_a_page_leads_somewhere(page):
    for link in links_of(page):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} leads nowhere"
        if fragment:
            headings = map(anchor, _HEADING.findall(target.read_text("utf-8")))
            assert fragment in headings, f"{link}: there is no such heading"


@every_page
def test_no_page_names_a_place_that_only_one_machine_has(page):
    assert _PLACES.search(page.read_text("utf-8")) is None


def test_the_map_leads_to_every_page():
    there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"index.md"}
    assert there - set(links_of(DOCS / "index.md")) == set()


# -- the command line ----------------------------------------------------------------------------------------


def commands_of(page):
    """Command lines of `codeact` in a page's ```sh blocks."""
    lines = [line for fence in fences_of(page) if fence.language == "sh" for line in fence.text.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("codeact ")]


def unknown_in(arguments):
    """What of a command line there is not: commands and options."""
    command = typer.main.get_command(app)
    rest = list(arguments)
    while hasattr(command, "commands"):
        if not rest and command.invoke_without_command:
            return []
        name = rest.pop(0)
        if name not in command.commands:
            return [name]
        command = command.commands[name]
    known = {option for parameter in command.params for option in parameter.opts}
    return [argument for argument in rest if argument.startswith("--") and argument not in known]


@every_page
def test_command_lines_of_a_page_name_commands_and_options_that_exist(page):
    assert [found for arguments in commands_of(page) for found in unknown_in(arguments)] == []


def test_a_command_line_that_does_not_exist_is_noticed():
    assert commands_of(DOCS / "quickstart.md")
    assert unknown_in(["run", "--model", "m", "--nosuch", "task"]) == ["--nosuch"]
    assert unknown_in(["walk"]) == ["walk"]
    assert unknown_in(["model", "fetch"]) == []


# -- the reading of pages ------------------------------------------------------------------------------------

SAMPLE = """# A page

<!-- model says:
one
=====
two
-->

```python
print("a")
```

```text
a
```

Words.

```text
no output
```

The model writes:

```xml
<run_code>
```

```xml
<run_code_result>
```
"""


def test_examples_outputs_and_exchanges_of_a_page_are_found():
    fences = fences_of(ROOT / "page.md", SAMPLE)
    ((example, shown),) = examples_of(fences)
    assert (example.text, example.line, shown) == ('print("a")\n', 10, "a\n")
    assert example.replies == ["one", "two"]
    ((reply, reading),) = exchanges_of(fences)
    assert (reply.text, reading.text) == ("<run_code>\n", "<run_code_result>\n")


def test_a_block_that_does_not_directly_follow_an_example_is_no_output():
    fences = fences_of(ROOT / "page.md", SAMPLE.replace("```\n\n```text\na", "```\n\nso\n\n```text\na"))
    assert examples_of(fences)[0][1] is None
