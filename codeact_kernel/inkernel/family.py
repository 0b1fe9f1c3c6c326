"""An agent's kernel among those of its parent and its sub-agents.

Comes in: wishes of the host, as code that it has run, and of blocks. Goes out: parcels written and read, objects
bound, and the calls of other kernels' proxies, made here.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Mapping
from typing import Any

from codeact_kernel.inkernel import parcels, wire
from codeact_kernel.inkernel.bridge import Bridge, ToolError
from codeact_kernel.inkernel.namespace import ensure_cloudpickle
from codeact_kernel.inkernel.proxies import Lent, Proxy


class Family:
    """What an agent's kernel has to do with others.

    Args:
        shell: IPython's shell.
        bridge: The way to the host.
    """

    def __init__(self, shell: Any, bridge: Bridge) -> None:
        self._shell = shell
        self._bridge = bridge
        self._cloudpickle = ""
        self._lent = Lent((0, "the agent"))
        self._results: dict[str, Any] = {}
        """What sub-agents have handed back, by the parcel that it came in."""

    def join(self, about: Mapping[str, Any]) -> None:
        """Take what the host says of this kernel.

        Args:
            about: "cloudpickle": the folder of the host's; "agent": its number in its tree, and its name.
        """
        self._cloudpickle = about.get("cloudpickle", "")
        number, name = about.get("agent") or (0, "the agent")
        self._lent = Lent((number, name))

    @property
    def namespace(self) -> dict[str, Any]:
        """The user's namespace."""
        namespace: dict[str, Any] = self._shell.user_ns
        return namespace

    # -- parcels ------------------------------------------------------------------------------------------

    def pack(self, file: str, /, **values: Any) -> None:
        """Write values into a parcel; what is said of it lies beside it.

        Args:
            file: Where to.
            **values: The values by name.
        """
        note: dict[str, Any]
        try:
            note = self.write(file, values)
        except parcels.CannotTravel as error:
            note = {"error": str(error)}
        _write_note(file, note)

    def write(self, file: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Write values into a parcel.

        Args:
            file: Where to.
            values: The values by name.

        Returns:
            "names": what each value is, of those that were asked for; "tools": the host's tools that are in it.

        Raises:
            CannotTravel: If one of them cannot be passed.
        """
        ensure_cloudpickle(self._cloudpickle)
        trip = parcels.Trip(self.namespace, self._shell.user_ns_hidden, self._lent.lend)
        parcels.write(file, trip.pack(values))
        names = {name: wire.describe(value) for name, value in values.items()}
        return {
            "names": names | {name: f"proxy of a {names[name]}" for name in trip.stand_ins if name in names},
            "tools": trip.tools,
        }

    def receive(self, file: str) -> dict[str, str]:
        """Bind what a parcel holds, and what that needs.

        Args:
            file: The parcel.

        Returns:
            Why it could not be read, under "parcel"; nothing where it could.
        """
        try:
            self.namespace.update(self._values(file))
        except Exception as error:
            return {"parcel": f"{type(error).__name__}: {error}"}
        return {}

    def take(self, name: str, file: str) -> None:
        """Take what a sub-agent has handed back. Its name is bound to it, if that is free; a note says what it is.

        Args:
            name: The sub-agent's name.
            file: The parcel.
        """
        value = self._results[file] = self.load(file)
        bound = name.isidentifier() and name not in self.namespace
        if bound:
            self.namespace[name] = value
        _write_note(file, {"what": wire.describe(value), "bound": bound})

    def load(self, file: str) -> Any:
        """The one value of a parcel."""
        (value,) = self._values(file).values()
        return value

    def result(self, name: str) -> Any:
        """What a sub-agent has handed back; its answer where that is all.

        Args:
            name: The sub-agent's name.
        """
        said = self._bridge.call("self.result", (name,))
        file: str | None = said["file"]
        if file is None:
            return said["answer"]
        if file not in self._results:
            # The kernel was restarted since.
            self._results[file] = self.load(file)
        return self._results[file]

    def _values(self, file: str, *, once: bool = False) -> dict[str, Any]:
        ensure_cloudpickle(self._cloudpickle)
        values, *needed = parcels.read(file, self)
        if once:
            os.unlink(file)  # noqa: PTH108
        for more in needed:
            for name, value in more.items():
                self.namespace.setdefault(name, value)
        return values

    # -- proxies ------------------------------------------------------------------------------------------

    def proxy(self, *about: Any) -> Any:
        """As in `parcels.Place`: the object itself, where it is this kernel's own."""
        owner, _, number, *_ = about
        return self._lent.find(number) if owner == self._lent.owner else Proxy(self._ask, self._aask, *about)

    def serve(self, number: int, name: str, asked: str | None, answer: str) -> None:
        """Make a call of another kernel's proxy here.

        Args:
            number: The object's.
            name: The method, or the attribute.
            asked: The parcel with the arguments; None to read the attribute.
            answer: Where the parcel with the answer goes.
        """
        self._answer(answer, self._call(number, name, asked))

    async def aserve(self, number: int, name: str, asked: str | None, answer: str) -> None:
        """As `serve`, for objects whose methods are awaited."""
        made = self._call(number, name, asked)
        if asked is not None and inspect.isawaitable(made.get("value")):
            try:
                made = {"value": await made["value"]}
            except Exception as error:
                made = {"error": error}
        self._answer(answer, made)

    def _call(self, number: int, name: str, asked: str | None) -> dict[str, Any]:
        try:
            target = self._lent.find(number)
            if name != "__call__":
                target = getattr(target, name)
            if asked is None:
                return {"value": target}
            given = self._values(asked, once=True)
            args = [value for key, value in given.items() if key.isdigit()]
            return {"value": target(*args, **{key: given[key] for key in given if not key.isdigit()})}
        except Exception as error:
            return {"error": error}

    def _answer(self, file: str, made: dict[str, Any]) -> None:
        try:
            self.write(file, made)
        except parcels.CannotTravel as why:
            error = made.get("error") or why
            self.write(file, {"error": ToolError(f"{type(error).__name__}: {error}")})

    def _ask(self, proxy: Proxy, name: str, args: tuple[Any, ...] | None, kwargs: dict[str, Any]) -> Any:
        return self._heard(self._bridge.call("self.proxy", self._question(proxy, name, args, kwargs)))

    async def _aask(
        self, proxy: Proxy, name: str, args: tuple[Any, ...] | None, kwargs: dict[str, Any]
    ) -> Any:
        return self._heard(await self._bridge.acall("self.proxy", self._question(proxy, name, args, kwargs)))

    def _question(
        self, proxy: Proxy, name: str, args: tuple[Any, ...] | None, kwargs: dict[str, Any]
    ) -> tuple[Any, ...]:
        asked = None
        if args is not None:
            asked = self._bridge.call("self.parcel")
            self.write(asked, {**{str(at): value for at, value in enumerate(args)}, **kwargs})
        owner, _, number, *_, lane = proxy._about
        return owner, number, name, asked, lane

    def _heard(self, file: str) -> Any:
        ((kind, value),) = self._values(file, once=True).items()
        if kind == "error":
            raise value
        return value


def _write_note(file: str, note: Mapping[str, Any]) -> None:
    with open(file + wire.PARCEL_NOTE, "w", encoding="utf-8") as beside:
        json.dump(note, beside)
