"""Objects that live in one process, used from another agent's kernel.

Comes in: an object that cannot be pickled (an open connection, a browser's page). Goes out: in another kernel a proxy,
whose calls run where the object lives. What a call returns comes back as a copy, or as a proxy where it cannot be one.

What a proxy can do: calls of methods, reads of attributes, those whose names begin with no underscore, and a call of
the object itself. No operators, no `with`, no iteration, no assignments: those would be many calls, or mean something
only where the object lives.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

_LOCK = type(threading.Lock())
_NEVER = (
    types.GeneratorType, types.AsyncGeneratorType, types.CoroutineType, types.FrameType, types.TracebackType,
    asyncio.Future, asyncio.AbstractEventLoop, asyncio.Lock, asyncio.Event, asyncio.Queue, threading.Thread,
    threading.Event, threading.Condition, threading.local, _LOCK, type(threading.RLock()),
    list, tuple, dict, set, frozenset, memoryview, BaseException,
)  # fmt: skip
"""What no proxy stands for: half-done computations, what only means something between the threads of one process, and
containers, of which one item is the matter."""


class StandIn:
    """Travels in an object's place, and is a proxy where it arrives.

    Args:
        about: What `Place.proxy` takes.
    """

    def __init__(self, *about: Any) -> None:
        self.about = about

    def __reduce__(self) -> tuple[Any, ...]:
        from codeact_kernel.inkernel.parcels import proxy

        return proxy, self.about


class Lent:
    """The objects of this kernel that others use.

    Args:
        owner: The agent whose kernel this is: its number in its tree, and its name.
    """

    def __init__(self, owner: tuple[int, str]) -> None:
        self.owner = owner[0]
        self._whose = owner
        self._objects: dict[int, Any] = {}

    def lend(self, name: str, value: Any) -> StandIn | None:
        """Make an object usable from elsewhere.

        Args:
            name: What it is called here.
            value: The object.

        Returns:
            What travels, or None where no proxy can stand for such an object.
        """
        if isinstance(value, Proxy):
            return StandIn(*value._about)
        if isinstance(value, _NEVER):
            return None
        # Whoever knows a number may call the object, so it cannot be guessed; and a proxy from before a restart must
        # find nothing, and not another object.
        number = next((n for n, lent in self._objects.items() if lent is value), None) or secrets.randbits(62)
        self._objects[number] = value
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        methods = dict(_methods(value))
        # A function belongs to no thread; and who calls it back may be waited for in the main one.
        lane = "worker" if isinstance(value, types.FunctionType) else "main"
        return StandIn(*self._whose, number, kind, methods, "async" if any(methods.values()) else lane)

    def find(self, number: int) -> Any:
        """The object of a number.

        Raises:
            LookupError: If it is no longer there.
        """
        try:
            return self._objects[number]
        except KeyError:
            raise LookupError("the object is no longer there: its kernel was restarted") from None


def reached(value: Any, name: str) -> Any:
    """What a proxy of another kernel gets by a name: the object itself, or what it has for all to see.

    From an attribute such as `__globals__` or `__class__` a way leads to everything that a kernel can do.

    Args:
        value: The object that is lent.
        name: The name.

    Raises:
        AttributeError: If it has no such name, or that is nobody else's business.
    """
    if name == "__call__":
        return value
    if name.startswith("_"):
        raise AttributeError(f"names that begin with _ are not lent: {name}")
    return getattr(value, name)


def _methods(value: Any) -> Iterator[tuple[str, bool]]:
    """The methods that an object has, and whether each is awaited."""
    for name in dir(type(value)):
        if name.startswith("_") and name != "__call__":
            continue
        member = inspect.getattr_static(type(value), name, None)
        function = getattr(member, "__func__", member)
        if isinstance(member, property) or not callable(function):
            continue
        if isinstance(value, types.FunctionType | types.MethodType) and name == "__call__":
            function = value
        yield name, inspect.iscoroutinefunction(function)


Call = Callable[["Proxy", str, "tuple[Any, ...] | None", dict[str, Any]], Any]
"""Makes a call where the object lives: (proxy, name, arguments, or None to read the attribute, named arguments)."""


class Proxy:
    """Stands for an object in another agent's kernel: its methods run there, in the lane that the repr names.

    Arguments and results travel as copies; what cannot be copied comes back as a proxy. Calls of methods, reads of
    attributes and a call of the object itself are all that there is.
    """

    def __init__(self, call: Call, acall: Call, *about: Any) -> None:
        _, owner, _, kind, methods, lane = about
        told = f"<proxy of a {kind}; its calls run in the {lane} lane of {owner}'s kernel>"
        self.__dict__.update(_call=call, _acall=acall, _about=about, _methods=methods, _told=told)

    def __getattr__(self, name: str) -> Any:
        awaited = self._methods.get(name)
        if awaited is None:
            if name.startswith("_"):
                raise AttributeError(f"{self!r} has no {name}: names that begin with _ stay where they are")
            return self._call(self, name, None, {})

        if awaited:

            async def method(*args: Any, **kwargs: Any) -> Any:
                return await self._acall(self, name, args, kwargs)
        else:

            def method(*args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]
                return self._call(self, name, args, kwargs)

        method.__name__ = name
        return method

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self!r} takes no assignments; call a method of the object that does it")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the object itself."""
        if "__call__" not in self._methods:
            raise TypeError(f"{self!r} cannot be called")
        return self.__getattr__("__call__")(*args, **kwargs)

    def __dir__(self) -> list[str]:
        return sorted(self._methods)

    def __reduce__(self) -> tuple[Any, ...]:
        return StandIn(*self._about).__reduce__()

    def __repr__(self) -> str:
        told: str = self._told
        return told
