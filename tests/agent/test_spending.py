"""Every call to a model is paid from the budget of the run, whoever makes it and however it ends."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import pytest

from codeact_kernel.agent.asker import Asker
from codeact_kernel.agent.hooks import HookChain
from codeact_kernel.agent.spending import SpendingModel
from codeact_kernel.dialogue import codec
from codeact_kernel.errors import ConfigError, LimitReached, ModelUnreachable
from codeact_kernel.events import Notice
from codeact_kernel.messages import EndPiece, Message, ModelRequest, TextPiece, ToolSchema, Usage
from codeact_kernel.model import ModelSettings, open_model
from codeact_kernel.policy import Budget, Limits
from codeact_kernel.policy.budget import LEAST
from codeact_kernel.prices import Prices
from codeact_kernel.testing import EndpointReply, ScriptedEndpoint, ScriptedModel, jumping

ASKED = ModelRequest((Message("user", "word " * 400),))
"""About 500 tokens."""


def spending(model, budget, **about):
    settings = ModelSettings("m", "m", **about) if about else None
    return SpendingModel(model, settings, lambda: budget)


async def text_of(model, request=ASKED):
    return "".join([piece.text async for piece in model.stream(request) if isinstance(piece, TextPiece)])


@jumping
async def test_a_call_is_made_with_what_is_left_and_counts_what_it_took():
    budget, inner = (
        Budget(Limits(tokens=2_000)),
        ScriptedModel([["Hello.", EndPiece("stop", Usage(700, 0, 100, 1))]]),
    )
    assert await text_of(spending(inner, budget)) == "Hello."
    assert 1_400 < inner.requests[0].max_tokens < 1_600
    assert budget.left == {"tokens": 1_200}


@jumping
async def test_the_longest_reply_of_the_settings_is_asked_for_where_more_is_left():
    budget, inner = Budget(Limits(tokens=20_000)), ScriptedModel(["Hello."])
    await text_of(spending(inner, budget, max_tokens=1_000))
    assert inner.requests[0].max_tokens == 1_000


@jumping
async def test_a_call_that_is_not_paid_for_is_not_made():
    budget, inner = Budget(Limits(tokens=600)), ScriptedModel(["Hello."])
    with pytest.raises(LimitReached):
        await text_of(spending(inner, budget))
    budget = Budget(Limits(cost=1.0))
    with pytest.raises(ConfigError, match="price"):
        await text_of(spending(inner, budget))
    assert inner.calls == 0


@jumping
async def test_a_model_of_the_callers_may_have_prices():
    class Mine(ScriptedModel):
        prices = Prices(1.0, 1.0)

    budget = Budget(Limits(cost=0.002))
    model = spending(Mine([["Hello.", EndPiece("stop", Usage(500, 0, 100, 1))]]), budget)
    *_, end = [piece async for piece in model.stream(ASKED)]
    assert end.usage.cost == budget.spent.usage.cost == pytest.approx(0.0006)


@jumping
async def test_what_a_prompt_was_is_learnt_once_tools_and_all():
    asked = replace(ASKED, tools=(ToolSchema("run_code", "Run Python. " * 40, {"type": "object"}),))
    inner = ScriptedModel([["a", EndPiece("stop", Usage(700, 0, 100, 1))], "b"])
    model = spending(inner, Budget(Limits(tokens=2_000)))
    await text_of(model, asked)
    await text_of(model, asked)
    assert inner.requests[1].max_tokens == pytest.approx(2_000 - 800 - 700, abs=30)


@jumping
async def test_a_call_that_was_not_answered_costs_nothing_and_what_it_held_is_free_again():
    budget = Budget(Limits(tokens=2_000))
    model = spending(ScriptedModel([ModelUnreachable("down"), "Hello."]), budget)
    with pytest.raises(ModelUnreachable):
        await text_of(model)
    assert budget.left == {"tokens": 2_000}
    await text_of(model)


@jumping
async def test_a_reply_that_is_broken_off_costs_its_prompt_and_what_came():
    budget = Budget(Limits(tokens=2_000))
    model = spending(ScriptedModel([["x" * 400, 60.0, "y"]]), budget, prices=Prices(1.0, 10.0))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(5):
            await text_of(model)
    usage = budget.spent.usage
    assert usage.estimated
    assert (usage.calls, usage.output_tokens) == (1, 100)
    assert 480 < usage.input_tokens < 520
    assert usage.cost == pytest.approx((usage.input_tokens + 1_000) / 1e6)


@jumping
async def test_the_rest_of_a_cut_reply_is_paid_for_too():
    budget = Budget(Limits(tokens=1_700))
    replies = [
        ["The answer", EndPiece(None, Usage(500, 0, 100, 1))],
        [" is", EndPiece("length", Usage(500, 0, 200, 1))],
    ]
    asker = Asker(
        spending(ScriptedModel(replies), budget),
        codec("tags"),
        Launched(),
        HookChain(),
        print,
        lambda code: True,
    )
    with pytest.raises(LimitReached, match="1,300 tokens so far"):
        await asker.ask(list(ASKED.messages), 1)
    assert budget.spent.usage.calls == 2


class Launched:
    in_use = ()


@jumping
async def test_estimates_learn_from_what_the_endpoint_counts():
    budget = Budget(Limits(tokens=10_000))
    twice = Usage(1_000, 0, 10, 1)
    inner = ScriptedModel([["a", EndPiece("stop", twice)], ["b", EndPiece("stop", twice)]])
    model = spending(inner, budget)
    await text_of(model)
    await text_of(model)
    first, second = (request.max_tokens for request in inner.requests)
    assert first > 9_400
    assert 7_900 <= second <= 8_000  # 8,990 are left, and the prompt takes 1,000


async def children_at(endpoint, budget, longest=None):
    """Eight who ask the same endpoint at the same time, until they are refused, each with a growing conversation."""
    prices = Prices(1.0, 2.0)
    settings = ModelSettings("m", "m", base_url=endpoint.base_url, prices=prices, max_tokens=longest)
    model = open_model(settings)
    paid = SpendingModel(model, settings, lambda: budget)

    async def child(number):
        messages = [Message("user", f"{number} " + "word " * 100)]
        with contextlib.suppress(LimitReached):
            while True:
                said = await text_of(paid, ModelRequest(tuple(messages)))
                messages += [Message("assistant", said), Message("user", "go on")]

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(child(number))
    finally:
        await model.aclose()


@pytest.mark.parametrize("limits", [Limits(tokens=60_000), Limits(cost=0.06)])
async def test_eight_children_at_once_never_exceed_the_budget_by_more_than_the_error_of_the_estimates(limits):
    budget = Budget(limits)
    async with ScriptedEndpoint(lambda request: EndpointReply("x" * 12_000, piece=2_000)) as endpoint:
        await children_at(endpoint, budget)
    usage = budget.spent.usage
    spent, allowed = (usage.total_tokens, 60_000) if limits.tokens else (usage.cost, 0.06)
    # Prompts are estimated at first, and counted by the endpoint with their JSON: a tenth of the prompts at most.
    error = 0.1 * usage.input_tokens * (1 if limits.tokens else 1e-6)
    assert spent <= allowed + error
    assert spent > 0.8 * allowed
    assert all(request.body["max_tokens"] >= LEAST for request in endpoint.requests)


async def test_where_the_endpoint_does_not_heed_max_tokens_each_child_overruns_by_one_reply_at_most():
    told, reply = [], 3_000
    budget = Budget(Limits(tokens=60_000), tell=told.append)
    answer = EndpointReply("x" * 4 * reply, piece=2_000)
    async with ScriptedEndpoint(lambda request: answer, limits=False) as endpoint:
        await children_at(endpoint, budget, longest=500)
    usage = budget.spent.usage
    assert usage.output_tokens == reply * usage.calls
    assert usage.total_tokens <= 60_000 + 8 * reply + 0.1 * usage.input_tokens
    assert [event.about for event in told if isinstance(event, Notice)] == ["overrun"]
