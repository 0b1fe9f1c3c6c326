"""Blocks in a real kernel: lanes, order, outputs, errors."""

from __future__ import annotations

import asyncio
import time

import pytest

from codeact_kernel.blocks import DisplayOutput, ErrorOutput

pytestmark = pytest.mark.kernel


async def test_what_is_printed_and_what_the_last_expression_is_come_back_in_order(bench):
    block = await bench.run("print('one')\nprint('two')\n6 * 7")
    assert block.status == "ok"
    assert block.text == "one\ntwo\n"
    assert block.value == "42"


async def test_names_live_on_between_blocks_of_all_lanes(bench):
    await bench.run("x = 1", lane="main")
    await bench.run("import asyncio\nawait asyncio.sleep(0)\ny = x + 1")
    await bench.run("z = y + 1", lane="worker")
    assert (await bench.run("print(x, y, z)")).text == "1 2 3\n"


async def test_a_block_with_await_goes_to_the_async_lane_and_one_without_to_the_main_lane(bench):
    assert (await bench.run("import asyncio\nawait asyncio.sleep(0)")).lane == "async"
    assert (await bench.run("1")).lane == "main"


async def test_a_block_without_await_goes_to_a_worker_while_the_main_lane_is_busy(bench):
    busy, task = bench.start("import time\ntime.sleep(0.5)")
    await busy.running.wait()
    other = await bench.run("print('beside')")
    assert (other.lane, other.text) == ("worker", "beside\n")
    assert not task.done()
    await task


async def test_a_pinned_block_waits_for_the_main_lane(bench):
    busy, task = bench.start("import time\ntime.sleep(0.4)")
    await busy.running.wait()
    pinned = await bench.run("import threading\nprint(threading.current_thread().name)", lane="main")
    assert (await task).status == "ok"
    assert pinned.text == "MainThread\n"


async def test_twenty_blocks_that_await_and_two_that_sleep_finish_together(bench):
    await bench.run("import asyncio, time")
    begun = time.monotonic()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(bench.run("await asyncio.sleep(1)\nprint('awaited')")) for _ in range(20)]
        tasks += [group.create_task(bench.run("time.sleep(1)\nprint('slept')")) for _ in range(2)]
    assert time.monotonic() - begun < 4
    assert [task.result().text for task in tasks] == ["awaited\n"] * 20 + ["slept\n"] * 2


async def test_three_hundred_one_line_blocks_eight_at_once_keep_their_lines(bench):
    await bench.run("import asyncio")
    gate = asyncio.Semaphore(8)
    lanes = set()

    async def one(number: int) -> None:
        code = f"print('line {number}')" if number % 3 else f"await asyncio.sleep(0)\nprint('line {number}')"
        async with gate:
            block = await bench.run(code)
        assert block.outcome.missing == 0
        assert block.text == f"line {number}\n"
        lanes.add(block.lane)

    async with asyncio.TaskGroup() as group:
        for number in range(300):
            group.create_task(one(number))
    assert lanes == {"main", "async", "worker"}


async def test_set_up_and_use_in_two_blocks_of_one_reply_run_in_order(bench):
    first, first_task = bench.start("import time\ntime.sleep(0.3)\nrows = [1, 2, 3]", id="load", reply=9)
    second, second_task = bench.start("print(sum(rows))", id="use", reply=9)
    await asyncio.gather(first_task, second_task)
    assert second.text == "6\n"
    assert second.began >= first.ended - 0.05
    assert second.outcome.notes == ("it waited for rows, which block load makes",)


async def test_a_block_whose_set_up_failed_is_skipped_and_says_why(bench):
    _, first = bench.start("rows = 1 / 0", id="load", reply=9)
    _, second = bench.start("print(rows)", id="use", reply=9)
    _, third = bench.start("print('other')", id="other", reply=9)
    first, second, third = await asyncio.gather(first, second, third)
    assert (first.status, second.status, third.status) == ("error", "skipped", "ok")
    assert "rows" in second.error
    assert "block load" in second.error


async def test_a_name_that_does_not_exist_yet_is_waited_for_across_replies(bench):
    _, first = bench.start("import time\ntime.sleep(0.3)\nlater = 5", id="slow", reply=1)
    _, second = bench.start("print(later)", id="use", reply=2)
    await first
    assert (await second).text == "5\n"


async def test_side_by_side_is_forced_by_an_empty_after(bench):
    await bench.run("rows = 'old'")
    _, first = bench.start("import time\ntime.sleep(0.5)\nrows = 'new'", reply=3)
    second = await bench.run("print(rows)", reply=3, after=())
    assert second.text == "old\n"
    await first


async def test_two_live_blocks_that_assign_one_name_get_a_line_about_it(bench):
    first, task = bench.start("import time\nfor i in range(3): time.sleep(0.1)", id="a", reply=1)
    await first.running.wait()
    second = await bench.run("for i in range(3): pass", id="b", reply=2)
    assert any("block a" in note and "where i is assigned" in note for note in second.outcome.notes)
    await task


