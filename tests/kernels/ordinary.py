"""An ordinary Jupyter client that keeps all it hears, and can speak for an agent as well."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jupyter_client.manager import start_new_kernel

PATIENCE = 30.0


class OrdinaryClient:
    """A client of the codeact kernel.

    Args:
        client: jupyter_client's blocking client, with its channels started.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.heard: list[dict[str, Any]] = []
        self._replies: dict[str, dict[str, Any]] = {}
        self._seq = itertools.count(1)

    def send(self, code: str, *, subshell: str | None = None, **content: Any) -> str:
        """Send a cell; returns its message's id."""
        return self._send(code, {}, subshell, content)

    def block(self, code: str, id: str, **attributes: Any) -> str:
        """Send an agent's block; returns its message's id."""
        return self._send(code, {"codeact": {"id": id, "reply": 1, **attributes}}, None, {})

    def _send(
        self, code: str, metadata: dict[str, Any], subshell: str | None, content: dict[str, Any]
    ) -> str:
        content = {"code": code, "silent": False, "store_history": True, "stop_on_error": False, **content}
        message = self.client.session.msg("execute_request", content)
        message["metadata"] = metadata
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def comm(self, kind: str, subshell: str | None = None, **content: Any) -> None:
        """Send a comm's message: "open", "msg" or "close"."""
        message = self.client.session.msg(f"comm_{kind}", content)
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)

    def control(self, kind: str, **content: Any) -> dict[str, Any]:
        """Ask on the control channel."""
        message = self.client.session.msg(kind, content)
        self.client.control_channel.send(message)
        while True:
            reply = self.client.get_control_msg(timeout=PATIENCE)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                answer: dict[str, Any] = reply["content"]
                return answer

    def debug(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Ask the debugger."""
        return self.control(
            "debug_request", type="request", seq=next(self._seq), command=command, arguments=arguments
        )

    def reply(self, msg_id: str) -> dict[str, Any]:
        """The reply to a cell or block."""
        while msg_id not in self._replies:
            message = self.client.get_shell_msg(timeout=PATIENCE)
            self._replies[message["parent_header"]["msg_id"]] = message["content"]
        return self._replies[msg_id]

    def until(self, type: str, of: str | None = None, **content: Any) -> dict[str, Any]:
        """The content of the next message of a type on iopub, of a request, with such content."""
        end, seen = time.monotonic() + PATIENCE, 0
        while True:
            while seen < len(self.heard):
                message = self.heard[seen]
                seen += 1
                said = message["content"]
                if (
                    message["msg_type"] == type
                    and of in (None, message["parent_header"].get("msg_id"))
                    and said.items() >= content.items()
                ):
                    del self.heard[seen - 1]
                    return dict(said)
            self.heard.append(self.client.get_iopub_msg(timeout=max(0.1, end - time.monotonic())))

    def run(self, code: str, **options: Any) -> str:
        """Run a cell to its end; returns what it printed."""
        return self.text(self.send(code, **options))

    def text(self, msg_id: str) -> str:
        """What a cell or block has printed by its end."""
        assert self.reply(msg_id)["status"] == "ok", self.reply(msg_id)
        self.until("status", of=msg_id, execution_state="idle")
        own = [m for m in self.heard if m["parent_header"].get("msg_id") == msg_id]
        return "".join(m["content"]["text"] for m in own if m["msg_type"] == "stream")


@contextmanager
def ordinary_client(folder: Path) -> Iterator[OrdinaryClient]:
    """A client with a kernel of its own."""
    manager, client = start_new_kernel(kernel_name="codeact", cwd=str(folder))
    try:
        yield OrdinaryClient(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
