"""A notebook without a page: cells that are run one after the other in a kernel of any kind."""

from __future__ import annotations

import time

from jupyter_client.manager import KernelManager

PATIENCE = 60.0


class Cell:
    """What came of a cell."""

    def __init__(self):
        self.outputs, self.shown, self.prompts = [], {}, []
        self.status, self.seconds, self.problem = "", 0.0, ""

    @property
    def text(self):
        """All that it shows in the end, as text."""
        return "".join([*self.outputs, *(data["text/plain"] for data in self.shown.values()), self.problem])


class Notebook:
    """A kernel and its client.

    Args:
        kernel: The name of its kernelspec.
        folder: Where it runs.
        env: Its environment.
    """

    def __init__(self, kernel, folder, env):
        self.manager = KernelManager(kernel_name=kernel, transport="ipc", ip=str(folder / "k"))
        self.manager.start_kernel(cwd=str(folder), env=env)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(PATIENCE)
        self.displays = {}
        """What is shown under each display id; updates come whenever they like."""

    def run(self, code, *, seen="", then=lambda: None, answers=()):
        """Run a cell.

        Args:
            code: The cell.
            seen: Once this is shown,
            then: this is done.
            answers: What is typed where something is asked.
        """
        cell, answers, began = Cell(), list(answers), time.monotonic()
        msg_id = self.client.execute(code, allow_stdin=bool(answers))
        left = {"idle", "reply"}
        while left:
            assert time.monotonic() - began < PATIENCE, f"{code}: {cell.text}"
            for channel in (self.client.iopub_channel, self.client.shell_channel, self.client.stdin_channel):
                while channel.msg_ready():
                    left -= self._take(channel.get_msg(timeout=1), msg_id, cell, answers)
            if seen and seen in cell.text:
                seen, _ = "", then()
            time.sleep(0.005)
        cell.seconds = time.monotonic() - began
        return cell

    def until(self, found, *, of=None):
        """Take what comes beside cells until something is shown."""
        began = time.monotonic()
        while not any(found in data["text/plain"] for data in self.displays.values()):
            assert time.monotonic() - began < PATIENCE, self.displays
            if self.client.iopub_channel.msg_ready():
                self._take(self.client.iopub_channel.get_msg(timeout=1), "", Cell(), [])
            time.sleep(0.005)

    def _take(self, message, msg_id, cell, answers):
        kind, content = message["msg_type"], message["content"]
        mine = message["parent_header"].get("msg_id") == msg_id
        if kind in ("display_data", "update_display_data") and "display_id" in content.get("transient", {}):
            self.displays[content["transient"]["display_id"]] = content["data"]
            if mine:
                cell.shown[content["transient"]["display_id"]] = content["data"]
        elif kind == "input_request":
            cell.prompts.append(content["prompt"])
            self.client.input(answers.pop(0))
        elif not mine:
            return set()
        elif kind == "stream":
            cell.outputs.append(content["text"])
        elif kind == "error":
            cell.problem = "\n".join(content["traceback"])
        elif kind == "execute_reply":
            cell.status = content["status"]
            return {"reply"}
        elif kind == "status" and content["execution_state"] == "idle":
            return {"idle"}
        return set()

    def interrupt(self):
        """Press the stop button."""
        self.manager.interrupt_kernel()

    def close(self):
        """End the kernel."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()
