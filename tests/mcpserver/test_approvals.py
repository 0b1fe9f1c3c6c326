"""The gate before the blocks and calls of an MCP client."""

from __future__ import annotations

import pytest

from codeact_kernel.agent import Options, Settings
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
