"""Requests that are held until their owner has decided about them.

Comes in: the owner's decisions on the control channel, each about one request. Goes out: requests that may run, with
other code where the owner says so; those that will not are answered.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from codeact_kernel.inkernel import wire
from codeact_kernel.inkernel.request import Request
from codeact_kernel.inkernel.router import Router

Reply = Callable[[str, dict[str, Any], Any, Any], None]


class Admission:
    """Takes decisions.

    Args:
        router: Has the requests.
        prepare: Reads a request's code: what it is to IPython, and its names.
        reply: Sends a reply on the control channel: (type, content, parent, identity).
    """

    def __init__(self, router: Router, prepare: Callable[[Request], None], reply: Reply) -> None:
        self._router = router
        self._prepare = prepare
        self._reply = reply

    @property
    def handlers(self) -> dict[str, Callable[[Any, Any, dict[str, Any]], Coroutine[Any, Any, None]]]:
        """What takes which control message."""
        return {wire.ADMIT: self.admit, wire.REFUSE: self.refuse}

    async def admit(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Let a request run when its turn has come."""
        wanted = parent["content"]
        code = wanted.get("code")
        change = None if code is None else partial(self._change, code=str(code))
        self._router.admit(wanted["msg_id"], change)
        self._reply(wire.ADMIT_REPLY, {"status": "ok"}, parent, ident)

    async def refuse(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Answer a request that will not run."""
        self._router.refuse(parent["content"]["msg_id"])
        self._reply(wire.REFUSE_REPLY, {"status": "ok"}, parent, ident)

    def _change(self, request: Request, *, code: str) -> None:
        request.content["code"] = code
        request.transform_error = None
        self._prepare(request)
