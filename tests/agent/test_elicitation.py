"""What MCP servers ask a person."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from codeact_kernel.agent.elicitation import elicitor


@dataclass
class Asked:
    message: str = "Which repository?"
    schema: dict = field(default_factory=dict)
    url: str = ""
    server: str = "github"


def form(**fields):
    return Asked(schema={"type": "object", "properties": fields, "required": ["name"]})


async def answers(asked, *said, plain=True):
    left, heard = list(said), []

    def person(question):
        heard.append(question)
        return left.pop(0)

    async def aperson(question):
        return person(question)

    return await elicitor(person if plain else aperson)(asked), heard


@pytest.mark.parametrize("plain", [True, False])
async def test_each_field_is_asked_for_and_read_as_its_type(plain):
    asked = form(
        name={"type": "string", "title": "Name", "description": "Who"},
        count={"type": "integer"},
        share={"type": "number"},
        private={"type": "boolean"},
        kind={"type": "string", "enum": ["a", "b"]},
        tags={"type": "array", "items": {"enum": ["x", "y"]}},
    )
    got, heard = await answers(asked, "May", "3", "0.5", "no", "b", "x, y", plain=plain)
    assert got == {"name": "May", "count": 3, "share": 0.5, "private": False, "kind": "b", "tags": ["x", "y"]}
    assert heard[0] == (
        "The MCP server github asks: Which repository?\nName: Who [string] (decline answers nothing)"
    )
    assert "kind [one of a, b]" in heard[4]


async def test_what_is_left_out_takes_its_default_or_stays_away():
    asked = form(name={"type": "string", "default": "main"}, note={"type": "string"})
    assert (await answers(asked, "", ""))[0] == {"name": "main"}


async def test_a_wrong_answer_is_asked_for_again_and_not_for_ever():
    asked = form(name={"type": "integer"})
    assert (await answers(asked, "many", "2"))[0] == {"name": 2}
    assert (await answers(asked, "many", "", "lots"))[0] is None


async def test_a_person_can_decline():
    assert (await answers(form(name={"type": "string"}), "Decline"))[0] is None


@pytest.mark.parametrize(("said", "got"), [("yes", {}), ("no", None), ("decline", None)])
@pytest.mark.parametrize("asked", [Asked(), Asked(url="https://example.org/pay")])
async def test_consent_is_a_yes(asked, said, got):
    answer, heard = await answers(asked, said)
    assert answer == got
    assert asked.url in heard[0]


async def test_two_servers_that_ask_at_once_are_answered_one_after_the_other():
    heard, go = [], asyncio.Event()

    async def person(question):
        heard.append(question)
        await go.wait()
        return "May"

    elicit = elicitor(person)
    asked = [form(name={"type": "string"}), form(name={"type": "string"})]
    answers = [asyncio.create_task(elicit(one)) for one in asked]
    while not heard:
        await asyncio.sleep(0)
    assert len(heard) == 1
    go.set()
    assert await asyncio.gather(*answers) == [{"name": "May"}] * 2
