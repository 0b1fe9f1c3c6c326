"""An agent's kernel among those of its parent and its sub-agents.

Comes in: wishes of the host, as code that it has run, and of blocks. Goes out: parcels written and read, objects
bound, and the calls of other kernels' proxies, made here.
"""

from __future__ import annotations

import builtins
import inspect
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from codeact_kernel.inkernel import dataparcels, parcels, wire
from codeact_kernel.inkernel.bridge import Bridge, ToolError
from codeact_kernel.inkernel.namespace import ensure_cloudpickle
from codeact_kernel.inkernel.proxies import Lent, Proxy, reached

_DATA_ONLY = (
    "This agent may do less than the one that gets it (it lacks {lacks}), so what it hands over is data, and no code "
    "or pickle. Hand over rows, arrays, frames or dataclasses; or write a file into the workspace and hand over its "
    "path; or let your parent start you with the same tools (namespace=)."
)


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

    def ensure_cloudpickle(self) -> None:
        """Make cloudpickle importable here."""
        ensure_cloudpickle(self._cloudpickle)

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
        self.ensure_cloudpickle()
        trip = parcels.Trip(self.namespace, self._shell.user_ns_hidden, self._lent.lend)
        parcels.write(file, trip.pack(values))
        names = {name: wire.describe(value) for name, value in values.items()}
        return {
            "names": names | {name: f"proxy of a {names[name]}" for name in trip.stand_ins if name in names},
            "tools": trip.tools,
        }

    def put(self, place: Mapping[str, Any], values: Mapping[str, Any], *, lend: bool = False) -> None:
        """Write values for an agent that may do more than this one, or no more.

        Args:
            place: What the host says of it: "file", and "lacks", what this agent may not do and that one may.
            values: The values by name.
            lend: Whether what is no data is lent.

        Raises:
            CannotTravel: If one of them cannot be passed.
        """
        if not place["lacks"]:
            self.write(place["file"], values)
            return
        try:
            dataparcels.write_data(place["file"], values, self._lent if lend else None)
        except parcels.CannotTravel as error:
            why = _DATA_ONLY.format(lacks="; ".join(place["lacks"]))
            raise parcels.CannotTravel(f"{error}\n{why}") from None

    def receive(self, file: str) -> dict[str, str]:
        """Bind what a parcel of this agent's parent holds, and what that needs.

        Args:
            file: The parcel.

        Returns:
            Why it could not be read, under "parcel"; nothing where it could.
        """
        try:
            self.namespace.update(self._values(file, data=False))
        except Exception as error:
            return {"parcel": f"{type(error).__name__}: {error}"}
        return {}

    def take(self, name: str, file: str, note: str, *, data: bool) -> None:
        """Take what a sub-agent has handed back. Its name is bound to it, if that is free; a note says what it is.

        Args:
            name: The sub-agent's name.
            file: The parcel.
            note: Where the note goes.
            data: Whether it is taken as data only, since the sub-agent may do less than this one.
        """
        value = self._results[file] = self.load(file, data=data)
        bound = name.isidentifier() and name not in self.namespace
        if bound:
            self.namespace[name] = value
        # To describe a proxy would be to call the other kernel.
        _write_note(
            note, {"what": str(value) if isinstance(value, Proxy) else wire.describe(value), "bound": bound}
        )

    def load(self, file: str, *, data: bool) -> Any:
        """The one value of a parcel.

        Args:
            file: The parcel.
            data: As in `take`.
        """
        values = list(self._values(file, data=data).values())
        if len(values) != 1:
            raise ValueError(f"it holds {len(values)} values instead of one")
        return values[0]

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
            self._results[file] = self.load(file, data=said["data"])
        return self._results[file]

    def _values(self, file: str, *, data: bool, once: bool = False) -> dict[str, Any]:
        try:
            if data:
                return dataparcels.read_data(file, self)
            self.ensure_cloudpickle()
            values, *needed = parcels.read(file, self)
        finally:
            if once:
                # Where kernels may not touch each other's files, the host removes it.
                with suppress(OSError):
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

    def serve(
        self, number: int, name: str, asked: str | None, answer: Mapping[str, Any], *, data: bool
    ) -> None:
        """Make a call of another kernel's proxy here.

        Args:
            number: The object's.
            name: The method, or the attribute.
            asked: The parcel with the arguments; None to read the attribute.
            answer: Where the parcel with the answer goes, as in `put`.
            data: Whether the arguments are taken as data only.
        """
        self._answer(answer, self._call(number, name, asked, data))

    async def aserve(
        self, number: int, name: str, asked: str | None, answer: Mapping[str, Any], *, data: bool
    ) -> None:
        """As `serve`, for objects whose methods are awaited."""
        made = self._call(number, name, asked, data)
        if asked is not None and inspect.isawaitable(made.get("value")):
            try:
                made = {"value": await made["value"]}
            except Exception as error:
                made = {"error": error}
        self._answer(answer, made)

    def _call(self, number: int, name: str, asked: str | None, data: bool) -> dict[str, Any]:
        try:
            target = reached(self._lent.find(number), name)
            if asked is None:
                return {"value": target}
            given = self._values(asked, data=data, once=True)
            args = [value for key, value in given.items() if key.isdigit()]
            return {"value": target(*args, **{key: given[key] for key in given if not key.isdigit()})}
        except Exception as error:
            return {"error": error}

    def _answer(self, place: Mapping[str, Any], made: dict[str, Any]) -> None:
        try:
            self.put(place, _as_data(made) if place["lacks"] else made, lend=True)
        except parcels.CannotTravel as why:
            error = made.get("error") or why
            made = {"error": ToolError(f"{type(error).__name__}: {error}")}
            self.put(place, _as_data(made) if place["lacks"] else made)

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
        owner, _, number, *_, lane = proxy._about
        if args is not None:
            place = self._bridge.call("self.parcel", (owner,))
            self.put(place, {**{str(at): value for at, value in enumerate(args)}, **kwargs}, lend=True)
            asked = place["file"]
        return owner, number, name, asked, lane

    def _heard(self, said: Mapping[str, Any]) -> Any:
        values = self._values(said["file"], data=said["data"], once=True)
        if "error" in values:
            error = values["error"]
            raise error if isinstance(error, Exception) else _error(error)
        return values["value"]


def _as_data(made: dict[str, Any]) -> dict[str, Any]:
    """What came of a call, with an error as the name of its class and its text."""
    error = made.get("error")
    return made if error is None else {"error": (type(error).__name__, str(error))}


def _error(told: Any) -> Exception:
    """An error that has come as data: of Python's own class where it is one of those."""
    name, text = map(str, told)
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        with suppress(Exception):
            return kind(text)
    return ToolError(text if name == "ToolError" else f"{name}: {text}")


def _write_note(file: str, note: Mapping[str, Any]) -> None:
    beside = file + wire.PARCEL_NOTE
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as out:
        out.write(json.dumps(note).encode())