async def test_a_traceback_holds_the_frames_of_blocks_and_none_of_ours(bench):
    await bench.run("def load(path):\n    return open(path).read()", id="tools")
    block = await bench.run("text = load('nowhere.txt')", id="go")
    assert block.error.splitlines() == [
        "block go, line 1",
        "    text = load('nowhere.txt')",
        "block tools, line 2, in load",
        "    return open(path).read()",
        "FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.txt'",
    ]


@pytest.mark.parametrize("code", ["def f():\n    1/0\nf()", "import asyncio\nawait asyncio.sleep(0)\n1/0"])
async def test_the_traceback_for_people_shows_none_of_our_frames_either(bench, code):
    block = await bench.run(code)
    (error,) = [o for o in block.outputs if isinstance(o, ErrorOutput)]
    text = "\n".join(error.traceback)
    assert "ZeroDivisionError" in text
    assert "inkernel" not in text


async def test_an_error_in_a_library_names_the_place_in_one_line(bench):
    block = await bench.run("import json\njson.loads('{')", id="go")
    assert "block go, line 2" in block.error
    assert "raised in json/decoder.py" in block.error
    assert "codeact_kernel" not in block.error
    assert block.error.splitlines()[-1].startswith("json.decoder.JSONDecodeError")


async def test_a_syntax_error_shows_where_it_is(bench):
    block = await bench.run("x = (1,\nprint(x", id="go")
    assert block.status == "error"
    assert "SyntaxError" in block.error
    assert "block go" in block.error


@pytest.mark.parametrize(
    "code", ["exit()", "quit()", "exit", "import sys; sys.exit(1)", "raise SystemExit(2)"]
)
async def test_leaving_ends_the_block_and_not_the_kernel(bench, code):
    await bench.run("kept = 1")
    await bench.run(code)
    assert (await bench.run("print(kept)")).text == "1\n"


async def test_input_fails_at_once_with_a_sentence(bench):
    block = await bench.run("input('name? ')")
    assert block.status == "error"
    assert "runs unattended" in block.error


async def test_ipython_syntax_works(bench):
    assert "Wall time" in (await bench.run("%time sum(range(10))")).text
    assert "hello" in (await bench.run("!echo hello")).text
    assert "number of items" in (await bench.run("len?")).text
    assert (await bench.run("files = !echo one two\nprint(files)")).text == "['one two']\n"
    assert (await bench.run("%%bash\necho from bash")).text == "from bash\n"
    assert (await bench.run("2 + 2;")).value is None


@pytest.mark.parametrize("lane", ["main", "worker"])
async def test_asyncio_run_works_outside_the_async_lane(bench, lane):
    code = "import asyncio\nasync def main():\n    await asyncio.sleep(0.01)\n    print('inside')\n    return 7\n"
    block = await bench.run(code + "asyncio.run(main())", lane=lane)
    assert (block.status, block.lane, block.text, block.value) == ("ok", lane, "inside\n", "7")


async def test_asyncio_run_works_in_the_async_lane(bench):
    code = "import asyncio\nawait asyncio.sleep(0)\nasync def main():\n    print('inside')\n    return 7\n"
    block = await bench.run(code + "asyncio.run(main())")
    assert (block.text, block.value) == ("inside\n", "7")


async def test_a_task_made_in_one_block_is_awaited_in_the_next(bench):
    await bench.run("import asyncio\nasync def job():\n    await asyncio.sleep(0.1)\n    return 'done'")
    made = await bench.run("t = asyncio.create_task(job())")
    assert made.status == "ok", made.error
    assert (await bench.run("print(await t)")).text == "done\n"


async def test_threads_and_tasks_print_as_the_block_that_started_them(bench):
    code = (
        "import threading, time\ndef say():\n    time.sleep(0.3)\n    print('late')\n"
        "threading.Thread(target=say).start()"
    )
    starter = await bench.run(code, id="starter")
    starter.spoke.clear()
    other = await bench.run("import time\ntime.sleep(0.6)\nprint('other')")
    assert other.text == "other\n"
    assert starter.text == "late\n"


async def test_a_plot_is_an_output_of_its_block(bench):
    block = await bench.run("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3]);")
    pictures = [o for o in block.outputs if isinstance(o, DisplayOutput) and "image/png" in o.data]
    assert len(pictures) == 1


async def test_many_lines_arrive_whole_and_in_order(bench):
    block = await bench.run("for i in range(20000): print(i, flush=i % 100 == 0)")
    assert block.outcome.missing == 0
    assert block.text == "".join(f"{i}\n" for i in range(20000))


async def test_stdout_and_stderr_keep_their_order(bench):
    block = await bench.run("import sys\nprint('a')\nprint('b', file=sys.stderr)\nprint('c')")
    assert [(o.name, o.text) for o in block.outputs] == [
        ("stdout", "a\n"),
        ("stderr", "b\n"),
        ("stdout", "c\n"),
    ]


async def test_the_names_of_the_namespace_come_with_each_end(bench):
    block = await bench.run("alpha = 1\n_private = 2\ndef beta(): pass")
    assert {"alpha", "beta"} <= set(block.outcome.names)
    assert not {"In", "Out", "exit", "_private", "get_ipython"} & set(block.outcome.names)
