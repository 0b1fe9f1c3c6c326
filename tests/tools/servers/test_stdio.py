"""Servers that are programs: what they do wrong ends one call with an error, and never hangs."""

from __future__ import annotations

import asyncio
import json
import time

import psutil
import pytest

from codeact_kernel.errors import ToolError
from codeact_kernel.tools.mcp import server as server_module


async def failure(awaitable):
    with pytest.raises(ToolError) as caught:
        await awaitable
    return str(caught.value)


def lives(pid):
    try:
        return psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_a_program_is_started_at_the_first_call_and_answers(program, call):
    raw = program()
    assert raw.known() is None
    assert json.loads(await call(raw, "echo", text="ä\n€")) == {"text": "ä\n€"}
    assert raw.known().keys() >= {"echo", "sleep"}


async def test_calls_that_come_at_once_start_it_once(program, call):
    raw = program()
    pids = await asyncio.gather(*(call(raw, "pid") for _ in range(50)))
    assert len(set(pids)) == 1


async def test_fifty_calls_run_side_by_side(program, call):
    raw = program()
    await raw.tools()
    begun = time.monotonic()
    assert await asyncio.gather(*(call(raw, "sleep", seconds=0.2) for _ in range(50))) == ["slept"] * 50
    assert time.monotonic() - begun < 5


async def test_a_death_in_mid_call_is_told_with_its_last_words_and_the_next_call_starts_it_anew(
    program, call
):
    raw = program(env={"SECRET_TOKEN": "s3cr3t-token-value"})
    first = await call(raw, "pid")
    waiting = asyncio.create_task(failure(call(raw, "sleep", seconds=60)))
    text = await failure(call(raw, "die"))
    assert text.startswith("mcp.raw.die: the server ended before it answered")
    assert "exit code 7" in text
    assert "about to die: token=***" in text
    assert "s3cr3t" not in text
    assert "mcp.raw.sleep: the server ended" in await waiting
    assert await call(raw, "pid") != first


async def test_a_death_between_calls_costs_no_call(program, call):
    raw = program()
    first = int(await call(raw, "pid"))
    psutil.Process(first).kill()
    async with asyncio.timeout(20):
        while psutil.pid_exists(first):
            await asyncio.sleep(0.01)
    assert await call(raw, "pid") != str(first)


async def test_it_is_started_anew_once_and_then_no_more_for_a_while(program, call):
    raw = program()
    for _ in range(2):
        assert "ended" in await failure(call(raw, "die"))
    text = await failure(call(raw, "echo"))
    assert "was started 2 times and is not started again for" in text
    assert "about to die" in text


async def test_after_a_while_it_is_started_again(program, call, monkeypatch):
    monkeypatch.setattr(server_module, "WINDOW", 0.0)
    raw = program()
    for _ in range(4):
        assert "ended" in await failure(call(raw, "die"))
    assert await call(raw, "echo") == "{}"


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("dies", ["does not start: Connection closed", "exit code 4", "no configuration; secret ***"]),
        ("loop", ["does not start", "its list of tools has no end"]),
        ("old", ["does not start", "Unsupported protocol version"]),
    ],
)
async def test_a_program_that_does_not_start_says_why(program, mode, words):
    text = await failure(program(mode, env={"SECRET_TOKEN": "s3cr3t-token-value"}).tools())
    for word in words:
        assert word in text


async def test_a_program_that_never_answers_is_ended_after_its_time(program):
    text = await failure(program("mute", start_timeout=0.3).tools())
    assert text.startswith("mcp.raw was not ready within 0.3 s and is ended.")
    assert "started mute" in text


async def test_a_program_that_is_not_there_is_named(program, tmp_path):
    assert await failure(program(command=("no-such-program",)).tools()) == (
        "mcp.raw does not start: no-such-program: No such file or directory."
    )
    (tmp_path / "plain").touch()
    assert "Permission denied" in await failure(program(command=(str(tmp_path / "plain"),)).tools())


async def test_what_is_not_ready_in_time_ends_all_who_wait_and_leaves_nothing(program):
    raw = program("mute", start_timeout=0.3)
    texts = await asyncio.gather(*(failure(raw.tools()) for _ in range(10)))
    assert len(set(texts)) == 1


async def test_a_slow_answer_is_an_error_and_the_server_is_told_to_stop(program, call):
    raw = program(timeout=0.3)
    assert await failure(call(raw, "sleep", seconds=60)) == (
        "mcp.raw.sleep: no answer within 0.3 s; the call was cancelled"
    )
    assert len(json.loads(await call(raw, "cancelled"))) == 1


