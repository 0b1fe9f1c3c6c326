"""The built-in tools, by group and by name."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from codeact_kernel import Agent
from codeact_kernel.agent import Settings
from codeact_kernel.agent.options import Options
from codeact_kernel.agent.planning import plan
from codeact_kernel.errors import ConfigError
from codeact_kernel.events import BlockOutput
from codeact_kernel.testing import ScriptedModel
from codeact_kernel.tools import Caller, Catalogue, ToolServer, as_tools, load_tools, workspace_tools

ALL = ["read_file", "write_file", "edit_file", "list_dir", "search_code", "run_command", "run_tests", "fetch"]


SEARCH = {"api": "searxng", "url": "http://localhost/?q={query}"}


def names(tools):
    return [tool.name for tool in tools]


def test_all_of_them_or_some_groups(tmp_path):
    assert names(workspace_tools(tmp_path)) == names(load_tools("builtin", tmp_path)) == ALL
    assert names(workspace_tools(tmp_path, "web", "search")) == ["search_code", "fetch"]
    assert names(load_tools("builtin:files", tmp_path)) == ALL[:4]


@pytest.mark.parametrize("source", ["builtin:", "builtin:nosuch", "builtin:files,"])
def test_an_unknown_group_names_those_that_there_are(tmp_path, source):
    with pytest.raises(ConfigError, match="there are files, search, commands, web"):
        load_tools(source, tmp_path)


def test_the_settings_name_them_for_the_workspace(tmp_path):
    (tmp_path / "a.txt").write_text("here")
    tools = plan(Options(workspace=tmp_path, settings=Settings(tools=("builtin:files",)))).tools
    assert tools["read_file"].function("a.txt") == "here"


async def test_programs_see_the_variables_that_are_let_through(tmp_path, monkeypatch):
    monkeypatch.setenv("MINE", "1")
    monkeypatch.setenv("SECRET_KEY", "2")
    options = Options(workspace=tmp_path, env=["MINE"], settings=Settings(tools=("builtin:commands",)))
    result = await plan(options).tools["run_command"].function("env")
    assert "MINE=1" in result["stdout"]
    assert "SECRET_KEY" not in result["stdout"]


async def test_a_dry_run_changes_nothing_and_reads_all(tmp_path):
    (tmp_path / "a.txt").write_text("here")
    server = ToolServer(Catalogue(as_tools(workspace_tools(tmp_path))), {}, lambda event: None, dry_run=True)
    said = []

    async def call(name, *args):
        return await server.call(name, args, {}, Caller("b1", note=said.append))

    for name, args in (
        ("write_file", ("b.txt", "x")),
        ("edit_file", ("a.txt", "here", "there")),
        ("run_command", ("touch c.txt",)),
        ("run_tests", ()),
    ):
        assert await call(name, *args) is None
    assert said == [
        '[dry run, not called: write_file("b.txt", "x")]',
        '[dry run, not called: edit_file("a.txt", "here", "there")]',
        '[dry run, not called: run_command("touch c.txt")]',
        "[dry run, not called: run_tests()]",
    ]
    assert await call("read_file", "a.txt") == "here"
    assert [hit["text"] for hit in await call("search_code", "here")] == ["here"]
    assert [entry["path"] for entry in await call("list_dir")] == ["a.txt"]


def test_the_first_line_of_each_says_all_and_fits_the_prompt(tmp_path):
    for tool in workspace_tools(tmp_path, search=SEARCH):
        assert tool.summary.endswith(".")
        assert len(tool.summary) <= 200
        assert "Raises:" in tool.doc


def test_the_page_about_tools_has_each_with_its_parameters(tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "tools.md").read_text("utf-8")
    for tool in workspace_tools(tmp_path, search=SEARCH):
        parameters = [
            parameter.replace(annotation=inspect.Parameter.empty)
            for parameter in inspect.signature(tool.function).parameters.values()
        ]
        shown = str(inspect.Signature(parameters)).replace("'", '"').replace(".0", "")
        assert f"`{'await ' * tool.is_async}{tool.name}{shown}`" in page


@pytest.mark.kernel
async def test_a_block_reads_edits_and_runs(tmp_path):
    (tmp_path / "a.py").write_text("print('old')\n")
    (tmp_path / "data").write_bytes(b"\x00\xff")
    code = """<run_code>
print(read_file("a.py"), end="")
print(edit_file("a.py", "old", "new"))
print((await run_command(["python3", "a.py"]))["stdout"], end="")
print(read_file("data", encoding=None), [hit["line"] for hit in await search_code("new")])
try:
    read_file("../secret")
except ToolError as error:
    print(error)
</run_code>"""
    model = ScriptedModel([code, "Done."])
    async with Agent(model, workspace=tmp_path, tools=workspace_tools(tmp_path)) as agent:
        await agent.run("Edit.")
    assert model.requests[1].messages[-1].content.splitlines()[1:-1] == [
        "print('old')", "--- a.py", "+++ a.py", "@@ -1 +1 @@", "-print('old')", "+print('new')", "new",
        r"b'\x00\xff' [1]",
        "'../secret' leads out of the workspace; use a path relative to it, such as 'folder/file.txt'",
    ]  # fmt: skip


@pytest.mark.kernel
async def test_a_block_shows_what_its_program_prints_while_it_runs(tmp_path):
    code = """<run_code id="build" heartbeat="1s">
result = await run_command("echo begun; while [ ! -e seen ]; do sleep 0.01; done; printf done", shell=True, echo=True)
print([result["stdout"]])
</run_code>"""
    model = ScriptedModel([code, "I wait.", "Done."])

    def go_on(event):
        if isinstance(event, BlockOutput) and "begun" in str(event.output):
            (tmp_path / "seen").touch()

    async with Agent(model, workspace=tmp_path, tools=workspace_tools(tmp_path), observers=[go_on]) as agent:
        await agent.run("Build.")
    told = "".join(request.messages[-1].content for request in model.requests[1:])
    assert "begun\n" in told
    assert "done\n['begun\\ndone']" in told
