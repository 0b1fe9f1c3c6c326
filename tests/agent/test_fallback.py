"""Another model stands in for one that does not answer."""

from __future__ import annotations

import asyncio

import pytest

from codeact_kernel.agent import Options, Settings
from codeact_kernel.agent.fallback import AGAIN, FallbackModel
from codeact_kernel.agent.models import Models
from codeact_kernel.errors import ContextOverflow, ModelRefused, ModelUnreachable, RateLimited
from codeact_kernel.masking import Mask
from codeact_kernel.messages import EndPiece, Message, ModelRequest, TextPiece, Usage
from codeact_kernel.policy import Budget, Limits
from codeact_kernel.testing import ScriptedEndpoint, ScriptedModel, jumping
from codeact_kernel.testing.endpoint import failing

ASKED = ModelRequest((Message("user", "Hi."),))


async def ask(model):
    return "".join([piece.text async for piece in model.stream(ASKED) if isinstance(piece, TextPiece)])


def pair(first, second):
    told = []
    return FallbackModel(
        ScriptedModel(first, name="first", window=8), ScriptedModel(second, name="second"), told.append
    ), told


@pytest.mark.parametrize("error", [ModelUnreachable("down"), RateLimited("later"), ModelRefused("no")])
@jumping
async def test_it_answers_while_the_first_does_not_and_says_so_once(error):
    model, told = pair([error, "back"], ["a", "b"])
    assert (model.name, model.window) == ("first", 8)
    assert await ask(model) == "a"
    assert (model.name, model.window) == ("second", None)
    assert await ask(model) == "b"
    assert [event.about for event in told] == ["fallback"]
    assert told[0].text.startswith(
        f"{error.message}; second answers instead, and the first is asked again in 5m"
    )


@jumping
async def test_after_a_while_the_first_is_asked_again():
    model, told = pair([ModelUnreachable("down"), ModelUnreachable("down"), "back", "still"], ["a", "b"])
    await ask(model)
    await asyncio.sleep(AGAIN)
    assert await ask(model) == "b"
    await asyncio.sleep(AGAIN)
    assert [await ask(model), await ask(model)] == ["back", "still"]
    assert [event.text for event in told][1:] == ["first answers again"]


@jumping
async def test_a_limit_of_sixteen_days_is_waited_for_by_nobody():
    model, told = pair([RateLimited("later", retry_after=16 * 86_400.0)], ["a", "b"])
    await ask(model)
    await asyncio.sleep(10 * AGAIN)
    assert await ask(model) == "b"
    assert "asked again in 384h" in told[0].text


@jumping
async def test_an_overflow_and_a_break_after_the_first_piece_are_no_cause():
    model, told = pair([ContextOverflow("long"), ["half", EndPiece(None, Usage())]], [])
    with pytest.raises(ContextOverflow):
        await ask(model)
    assert await ask(model) == "half"
    assert told == []


@jumping
async def test_where_neither_answers_the_seconds_error_is_told():
    model, _ = pair([ModelUnreachable("down")], [ModelRefused("no key")])
    with pytest.raises(ModelRefused):
        await ask(model)


async def test_it_is_opened_from_the_settings_and_its_calls_are_paid_for():
    told, budget = [], Budget(Limits(tokens=50_000))

    def says(request):
        return failing(401, "bad key") if request.body["model"] == "first" else "hello"

    async with ScriptedEndpoint(says) as endpoint:
        options = Options(base_url=endpoint.base_url, model="first")
        settings, mask = Settings(fallback="second"), Mask()
        models = Models(options, settings, told.append, mask, lambda: budget)
        child = Models(Options(model=models.for_agent(None, "c")), settings, told.append, mask, Budget)
        try:
            assert await ask(models.model) == "hello"
            assert await ask(child.model) == "hello"
        finally:
            await child.aclose()
            await models.aclose()
        assert [request.body["model"] for request in endpoint.requests] == ["first", "second", "second"]
    assert budget.spent.usage.calls == 2
    assert len(told) == 1