async def test_a_cancelled_call_is_cancelled_at_the_server(program, call):
    raw = program()
    await raw.tools()
    task = asyncio.create_task(call(raw, "sleep", seconds=60))
    await call(raw, "echo")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(json.loads(await call(raw, "cancelled"))) == 1


async def test_a_first_call_that_is_cancelled_spares_the_others(program, call):
    raw = program()
    first, second = (asyncio.create_task(call(raw, "echo")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == "{}"
    with pytest.raises(asyncio.CancelledError):
        await first


@pytest.mark.parametrize("order", [{}, {"id_last": True}])
async def test_an_answer_of_20_mb_is_an_error_of_this_call_and_no_other(program, call, order):
    raw = program()
    small, text = await asyncio.gather(
        call(raw, "sleep", seconds=0.1), failure(call(raw, "big", size=20_000_000, **order))
    )
    assert small == "slept"
    assert text == "mcp.raw.big: the answer has 20 MB; at most 10 MB are taken"
    assert await call(raw, "echo") == "{}"


async def test_an_answer_below_the_bound_comes(program, call):
    assert len(await call(program(), "big", size=9_000_000)) == 9_000_000


async def test_the_bound_can_be_set(program, call):
    assert "at most 100 kB are taken" in await failure(call(program(max_result=100_000), "big", size=200_000))


@pytest.mark.kernel
async def test_a_line_without_an_end_ends_the_server(program, call):
    text = await failure(call(program(max_result=100_000), "big", size=0, endless=True))
    assert "the server ended" in text
    assert "a line without an end" in text


async def test_what_is_no_message_is_passed_over_and_kept_in_the_log(program, call, tmp_path):
    raw = program(logs=tmp_path / "logs", max_result=100_000)
    assert await call(raw, "garbage") == "clean"
    assert await call(raw, "big", size=200_000, no_id=True) == "after all"
    log = (tmp_path / "logs" / "raw.log").read_text()
    assert "(on stdout, and no message) Server ready!" in log


@pytest.mark.kernel
async def test_a_flood_of_what_is_no_message_holds_up_nothing(program, call, tmp_path):
    raw = program(logs=tmp_path / "logs")
    assert await call(raw, "garbage", lines=500_000) == "clean"
    assert "such lines" in (tmp_path / "logs" / "raw.log").read_text()


async def test_a_broken_answer_is_an_error_of_its_call(program, call):
    raw = program()
    assert await failure(call(raw, "broken")) == "mcp.raw.broken: the answer is broken: it is no JSON"
    assert await call(raw, "echo") == "{}"


@pytest.mark.kernel
async def test_a_program_that_no_longer_reads_ends_no_caller_later_than_its_time(program, call):
    raw = program(timeout=0.5)
    await raw.tools()
    calls = [failure(call(raw, "deaf"))]
    calls += [failure(call(raw, "echo", text="x" * 300_000)) for _ in range(3)]
    begun = time.monotonic()
    assert all("no answer within 0.5 s" in text for text in await asyncio.gather(*calls))
    assert time.monotonic() - begun < 4


async def test_five_hundred_tools_come_in_pages(program):
    assert list(await program("pages").tools()) == [f"tool_{n}" for n in range(500)]


@pytest.mark.parametrize("session", [False, True])
async def test_closing_ends_what_it_has_started(program, call, session):
    raw = program()
    child = int(await call(raw, "spawn", session=session))
    assert lives(child)
    await raw.aclose()
    assert not lives(child)


@pytest.mark.kernel
async def test_a_child_that_holds_stdout_does_not_hide_the_death(program, call):
    text = await failure(call(program(), "orphan"))
    assert "exit code 3" in text


@pytest.mark.kernel
async def test_a_program_that_stays_is_ended_by_force(program, call):
    raw = program("stays")
    pid = int(await call(raw, "pid"))
    await raw.aclose()
    assert not lives(pid)


async def test_a_call_that_is_under_way_ends_with_the_server(program, call):
    raw = program()
    await raw.tools()
    waiting = asyncio.create_task(failure(call(raw, "sleep", seconds=60)))
    await call(raw, "echo")
    await raw.aclose()
    assert "the agent ended" in await waiting
    assert "is closed" in await failure(raw.tools())
    await raw.aclose()


async def test_closing_while_it_starts_leaves_nothing(program):
    raw = program("mute")
    starting = asyncio.create_task(raw.tools())
    while not psutil.Process().children():
        await asyncio.sleep(0.01)
    await raw.aclose()
    assert "is closed" in await failure(starting)


async def test_it_sees_its_own_variables_and_the_safe_ones_only(program, call, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    names = json.loads(await call(program(env={"MINE": "1"}), "env"))
    assert "MINE" in names
    assert "PATH" in names
    assert "OPENAI_API_KEY" not in names


async def test_its_stderr_is_kept_in_a_file_without_its_secrets(program, call, tmp_path):
    raw = program(logs=tmp_path / "logs", env={"SECRET_TOKEN": "s3cr3t-token-value"})
    await call(raw, "talk", lines=1000)
    await failure(call(raw, "die"))
    log = (tmp_path / "logs" / "raw.log").read_text()
    assert log.count("\n") == 1002
    assert "line 999 yyyyyyyyyy\nabout to die: token=***\n" in log


async def test_a_flood_on_stderr_holds_up_nothing_and_fills_no_disk(program, call, tmp_path):
    raw = program(logs=tmp_path / "logs")
    assert await call(raw, "talk", lines=20_000, width=500) == "said"
    await raw.aclose()
    files = list((tmp_path / "logs").iterdir())
    assert {file.name for file in files} == {"raw.log", "raw.log.1"}
    assert sum(file.stat().st_size for file in files) < 9_000_000


async def test_a_server_of_the_protocol_of_2026_alone_is_spoken_to_in_it(program, call):
    async def elicit(elicitation):
        assert elicitation.message == "Name?"
        return {"name": "May"}

    raw = program("modern", elicit=elicit)
    assert await call(raw, "echo") == "{}"
    assert json.loads(await call(raw, "ask")) == {"q": {"action": "accept", "content": {"name": "May"}}}
    assert await call(raw, "patience") == "3"
    assert await failure(call(raw, "sample")) == (
        "mcp.raw.sample: it wants sampling/createMessage, which is not offered"
    )


async def test_a_change_of_its_tools_is_heard_of_in_the_protocol_of_2026(program, call):
    raw = program("modern")
    assert "grown" not in await raw.tools()
    await call(raw, "grow")
    async with asyncio.timeout(20):
        while "grown" not in await raw.tools():
            await asyncio.sleep(0.01)


STRANGE = [
    {"name": "class", "inputSchema": {"type": "object"}},
    {"name": "", "inputSchema": {"type": "object"}},
    {"name": "a-b", "inputSchema": {"type": "object", "properties": {"x-y": {"type": "string"}}}},
    {"name": "a_b", "inputSchema": {}, "outputSchema": {"$ref": "#"}},
    {"name": "a-b", "inputSchema": {"type": "object"}, "description": "again"},
    {"name": "__init__", "inputSchema": {"type": "object"}},
    {"name": "no_schema"},
    {"name": "wrong", "inputSchema": [], "outputSchema": {"type": "string"}},
    7,
    {"name": "größe", "inputSchema": {"type": "object", "properties": {}, "required": ["ghost"]}},
    {
        "name": "n" * 100_000,
        "title": "t" * 100_000,
        "description": "d" * 1_000_000,
        "inputSchema": {"type": "object"},
    },
    {"name": "x\x1b[2J", "description": "\x1b[2Jhi", "inputSchema": {"anyOf": [{"properties": {"p": {}}}]}},
]


async def test_tools_with_strange_names_are_all_there(program, call, tmp_path):
    (tmp_path / "tools.json").write_text(json.dumps(STRANGE))
    raw = program(str(tmp_path / "tools.json"))
    tools = await raw.tools()
    assert [name[:20] for name in tools] == [
        "class_", "x", "a_b", "a_b_2", "x__init__", "no_schema", "wrong", "größe", "n" * 20, "x__2J",
    ]  # fmt: skip
    assert all(len(tool.signature) + len(tool.doc) + len(tool.definition) < 10_000 for tool in tools.values())
    assert tools["x__2J"].doc == "[2Jhi"
    assert json.loads(await call(raw, "a_b", x_y="1")) == {"tool": "a-b", "x-y": "1"}
    assert json.loads(await call(raw, "a_b_2")) == {"tool": "a_b"}
    assert json.loads(await call(raw, "class_")) == {"tool": "class"}
