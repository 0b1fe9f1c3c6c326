"""A person debugs their cells while an agent's blocks run."""

from __future__ import annotations

import time

import pytest
from ordinary import OrdinaryClient, ordinary_client

pytestmark = [pytest.mark.kernel, pytest.mark.filterwarnings("ignore")]

BEAT = """
import asyncio, time
beats, go_on = 0, True
def beat():
    global beats
    while go_on:
        beats += 1
        time.sleep(0.02)
async def beat_async():
    global beats
    while go_on:
        beats += 1
        await asyncio.sleep(0.02)
"""
BLOCKS = {
    "main": ("beat()", "main"),
    "worker": ("beat()", "worker"),
    "async": ("await beat_async()", None),
}
CELLS = {
    "sync": "x = 20\ny = x + 1\nprint(y)\n",
    "await": "await asyncio.sleep(0)\nx = 20\ny = x + 1\nprint(y)\n",
}


class Debugging:
    """A client with its debugger on."""

    def __init__(self, client: OrdinaryClient) -> None:
        self.client = client
        assert client.debug("initialize", clientID="test", adapterID="")["success"]
        assert client.debug("attach")["success"]

    def set(self, code: str, line: int | None, **more: object) -> None:
        """Set a breakpoint, as a client does: by the file that stands for the cell."""
        path = self.client.debug("dumpCell", code=code)["body"]["sourcePath"]
        wanted = [] if line is None else [{"line": line, **more}]
        reply = self.client.debug("setBreakpoints", breakpoints=wanted, source={"path": path})
        assert [b["verified"] for b in reply["body"]["breakpoints"]] == [True] * len(wanted)
        self.client.debug("configurationDone")

    def stop(self) -> int:
        """Wait for a stop; returns the thread's id."""
        body = self.client.until("debug_event", event="stopped")["body"]
        assert body["allThreadsStopped"] is False
        return int(body["threadId"])

    def frames(self, thread: int) -> list[tuple[str, int]]:
        reply = self.client.debug("stackTrace", threadId=thread)
        self.top = reply["body"]["stackFrames"][0]["id"]
        return [(frame["name"], frame["line"]) for frame in reply["body"]["stackFrames"]]

    def go_on(self, thread: int) -> None:
        assert self.client.debug("continue", threadId=thread)["success"]


@pytest.fixture
def ordinary(tmp_path):
    with ordinary_client(tmp_path) as client:
        yield client


@pytest.fixture(scope="module")
def debugging(tmp_path_factory):
    """One kernel with its debugger on, for all tests that leave it as it was."""
    with ordinary_client(tmp_path_factory.mktemp("debugging")) as client:
        client.run(BEAT)
        yield Debugging(client)


@pytest.fixture
def blocks(debugging):
    """Starts agents' blocks that count until the test is over."""
    started, client = [], debugging.client
    client.run("go_on = True")

    def start(lane: str) -> None:
        code, pin = BLOCKS[lane]
        started.append(client.block(code, f"b{len(started)}", **({"lane": pin} if pin else {})))
        client.until("execute_input", of=started[-1])

    yield start
    client.run("go_on = False")
    assert [client.text(block) for block in started] == [""] * len(started)


def beats(client: OrdinaryClient) -> int:
    shown = {v["name"]: v["value"] for v in client.debug("inspectVariables")["body"]["variables"]}
    return int(shown["beats"])


def test_without_a_debugger_the_variable_panel_shows_the_names_of_blocks_too(ordinary):
    info = ordinary.debug("debugInfo")["body"]
    assert (info["isStarted"], info["hashMethod"], info["richRendering"]) == (False, "Murmur2", True)
    ordinary.run("class Row:\n    def _repr_html_(self): return '<b>row</b>'\nrow = Row()")
    ordinary.text(ordinary.block("found = [1, 2, 3]", "a"))
    ordinary.block("import time\nwhile True: time.sleep(0.01)", "b")
    shown = {v["name"]: v["value"] for v in ordinary.debug("inspectVariables")["body"]["variables"]}
    assert shown["found"] == "[1, 2, 3]"
    rich = ordinary.debug("richInspectVariables", variableName="row", frameId=0)
    assert rich["body"]["data"]["text/html"] == "<b>row</b>"


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("lane", BLOCKS)
def test_a_cell_stops_at_its_breakpoint_and_no_block_with_it(debugging, blocks, lane, cell):
    client, line = debugging.client, CELLS[cell].splitlines().index("y = x + 1") + 1
    blocks(lane)
    debugging.set(CELLS[cell], line)
    msg_id = client.send(CELLS[cell])
    thread = debugging.stop()
    assert debugging.frames(thread) == [("<module>", line)]
    assert client.debug("debugInfo")["body"]["stoppedThreads"] == [thread]
    rich = client.debug("richInspectVariables", variableName="x", frameId=debugging.top)
    assert rich["body"]["data"] == {"text/plain": "20"}
    if (lane, cell) != ("async", "await"):  # they share one thread
        before = beats(client)
        while beats(client) <= before:
            time.sleep(0.01)
    debugging.go_on(thread)
    assert client.text(msg_id) == "21\n"
    debugging.set(CELLS[cell], None)
    assert client.run(CELLS[cell]) == "21\n"


