"""Questions to the person behind a notebook."""

from __future__ import annotations

import asyncio

import pytest

from codeact_kernel.approval import Answer, Request
from codeact_kernel.blocks import CodeBlock
from codeact_kernel.errors import ConfigError
from codeact_kernel.events import BlockQueued
from codeact_kernel.lab.asking import Asking


def request(**about):
    return Request("block", "the agent", "a", "run_code", "the mode asks", CodeBlock("1", id="a"), **about)


CALL = Request(
    "call",
    "scout",
    "a",
    "delete",
    "a rule asks",
    classes=("destructive",),
    arguments={"path": "x"},
    preview="-a",
)


@pytest.fixture
def asking(shown):
    shown(BlockQueued(1, "a", CodeBlock("1", id="a"), 100.0))
    return Asking(lambda: shown.cells)


async def asked(asking, shown, wanted):
    task = asyncio.ensure_future(asking(wanted))
    await asyncio.sleep(0)
    shown.follow()
    return task


async def test_a_question_is_shown_and_a_yes_lets_it_pass(asking, shown):
    task = await asked(asking, shown, request())
    (question,) = shown.page.questions.values()
    assert (question["title"], question["text"], question["ending"]) == ("Run a?", "1", ".py")
    assert (shown.page.shown[0][3], shown.page.bar["state"]) == ("asking", "asking")
    asking.answer("q1", "yes")
    assert await task == Answer(True)
    shown.follow()
    assert (shown.page.questions, shown.page.bar["state"], shown.page.shown[0][3]) == (
        {},
        "working",
        "queued",
    )


async def test_a_call_is_shown_with_what_it_would_change(asking, shown):
    task = await asked(asking, shown, CALL)
    (question,) = shown.page.questions.values()
    assert (question["title"], question["diff"]) == ("Call delete of scout?", "-a")
    asking.answer(None, "no", "not that file")
    assert await task == Answer(False, "not that file")


async def test_what_was_edited_is_what_runs(asking, shown):
    task = await asked(asking, shown, request())
    asking.answer("q1", "yes", text="2")
    assert await task == Answer(True, code="2")
    task = await asked(asking, shown, CALL)
    asking.answer("q2", "always", text='{"path": "y"}')
    answer = await task
    assert (answer.allowed, answer.always, answer.arguments) == (True, True, {"path": "y"})


@pytest.mark.parametrize(
    ("question", "answer", "text", "why"),
    [
        ("q9", "yes", None, "nothing waits"),
        ("q1", "perhaps", None, "'perhaps' is no answer"),
        ("q1", "yes", "[1]", "arguments are a JSON object"),
    ],
)
async def test_what_is_no_answer_leaves_the_question_open(asking, shown, question, answer, text, why):
    task = await asked(asking, shown, CALL)
    with pytest.raises(ConfigError, match=why):
        asking.answer(question, answer, text=text)
    assert not task.done()
    asking.answer("q1", "no")
    assert not (await task).allowed


async def test_a_question_that_nobody_needs_answered_any_more_goes_away(asking, shown):
    task = await asked(asking, shown, request())
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    shown.follow()
    assert not shown.page.questions
    with pytest.raises(ConfigError, match="nothing waits"):
        asking.answer(None, "yes")


async def test_where_no_run_goes_on_the_answer_is_no():
    assert not (await Asking(lambda: None)(request())).allowed
