"""What `self` can do with sub-agents, and a sub-agent with its parent.

Comes in: what code asks. Goes out: calls over the bridge to the host, which has the agents, and parcels for values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from codeact_kernel.inkernel.bridge import Bridge, ToolError
from codeact_kernel.inkernel.family import Family
from codeact_kernel.inkernel.parcels import CannotTravel


class AgentError(ToolError):
    """A sub-agent did not come to an answer.

    Attributes:
        name: The sub-agent's.
        status: "error", "timeout", "cancelled", "rejected", "skipped" or "died".
        message: Why.
    """

    __module__ = "__main__"

    def __init__(self, name: str, status: str, message: str) -> None:
        super().__init__(f"{name}: {status}: {message}")
        self.name, self.status, self.message = name, status, message

    def __reduce__(self) -> tuple[Any, ...]:
        return agent_error, (self.name, self.status, self.message)


def agent_error(name: str, status: str, message: str) -> AgentError:
    """Make one, where a pickled one arrives."""
    return AgentError(name, status, message)


class Answer(str):
    """A sub-agent's answer: a text, with the object that it handed back.

    Attributes:
        name: The sub-agent's.
        value: What it handed back with `self.return_value`; None where it did not.
    """

    __module__ = "__main__"
    name: str
    value: Any

    def __new__(cls, text: str, name: str = "", value: Any = None) -> Answer:
        """Make one."""
        made = super().__new__(cls, text)
        made.name, made.value = name, value
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return answer, (str(self), self.name, self.value)


def answer(text: str, name: str, value: Any) -> Answer:
    """Make one, where a pickled one arrives."""
    return Answer(text, name, value)


class Delegation:
    """The part of `self` that is about sub-agents."""

    _bridge: Bridge
    _family: Family

    async def run_agent(
        self,
        task: str,
        *,
        name: str | None = None,
        namespace: str | Iterable[str] | Mapping[str, Any] = (),
        model: str | None = None,
        timeout: str | float | None = None,
    ) -> Answer:
        """Let a sub-agent with a kernel of its own do a task, and wait for its answer.

        Args:
            task: What it is to do, and what it is to hand back.
            name: What it is called; without one it gets one.
            namespace: Names of yours that it gets a copy of (a list, or a text with commas), or values by name.
            model: The model's alias; None takes yours.
            timeout: How long it may take: "10m", or seconds. None for no limit.

        Returns:
            Its answer, a `str`; `.value` is what it handed back with `self.return_value`, `.name` its name.

        Raises:
            AgentError: If it failed, was stopped or was not started, because something of the namespace cannot be
                passed, say; with `.name`, `.status`, `.message`.
            NameError: If a name is not defined.
        """
        parcel, note = None, None
        if namespace:
            values = _named(namespace, self._family.namespace)
            parcel = (await self._bridge.acall("self.parcel"))["file"]
            try:
                note = self._family.write(parcel, values)
            except CannotTravel as error:
                raise AgentError(name or "a sub-agent", "rejected", str(error)) from None
        said = await self._bridge.acall("self.run_agent", (task, name, model, timeout, parcel, note))
        if said["status"] != "ok":
            raise AgentError(said["name"], said["status"], said["message"])
        value = None if said["file"] is None else self._family.load(said["file"], data=said["data"])
        return Answer(said["answer"], said["name"], value)

    @property
    def agents(self) -> list[dict[str, Any]]:
        """Your sub-agents that have not ended, oldest first.

        Of each: name, task, state, turns, what it last said or did, its blocks, its own agents, and the seconds that
        it ran and has left (None where it has no limit).
        """
        agents: list[dict[str, Any]] = self._bridge.call("self.agents")
        return agents

    def steer(self, name: str, note: str) -> None:
        """Tell a sub-agent something: it reads it before its next reply. If it waits for an answer, this is it.

        Args:
            name: The sub-agent's name.
            note: What it shall know.

        Raises:
            ToolError: If there is no such sub-agent at work.
        """
        self._bridge.call("self.steer", (name, note))

    def result(self, name: str) -> Any:
        """What a sub-agent has handed back with `self.return_value`; its whole answer where it handed back nothing.

        Args:
            name: The sub-agent's name; a reused one means the latest.

        Raises:
            ToolError: If no sub-agent of that name has ended.
        """
        return self._family.result(name)

    def return_value(self, value: Any) -> None:
        """Hand a copy of an object to the agent that started you, beside your answer. The last one counts.

        Args:
            value: The object: data, functions, classes; functions keep working where they arrive. Where you may do
                less than your parent, having fewer tools say, only data: numbers, texts, lists, dicts, dates, arrays,
                frames, images, dataclasses (which arrive as records).

        Raises:
            TypeError: If it cannot be passed; says what can be done.
            ToolError: If nobody has started you.
        """
        place = self._bridge.call("self.parcel", ("parent",))
        self._family.put(place, {"value": value})
        self._bridge.call("self.return_value", (place["file"],))

    async def ask_parent(self, question: str) -> str:
        """Ask the agent that started you, and wait for what it says.

        Args:
            question: The question, with all that is needed to answer it.

        Raises:
            ToolError: If nobody has started you.
        """
        said: str = await self._bridge.acall("self.ask_parent", (question,))
        return said


def _named(namespace: str | Iterable[str] | Mapping[str, Any], known: Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(namespace, Mapping):
        return namespace
    names = namespace.replace(",", " ").split() if isinstance(namespace, str) else list(namespace)
    for name in names:
        if name not in known:
            raise NameError(f"name {name!r} is not defined")
    return {name: known[name] for name in names}