def test_steps_stay_in_the_person_s_code(debugging):
    code = "def double(n):\n    return 2 * n\n\nz = double(4)\nprint(z)\n"
    debugging.set(code, 4)
    msg_id = debugging.client.send(code)
    thread, places = debugging.stop(), []
    for command in ("stepIn", "stepOut", "next"):
        assert debugging.client.debug(command, threadId=thread)["success"]
        places.append(debugging.frames(debugging.stop())[0])
    assert places == [("double", 2), ("<module>", 4), ("<module>", 5)]
    debugging.client.debug("next", threadId=thread)
    assert debugging.client.text(msg_id) == "8\n"
    assert debugging.client.run("print('not stopped')") == "not stopped\n"


@pytest.mark.parametrize("lane", BLOCKS)
def test_a_block_that_calls_a_function_with_a_breakpoint_does_not_stop(debugging, lane):
    code = "def triple(n):\n    return 3 * n\n"
    debugging.set(code, 2)
    debugging.client.run(code)
    call = "await asyncio.sleep(0)\nprint(triple(4))" if lane == "async" else "print(triple(4))"
    assert debugging.client.text(debugging.client.block(call, "a", lane=lane)) == "12\n"
    cell = debugging.client.send("print(triple(5))")
    thread = debugging.stop()
    assert [name for name, _ in debugging.frames(thread)] == ["triple", "<module>"]
    debugging.go_on(thread)
    assert debugging.client.text(cell) == "15\n"
    debugging.set(code, None)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("main_is_taken", [False, True])
def test_an_interrupt_ends_a_stopped_cell_and_the_debugger_works_on(debugging, blocks, main_is_taken, cell):
    if main_is_taken:
        blocks("main")
    debugging.set(CELLS[cell], 2)
    stopped = debugging.client.send(CELLS[cell])
    debugging.stop()
    debugging.client.control("interrupt_request", msg_id=stopped)
    assert debugging.client.reply(stopped)["ename"] == "KeyboardInterrupt"
    debugging.client.until("debug_event", event="continued")
    assert debugging.client.debug("debugInfo")["body"]["stoppedThreads"] == []
    again = debugging.client.send(CELLS[cell])
    debugging.go_on(debugging.stop())
    assert debugging.client.text(again) == "21\n"
    debugging.set(CELLS[cell], None)


def test_the_debugger_is_turned_off_at_a_stop_and_on_again(ordinary):
    ordinary.run(BEAT)
    block = ordinary.block(BLOCKS["main"][0], "a", lane="main")
    ordinary.until("execute_input", of=block)
    debugging = Debugging(ordinary)
    debugging.set(CELLS["sync"], 2)
    msg_id = ordinary.send(CELLS["sync"])
    debugging.stop()
    assert ordinary.debug("disconnect", restart=False, terminateDebuggee=False)["success"]
    assert ordinary.text(msg_id) == "21\n"
    ordinary.run("go_on = False")
    assert ordinary.text(block) == ""
    assert ordinary.run(CELLS["sync"]) == "21\n"
    assert Debugging(ordinary).client.debug("debugInfo")["body"]["isStarted"]


def test_the_debugger_starts_while_a_cell_runs_and_holds_up_neither_interrupts_nor_other_cells(ordinary):
    busy = ordinary.send("import time\ntime.sleep(600)")
    ordinary.until("execute_input", of=busy)
    debugging = Debugging(ordinary)
    debugging.set(CELLS["sync"], 2)
    ordinary.control("interrupt_request", msg_id=busy)
    assert ordinary.reply(busy)["ename"] == "KeyboardInterrupt"
    msg_id = ordinary.send(CELLS["sync"])
    debugging.go_on(debugging.stop())
    assert ordinary.text(msg_id) == "21\n"


def test_a_look_at_a_variable_that_takes_for_ever_holds_up_no_interrupt(ordinary):
    ordinary.run("import threading\nlooked = threading.Event()")
    ordinary.run(
        "class Slow:\n    def __repr__(self):\n        looked.set()\n        threading.Event().wait()\nslow = Slow()"
    )
    message = ordinary.client.session.msg(
        "debug_request", {"type": "request", "seq": 99, "command": "inspectVariables", "arguments": {}}
    )
    ordinary.client.control_channel.send(message)
    ordinary.run("looked.wait(30)")
    busy = ordinary.send("threading.Event().wait()")
    ordinary.until("execute_input", of=busy)
    ordinary.control("interrupt_request", msg_id=busy)
    assert ordinary.reply(busy)["ename"] == "KeyboardInterrupt"


def test_a_debug_request_that_fails_is_answered(ordinary):
    reply = ordinary.debug("richInspectVariables")
    assert (reply["success"], reply["command"]) == (False, "richInspectVariables")
    assert "variableName" in reply["message"]
