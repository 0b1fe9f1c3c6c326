"""A client's person is asked, in the protocol's old way and in its new one, with a fake kernel."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")
from mcp_types import ElicitResult

from codeact_kernel.testing import jumping

MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])


class Person:
    """Fills in forms: what it does about each, in order."""

    def __init__(self, *doings):
        self.doings = list(doings)
        self.forms = []
        self.ready = asyncio.Event()
        self.ready.set()

    async def __call__(self, context, params):
        self.forms.append(params)
        await self.ready.wait()
        doing = self.doings.pop(0)
        return (
            ElicitResult(action=doing)
            if isinstance(doing, str)
            else ElicitResult(action="accept", content=doing)
        )


YES = {"decision": "yes"}


@pytest.fixture
def asked(stage):
    """A client with a person, whose blocks are asked about."""
    stage.mode = "ask"
    return lambda person, mode: stage.client(mode, elicitation_callback=person)


@MODES
@jumping
async def test_a_block_waits_for_a_yes_and_the_form_shows_all_of_it(asked, mode):
    person = Person(YES)
    async with asked(person, mode) as call:
        assert "\na\n" in await call("run_code", code='print("a")')
        assert call.blocks == [("b1", "ok")]
    (form,) = person.forms
    assert form.message.startswith("? the client: block b1 wants to run")
    assert '    print("a")' in form.message
    assert form.requested_schema["properties"]["decision"]["enum"] == ["yes", "no", "always"]


@MODES
@jumping
async def test_a_no_and_its_reason_are_read_by_the_model(asked, stage, mode):
    person = Person({"decision": "no", "reason": "not on Sundays"}, "decline", "cancel")
    async with asked(person, mode) as call:
        text = await call("run_code", code='print("a")')
        assert 'status="rejected"' in text
        assert "not on Sundays" in text
        assert 'status="rejected"' in await call("run_code", code='print("b")')
        assert "closed the question" in await call("run_code", code='print("c")')
    assert stage.runner.jobs == []


@MODES
@jumping
async def test_always_is_asked_once_and_other_code_runs_instead(asked, mode):
    person = Person(
        {"decision": "yes", "instead": 'print("mine")\nprint("two lines")'}, {"decision": "always"}
    )
    async with asked(person, mode) as call:
        assert "\nmine\ntwo lines\n" in await call("run_code", code='print("a")')
        for name in "bc":
            assert f"\n{name}\n" in await call("run_code", code=f'print("{name}")')
    assert len(person.forms) == 2


@MODES
@jumping
async def test_what_is_no_answer_is_asked_again_and_at_last_a_no(asked, stage, mode):
    person = Person({"decision": "perhaps"}, YES, *[{"decision": ""}] * 3)
    async with asked(person, mode) as call:
        assert "\na\n" in await call("run_code", code='print("a")')
        assert "what was said is no answer" in await call("run_code", code='print("b")')
    assert person.forms[1].message.startswith("That was no answer: 'perhaps' is none of the decisions")
    assert len(stage.runner.jobs) == 1


@MODES
@jumping
async def test_a_question_that_no_call_waits_for_goes_out_with_the_next_wait(asked, mode):
    person = Person(YES)
    async with asked(person, mode) as call:
        await call("run_code", code='print("a")', wait=0)
        assert call.blocks[0][1].startswith("waiting")
        await call("variables")
        assert person.forms == []
        assert "\na\n" in await call("wait")


@jumping
async def test_a_call_does_not_end_while_its_person_thinks(asked):
    person = Person(YES)
    person.ready.clear()
    async with asked(person, "legacy") as call:
        asyncio.get_running_loop().call_later(600, person.ready.set)
        assert "\na\n" in await call("run_code", code='print("a")', wait=1)


@jumping
async def test_two_blocks_are_asked_about_one_after_the_other(asked):
    person = Person(YES, {"decision": "no"})
    async with asked(person, "legacy") as call:
        texts = await asyncio.gather(*(call("run_code", code=f'print("{name}")') for name in "ab"))
    assert sorted("rejected" in text for text in texts) == [False, True]
    assert sorted(form.message.split()[4] for form in person.forms) == ["b1", "b2"]


@jumping
async def test_a_call_that_is_given_up_leaves_its_question_to_the_next_one(asked):
    person = Person(YES, YES)
    person.ready.clear()
    async with asked(person, "legacy") as call:
        given_up = asyncio.ensure_future(call("run_code", code='print("a")'))
        while not person.forms:
            await asyncio.sleep(0.1)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        person.ready.set()
        assert "\na\n" in await call("wait")
    assert len(person.forms) == 2


@MODES
@jumping
async def test_without_a_person_what_would_be_asked_is_denied_and_said(stage, mode):
    stage.mode = "ask"
    async with stage.client(mode) as call:
        text = await call("run_code", code='print("a")')
        assert 'status="rejected"' in text
        assert "nobody is here to be asked" in text
