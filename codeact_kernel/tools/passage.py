"""How far a call of a tool has been judged: where its paths have led, and whom it may talk to.

Comes in: what the gate has let pass, for the call that is being made. Goes out: answers for the tools that open files
and connections, at the moment at which they do it. Outside of a call that was judged everything may be opened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar

from codeact_kernel.errors import ToolError

Reach = Callable[[str], Awaitable[None]]

_places: ContextVar[Mapping[str, str] | None] = ContextVar("where the paths of a call have led", default=None)
_reach: ContextVar[Reach | None] = ContextVar("judges other addresses of a call", default=None)


def let_through(places: Mapping[str, str], reach: Reach) -> None:
    """Note for the call that is being made what was judged.

    Args:
        places: By each of its paths, as given, where it has led.
        reach: Judges a further address; raises a `ToolError` where the call may not go there.
    """
    _places.set(places)
    _reach.set(reach)


def let_all() -> None:
    """Note that the call is over."""
    _places.set(None)
    _reach.set(None)


def check_place(path: str, real: str) -> None:
    """See that a path leads to where it has led when the call was judged.

    Args:
        path: As it was given.
        real: Where it leads now, absolute.

    Raises:
        ToolError: If that is somewhere else.
    """
    judged = (_places.get() or {}).get(path, real)
    if judged != real:
        raise ToolError(
            f"{path!r} leads to another place than a moment ago; look at what it is, and try again"
        )


async def check_reach(url: str) -> None:
    """See that a call may go on to an address that it was redirected to.

    Args:
        url: The address.

    Raises:
        ToolError: If it may not.
    """
    reach = _reach.get()
    if reach is not None:
        await reach(url)
