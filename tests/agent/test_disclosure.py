"""How much a prompt tells of many tools, and how a model finds the right one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from many_tools import SERVERS, Server, servers
from talk import block, delegate, play

from codeact_kernel import Agent
from codeact_kernel.agent import Options, Settings, plan, write_prompt
from codeact_kernel.agent.disclosure import CHARACTERS, disclose
from codeact_kernel.context import Counter
from codeact_kernel.model.catalogue import VOCABULARY_FOLDER
from codeact_kernel.model.weights import models_dir
from codeact_kernel.testing import ScriptedModel
from codeact_kernel.tools import as_tools


class Ours:
    description = "Python 3.11.7, ipykernel 7.4.0"
    ours = True


def prompt_of(tools, tmp_path, **settings):
    options = Options(tools=tools, workspace=tmp_path, settings=Settings(**settings))
    return write_prompt(options, plan(options), Ours())


def search(query: str) -> list[str]:
    """Search everything."""
    return [query]


def test_few_tools_have_a_line_each_also_those_of_servers(tmp_path):
    prompt = prompt_of([search, Server("github")], tmp_path, tools_tokens=2_000)
    assert "- search(query: str) -> list[str]: Search everything." in prompt
    assert (
        "- mcp.github.list_issues(*, query: str, page: int = 1, per_page: int = 30) -> dict: List" in prompt
    )
    assert "by group" not in prompt


def test_many_tools_are_names_by_group_and_own_functions_keep_their_lines(tmp_path):
    prompt = prompt_of([search, *servers()], tmp_path)
    assert "- search(query: str) -> list[str]: Search everything." in prompt
    for name in SERVERS:
        assert f"- mcp.{name}: list_issues" in prompt
    assert ", and 20 more" in prompt
    assert "tools.search(" in prompt


def test_servers_that_were_never_asked_are_named_with_what_they_are_for(tmp_path):
    prompt = prompt_of(servers(known=False), tmp_path)
    assert "- mcp.slack: Slack for your workspace." in prompt


def test_hundreds_of_own_functions_are_names_too():
    def make(number):
        def function(a: int) -> int:
            """Do something that takes some words to say, so that all of them together are too much."""
            return a

        function.__name__ = f"function_{number}"
        return function

    tools = as_tools(map(make, range(300)))
    lines, groups = disclose([*tools.values()], [], 800)
    assert lines == ()
    assert groups[0][1].startswith("function_0, function_1")
    assert len(groups[0][1]) < 800 * CHARACTERS


@pytest.mark.parametrize("tokens", [1, 100, 800, 5000])
@pytest.mark.parametrize("known", [True, False])
def test_whatever_the_room_it_is_not_passed_by_much(tokens, known):
    lines, groups = disclose([*as_tools([search]).values()], servers(known), tokens)
    length = sum(len(line.signature) + len(line.summary) for line in lines) + sum(
        len(n) + len(w) for n, w in groups
    )
    assert length <= tokens * CHARACTERS + 45 * len(SERVERS)


def test_the_prompt_of_500_tools_is_short(tmp_path):
    """At 3 characters a token; o200k_base makes 3.9 of it."""
    assert len(prompt_of([search, *servers()], tmp_path)) / CHARACTERS < 1_850


@pytest.mark.model
@pytest.mark.parametrize("known", [True, False])
def test_the_prompt_of_500_tools_has_less_than_1500_tokens(tmp_path, known):
    counter = Counter("gpt-5", None, models_dir() / VOCABULARY_FOLDER)
    assert counter.exact
    assert counter.count(prompt_of([search, *servers(known)], tmp_path)) < 1_500


@pytest.mark.kernel
@pytest.mark.parametrize("known", [True, False])
async def test_a_model_finds_and_calls_the_right_one_of_500_in_two_blocks(tmp_path, known):
    there = servers(known)
    model = ScriptedModel(
        [
            block(
                'print(tools.search("search sentry issues", most=3))\nprint(tools.describe("mcp.sentry.search_issues"))'
            ),
            block('found = mcp.sentry.search_issues(query="timeout")\nprint(found["tool"], found["query"])'),
            "Found.",
        ]
    )
    async with Agent(model, tools=there, workspace=tmp_path) as agent:
        run = await agent.run("Look for timeouts in Sentry.")
    assert run.answer == "Found."
    first, second = (request.messages[-1].content for request in model.requests[1:])
    assert first.splitlines()[1].startswith("mcp.sentry.search_issues(*, query: str")
    assert "def search_issues(*, query: str, page: int = 1, per_page: int = 30) -> dict:" in first
    assert "search_issues timeout\n" in second
    sentry = there[SERVERS.index("sentry")]
    assert sentry.called == [("search_issues", {"query": "timeout"})]


@pytest.mark.kernel
async def test_a_sub_agent_has_the_servers_that_it_is_given_and_no_others(tmp_path):
    github, slack = Server("github"), Server("slack")
    scripts = {
        "ROOT": [
            block("given = mcp.github.get_users\ndef look():\n    return given(query='me')['tool']"),
            delegate("CHILD", name="child", namespace="look"),
            "done",
        ],
        "CHILD": [
            block("print(look())\nprint(sorted(n for n in dir(mcp) if not n.startswith('_')))"),
            "child is done",
        ],
    }
    model, run, _ = await play(tmp_path, scripts, tools=[github, slack])
    assert run.answer == "done"
    assert github.called == [("get_users", {"query": "me"})]
    said = "".join(m.content for r in model.requests for m in r.messages if "CHILD" in r.messages[1].content)
    assert "'github'" in said
    assert "'slack'" not in said


@pytest.mark.kernel
async def test_a_model_finds_one_of_500_tools_of_twenty_mcp_servers_in_two_blocks(tmp_path, monkeypatch):
    pytest.importorskip("mcp")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = str(Path(__file__).with_name("many_server.py"))
    mcp = {"mcpServers": {name: {"command": sys.executable, "args": [program, name]} for name in SERVERS}}
    prompts = []
    # The first run has to ask the servers what they have; the second knows it from the first.
    for _ in range(2):
        model = ScriptedModel(
            [
                block(
                    'print(tools.search("search sentry issues", most=3))\n'
                    'print(tools.describe("mcp.sentry.search_issues"))'
                ),
                block(
                    'found = mcp.sentry.search_issues(query="timeout")\nprint(found["tool"], found["query"])'
                ),
                "Found.",
            ]
        )
        async with Agent(model, mcp=mcp, workspace=tmp_path, run_dir=False) as agent:
            assert (await agent.run("Look for timeouts in Sentry.")).answer == "Found."
        first, second = (request.messages[-1].content for request in model.requests[1:])
        assert "mcp.sentry.search_issues(*, query: str" in first.splitlines()[1]
        assert "state: Literal['open', 'closed'] = 'open'" in first
        assert "search_issues timeout\n" in second
        prompts.append(model.requests[0].messages[0].content)
    assert "- mcp.sentry: " in prompts[0]
    assert "- mcp.sentry: list_issues, list_comments" in prompts[1]
    assert all(len(prompt) / CHARACTERS < 1_850 for prompt in prompts)
