"""Runs with a budget: real kernels, sub-agents, a model that plays them all."""

from __future__ import annotations

import asyncio
import json

import pytest
from talk import block, delegate, when

from codeact_kernel import Agent
from codeact_kernel.agent import Settings
from codeact_kernel.errors import ConfigError
from codeact_kernel.events import Appended, RunEnded, Spent
from codeact_kernel.messages import EndPiece, TextPiece, Usage
from codeact_kernel.testing import Cast, EndpointReply, ScriptedEndpoint, ScriptedModel

pytestmark = pytest.mark.kernel


def reply(text, tokens):
    return [TextPiece(text), EndPiece("stop", Usage(100, 0, tokens, 1))]


async def test_eight_sub_agents_at_once_share_one_budget(tmp_path):
    """All eight go on for ever; the budget ends them, and the run, with everything in hand."""

    def says(request):
        if "ROOT" in request.body["messages"][1]["content"]:
            asked = sum(message["role"] == "assistant" for message in request.body["messages"])
            children = "\n".join(delegate(f"CHILD {n}", name=f"c{n}") for n in range(8))
            return children if not asked else "I wait."
        return EndpointReply(block("print('on')") + "\n" + "I go on. " * 200, piece=500)

    limit = 120_000
    async with ScriptedEndpoint(says) as endpoint:
        async with Agent("m", base_url=endpoint.base_url, workspace=tmp_path, sandbox="none") as agent:
            run = await agent.run("ROOT", max_tokens=limit)
            assert agent.live == []
        reported = [endpoint_tokens(request) for request in endpoint.requests]
    assert run.stop == "limit"
    assert "codeact resume" in run.message
    assert "--max-tokens" in run.message
    assert run.usage.total_tokens <= limit + 0.1 * run.usage.input_tokens
    assert run.usage.total_tokens > 0.7 * limit
    assert len(reported) > 9
    record = json.loads(run.record.read_text())
    assert "limit" in json.dumps(record)


def endpoint_tokens(request):
    return sum(len(json.dumps(message)) for message in request.messages) // 4


async def test_turns_are_shared_and_what_all_have_used_is_the_runs(tmp_path):
    model = Cast(
        {
            "ROOT": when(delegate("SCOUT: look.", name="scout"), ("agent_result", "It has ended.")),
            "SCOUT": [block("1"), block("2"), block("3"), "never"],
        }
    )
    heard = []
    async with Agent(model, workspace=tmp_path, max_turns=3, observers=[heard.append]) as agent:
        run = await agent.run("ROOT")
    assert run.stop == "limit"
    assert run.message.startswith("3 turns are used up; `codeact resume ")
    assert run.usage.calls == 3
    spent = [event for event in heard if isinstance(event, Spent)]
    assert spent[-1].turns == 3
    assert spent[-1].usage == run.usage == heard[-1].usage
    assert isinstance(heard[-1], RunEnded)
    assert agent.transcript.runs[-1].spent == spent[-1]


async def test_each_model_is_told_once_of_each_limit_that_is_near(tmp_path):
    model = ScriptedModel(
        [reply(block("self.budget"), 700), reply(block("1"), 10), reply(block("2"), 10), reply("done", 10)]
    )
    settings = Settings(limit_reminder=0.5)
    async with Agent(
        model, workspace=tmp_path, settings=settings, max_tokens=1_000_000, max_turns=6
    ) as agent:
        await agent.run("x", max_tokens="1600")
    said = [request.messages[-1].content for request in model.requests]
    assert "you and all sub-agents have 1,600 tokens together, and 800 tokens left" in said[1]
    assert "turns together" not in said[2]
    assert "have 6 turns together, and 3 turns left" in said[3]
    assert "1,600 tokens together" not in said[2] + said[3]


async def test_code_reads_the_budget(tmp_path):
    code = "b = self.budget\nprint(b)\nprint(b['left']['tokens'], b['limits'], b['cost_known'], 'cost' in b['left'])"
    model = ScriptedModel([reply(block(code), 20), reply("done", 10)])
    async with Agent(model, workspace=tmp_path, max_tokens="200k", max_cost=None) as agent:
        assert "may use 200,000 tokens; self.budget tells" in agent._working.parts.context.system
        await agent.run("x")
    said = model.requests[-1].messages[-1].content
    assert "tokens: 120 tokens used, 199,880 tokens of 200,000 tokens left" in said
    assert "agents: 0 at work, 50 allowed at once" in said
    assert "199880 {'tokens': 200000, 'agents': 50} True False" in said


async def test_a_limit_of_money_and_a_price_that_is_not_known_end_the_run_before_anything_is_asked(tmp_path):
    model = ScriptedModel(["never"])
    async with Agent(model, workspace=tmp_path, max_cost=1.0) as agent:
        with pytest.raises(ConfigError, match="price of scripted"):
            await agent.run("x")
    assert model.calls == 0


async def test_a_sub_agents_model_without_a_price_is_refused_with_a_sentence(tmp_path):
    def says(request):
        asked = [m["content"] for m in request.body["messages"] if m["role"] != "system"]
        return "It said why." if len(asked) > 1 else '<run_agent name="s" model="dear">\nlook\n</run_agent>'

    models = {"cheap": {"model": "cheap", "prices": {"input": 1.0, "output": 1.0}}, "dear": "dear"}
    async with ScriptedEndpoint(says) as endpoint:
        settings = Settings(models=models, model="cheap")
        fields = {"base_url": endpoint.base_url, "settings": settings, "workspace": tmp_path}
        async with Agent(**fields, max_cost=1.0) as agent:
            run = await agent.run("x")
        assert [request.body["model"] for request in endpoint.requests] == ["cheap", "cheap"]
        assert "price of dear, which is not known" in json.dumps(endpoint.requests[-1].body)
    assert run.answer == "It said why."
    assert run.usage.cost > 0


async def test_what_a_stopped_sub_agent_has_used_counts(tmp_path):
    child = asyncio.Event()

    def scout(request):
        child.set()
        return ["a" * 4_000, 600.0]

    model = Cast({"ROOT": when(delegate("SCOUT", name="s"), ("agent_result", "ended")), "SCOUT": scout})
    async with Agent(model, workspace=tmp_path) as agent:
        running = asyncio.create_task(agent.run("ROOT"))
        await child.wait()
        agent.cancel("s")
        run = await running
    assert run.answer == "ended"
    assert run.usage.calls == 3
    assert run.usage.output_tokens > 1_000


async def test_time_is_the_trees_and_children_in_flight_end_with_it(tmp_path):
    began = asyncio.Event()

    def scout(request):
        began.set()
        return [600.0]

    model = Cast({"ROOT": when(delegate("SCOUT", name="s")), "SCOUT": scout})
    async with Agent(model, workspace=tmp_path) as agent:
        run = await agent.run("ROOT", max_time="4s")
        assert began.is_set()
        assert agent.live == []
    assert (run.stop, run.message.partition(";")[0]) == ("limit", "the time is up")
    assert "--max-time D" in run.message


async def test_each_run_of_a_conversation_has_a_budget_of_its_own(tmp_path):
    model = ScriptedModel([reply("one", 500), reply("two", 500)])
    heard = []
    async with Agent(model, workspace=tmp_path, max_tokens=900, observers=[heard.append]) as agent:
        system = agent._working.parts.context.system
        assert system
        first = await agent.run("x")
        assert first.stop == "limit"  # the system prompt alone is more
        second = await agent.run("y", max_tokens="20k")
    assert (second.answer, second.usage.total_tokens) == ("one", 600)
    assert not [event for event in heard if isinstance(event, Appended) and event.turn < 0]
