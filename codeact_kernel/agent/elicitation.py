"""What MCP servers ask a person, asked of the person that the agent has.

Comes in: a server's question, with the schema of its answer. Goes out: the answer, field by field; or that there is
none.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from codeact_kernel.agent.options import Person

if TYPE_CHECKING:
    from codeact_kernel.tools.mcp import Elicitation

DECLINE = "decline"
"""What a person writes to answer nothing."""
TRIES = 3
"""How often a field is asked for whose answer is of the wrong type."""


class _Declined(Exception):
    """The person does not answer."""


def elicitor(person: Person) -> Callable[[Elicitation], Awaitable[Mapping[str, Any] | None]]:
    """Make what answers servers.

    Args:
        person: Asks a person.

    Returns:
        A function from a server's question to the values by field; None where the person declines.
    """
    turn = asyncio.Lock()

    async def elicit(asked: Elicitation) -> Mapping[str, Any] | None:
        async with turn:  # a person answers one question after the other
            return await ask(asked)

    async def ask(asked: Elicitation) -> Mapping[str, Any] | None:
        head = f"The MCP server {asked.server} asks: {asked.message}"
        fields = asked.schema.get("properties") or {}
        try:
            if asked.url or not fields:
                where = f"\nIt wants you to visit {asked.url}" if asked.url else ""
                question = f"{head}{where}\nMay it go on? (yes, or {DECLINE})"
                return {} if await _field(person, question, {"type": "boolean"}, True) else None
            required = asked.schema.get("required") or ()
            answers = {}
            for name, schema in fields.items():
                question = f"{head}\n{_described(name, schema)} ({DECLINE} answers nothing)"
                value = await _field(person, question, schema, name in required)
                if value is not None:
                    answers[name] = value
            return answers
        except _Declined:
            return None

    return elicit


async def _field(person: Person, question: str, schema: Mapping[str, Any], required: bool) -> Any:
    for _ in range(TRIES):
        said = (await _ask(person, question)).strip()
        if said.lower() == DECLINE:
            raise _Declined
        if not said and "default" in schema:
            return schema["default"]
        if not said and not required:
            return None
        with suppress(ValueError):
            return _read(said, schema)
    raise _Declined


async def _ask(person: Person, question: str) -> str:
    if inspect.iscoroutinefunction(person):
        return str(await person(question))
    return str(await asyncio.to_thread(person, question))


def _described(name: str, schema: Mapping[str, Any]) -> str:
    choices = schema.get("enum") or [choice.get("const") for choice in schema.get("oneOf") or ()]
    kind = f"one of {', '.join(map(str, choices))}" if choices else schema.get("type", "string")
    about = f": {schema['description']}" if schema.get("description") else ""
    default = f"; {schema['default']!r} if you say nothing" if "default" in schema else ""
    return f"{schema.get('title') or name}{about} [{kind}{default}]"


def _read(said: str, schema: Mapping[str, Any]) -> Any:
    kind = schema.get("type", "string")
    if kind == "boolean":
        if said.lower() not in ("y", "yes", "true", "n", "no", "false"):
            raise ValueError(said)
        return said.lower() in ("y", "yes", "true")
    if kind in ("integer", "number"):
        return int(said) if kind == "integer" else float(said)
    if kind == "array":
        return [part.strip() for part in said.split(",") if part.strip()]
    choices = schema.get("enum") or [choice.get("const") for choice in schema.get("oneOf") or ()]
    if choices and said not in choices:
        raise ValueError(said)
    return said
