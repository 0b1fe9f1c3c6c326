"""The gate before the blocks and calls of an MCP client."""

from __future__ import annotations

import nbformat
import pytest

from codeact_kernel.agent import Options, Settings
from codeact_kernel.errors import RecordError
from codeact_kernel.mcpserver import open_session
from codeact_kernel.policy import read_rules
from codeact_kernel.tools import tool

pytestmark = pytest.mark.kernel


@tool(kind="write")
def send(to: str) -> str:
    """Send."""
    return f"sent to {to}"


async def quiet(so_far, most, words):
    pass


async def test_nobody_is_asked_so_what_would_be_is_denied_and_said(tmp_path):
    settings = Settings(approve="rules", rules=read_rules({"allow": ["run_code"]}, "x"))
    options = Options(workspace=tmp_path, settings=settings, tools=[send])
    async with open_session(options, "client") as session:
        answer = await session.run_code(quiet, "print(send.try_('a').error)")
        assert "nobody is here to be asked" in answer.text
    async with open_session(Options(workspace=tmp_path, approve="ask"), "client") as session:
        answer = await session.run_code(quiet, "open('made', 'w')")
        assert answer.failed
        assert 'status="rejected"' in answer.text
        assert not (tmp_path / "made").exists()


async def test_who_embeds_the_server_may_give_it_somebody_to_ask(tmp_path):
    options = Options(workspace=tmp_path, approve="ask", approver=lambda request: request.door == "block")
    async with open_session(options, "client") as session:
        assert "2\n" in (await session.run_code(quiet, "print(1 + 1)")).text


async def test_a_notebook_of_the_session_has_all_its_blocks_though_the_record_lets_go_of_them(tmp_path):
    async with open_session(Options(workspace=tmp_path), "client") as session:
        for number in range(40):
            await session.run_code(quiet, f"print({number})")
        await session.save_notebook(quiet, "all.ipynb")
    (run,) = (tmp_path / ".codeact" / "runs").iterdir()
    for file in (tmp_path / "all.ipynb", run / "run.ipynb"):
        cells = [cell for cell in nbformat.read(file, 4).cells if cell.cell_type == "code"]
        assert [cell.source for cell in cells] == [f"print({number})" for number in range(40)]


async def test_with_no_record_nothing_is_left_in_the_workspace(tmp_path):
    async with open_session(Options(workspace=tmp_path, run_dir=False), "client") as session:
        assert "2\n" in (await session.run_code(quiet, "print(1 + 1)")).text
    assert list(tmp_path.iterdir()) == []


async def test_what_cannot_be_audited_does_not_run(tmp_path):
    """The file is held by another run."""
    options = Options(workspace=tmp_path, audit=tmp_path / "one.jsonl")
    async with open_session(options, "client"):
        with pytest.raises(RecordError, match="is being written by another run"):
            async with open_session(options, "other"):
                pass
