"""Subshell consoles, comms and widgets of a person's client while an agent's blocks run."""

from __future__ import annotations

import time

import pytest
from ordinary import ordinary_client

pytestmark = [pytest.mark.kernel, pytest.mark.filterwarnings("ignore")]

HOLD = {
    "main": ("while not go_on.is_set(): time.sleep(0.01)", "main"),
    "worker": ("while not go_on.is_set(): time.sleep(0.01)", "worker"),
    "async": ("while not go_on.is_set(): await asyncio.sleep(0.01)", None),
}


@pytest.fixture
def client(tmp_path):
    with ordinary_client(tmp_path) as client:
        client.run("import asyncio, threading, time\ngo_on = threading.Event()")
        yield client


@pytest.fixture
def blocks(client):
    """An agent's blocks in every lane, which go on until the test is over."""
    started = []
    for lane, (code, pin) in HOLD.items():
        started.append(client.block(f"{code}\nprint('{lane}')", lane, **({"lane": pin} if pin else {})))
        client.until("execute_input", of=started[-1])
    yield
    client.run("go_on.set()")
    assert [client.text(block) for block in started] == [f"{lane}\n" for lane in HOLD]


def listed(client) -> list[str]:
    return list(client.control("list_subshell_request")["subshell_id"])


def test_a_subshell_is_made_used_listed_and_deleted_beside_blocks(client, blocks):
    made = [client.control("create_subshell_request")["subshell_id"] for _ in range(2)]
    assert sorted(listed(client)) == sorted(made)
    assert client.run("mine = 6 * 7\nprint(mine)", subshell=made[0]) == "42\n"
    assert client.run("await asyncio.sleep(0)\nprint(mine + 1)", subshell=made[1]) == "43\n"
    assert client.run("print(mine)") == "42\n"
    assert client.control("delete_subshell_request", subshell_id=made[0])["status"] == "ok"
    assert listed(client) == made[1:]
    assert client.reply(client.send("1", subshell=made[0]))["status"] == "error"


@pytest.mark.parametrize("code", ["while True: pass", "await asyncio.Event().wait()"])
def test_an_interrupt_reaches_a_subshell_and_no_other_cell(client, blocks, code):
    subshell = client.control("create_subshell_request")["subshell_id"]
    stuck = client.send(code, subshell=subshell)
    client.until("execute_input", of=stuck)
    client.control("interrupt_request", msg_id=stuck)
    assert client.reply(stuck)["ename"] == "KeyboardInterrupt"
    assert client.run("print('on')", subshell=subshell) == "on\n"


def test_an_interrupt_that_names_nothing_ends_cells_in_subshells_too(client):
    subshell = client.control("create_subshell_request")["subshell_id"]
    stuck = [client.send("while True: pass", subshell=subshell), client.send("while True: pass")]
    for msg_id in stuck:
        client.until("execute_input", of=msg_id)
    client.control("interrupt_request")
    assert [client.reply(msg_id)["ename"] for msg_id in stuck] == ["KeyboardInterrupt"] * 2


def test_deleting_a_busy_subshell_holds_up_nobody_and_harms_no_cell(client, blocks):
    subshell = client.control("create_subshell_request")["subshell_id"]
    busy = client.send("threading.Event().wait(3); print('whole')", subshell=subshell)
    client.until("execute_input", of=busy)
    begun = time.monotonic()
    message = client.client.session.msg("delete_subshell_request", {"subshell_id": subshell})
    client.client.control_channel.send(message)
    assert client.control("list_subshell_request")["subshell_id"] == [subshell]
    assert client.run("print('beside')") == "beside\n"
    assert time.monotonic() - begun < 2.5
    assert client.text(busy) == "whole\n"
    while listed(client):
        time.sleep(0.01)


def test_a_comm_of_the_page_is_served_in_a_subshell_while_a_block_holds_main(client):
    client.run(
        "import comm\n"
        "def opened(channel, message):\n"
        "    channel.on_msg(lambda m: channel.send({'echo': m['content']['data']['say']}))\n"
        "    channel.send({'echo': message['content']['data']['say']})\n"
        "comm.get_comm_manager().register_target('echo', opened)"
    )
    block = client.block(HOLD["main"][0], "a", lane="main")
    client.until("execute_input", of=block)
    subshell = client.control("create_subshell_request")["subshell_id"]
    client.comm("open", subshell, comm_id="c1", target_name="echo", data={"say": 1})
    assert client.until("comm_msg", comm_id="c1")["data"] == {"echo": 1}
    client.comm("msg", subshell, comm_id="c1", data={"say": 2})
    assert client.until("comm_msg", comm_id="c1")["data"] == {"echo": 2}
    client.comm("close", subshell, comm_id="c1", data={})
    client.run("go_on.set()")
    assert client.text(block) == ""
    assert client.run("print('c1' in comm.get_comm_manager().comms)") == "False\n"


def test_a_widget_opens_while_a_block_holds_main_and_hears_the_page_when_main_is_free(client):
    block = client.block(HOLD["main"][0], "a", lane="main")
    client.until("execute_input", of=block)
    cell = client.send(
        "import ipywidgets\nslider, seen = ipywidgets.IntSlider(), []\n"
        "slider.observe(lambda change: seen.append(change['new']), 'value')\nslider"
    )
    assert client.reply(cell)["status"] == "ok"
    shown = client.until("execute_result", of=cell)
    model = shown["data"]["application/vnd.jupyter.widget-view+json"]["model_id"]
    client.until("comm_open", of=cell, comm_id=model)
    client.comm("msg", comm_id=model, data={"method": "update", "state": {"value": 7}, "buffer_paths": []})
    client.run("slider.description = 'from a cell'")
    assert client.until("comm_msg", comm_id=model)["data"]["method"] == "update"
    client.run("go_on.set()")
    assert client.text(block) == ""
    client.run("while not seen: await asyncio.sleep(0.01)")
    assert client.run("print(seen)") == "[7]\n"
