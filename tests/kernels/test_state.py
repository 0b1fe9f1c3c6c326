"""State that stock kernels share and that belongs to a block here."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel

from codeact_kernel.blocks import DisplayOutput, ResultOutput

pytestmark = pytest.mark.kernel

PAGE = Path(__file__).parents[2] / "docs" / "design" / "state.md"
NAMES = """
import json
shell = get_ipython()
kept = {"shell": shell, "kernel": shell.kernel, "displayhook": shell.displayhook, "display_pub": shell.display_pub}
kept |= {"history_manager": shell.history_manager, "compile": shell.compile}
traits = {name: getattr(what, "trait_names", list)() for name, what in kept.items()}
print(json.dumps({name: sorted({*traits[name], *vars(what)}) for name, what in kept.items()}))
"""
WAITED = re.compile(r"Wall time: ([5-9]\d(\.\d+)?|\d{3}) ms|Wall time: [\d.]+ s")
"""At least the 50 ms for which the code waits."""
COLOUR = re.compile(r"\x1b\[[\d;]*m")
"""Python 3.13 writes its own tracebacks in colours."""


def pictures(block):
    return [o for o in block.outputs if isinstance(o, DisplayOutput) and "image/png" in o.data]


async def test_redirected_output_stays_with_its_block(bench):
    code = (
        "import contextlib, io, asyncio\nbuffer_{n} = io.StringIO()\nwith contextlib.redirect_stdout(buffer_{n}):\n"
        "    for i in range(5):\n        print('inside {n}')\n        await asyncio.sleep(0.02)\nprint('outside {n}')"
    )
    tasks = [bench.start(code.format(n=n))[1] for n in range(3)]
    tasks.append(bench.start("import time\nfor i in range(5):\n    print('plain')\n    time.sleep(0.02)")[1])
    *redirected, plain = await asyncio.gather(*tasks)
    for n, block in enumerate(redirected):
        assert block.text == f"outside {n}\n"
        assert (await bench.run(f"print(buffer_{n}.getvalue(), end='')")).text == f"inside {n}\n" * 5
    assert plain.text == "plain\n" * 5


async def test_captured_output_stays_with_its_block(bench):
    capture = "%%capture taken\nimport time\nprint('hidden')\ndisplay('shown')\ntime.sleep(0.3)"
    _, task = bench.start(capture)
    other = await bench.run("print('plain')\ndisplay('rich')")
    block = await task
    assert block.text == ""
    assert not [o for o in block.outputs if isinstance(o, DisplayOutput)]
    assert other.text == "plain\n"
    assert (await bench.run("print(taken.stdout, len(taken.outputs))")).text == "hidden\n 1\n"


@pytest.mark.parametrize("wait", ["", "await asyncio.sleep(0)\n"])
async def test_captured_code_that_fails_or_is_interrupted_fails_its_block(bench, wait):
    await bench.run("import asyncio, time")
    block = await bench.run(f"%%capture taken\n{wait}print('hidden')\n1 / 0", id="go")
    assert (block.status, block.text) == ("error", "")
    assert "block go, line" in block.error
    assert "ZeroDivisionError" in block.error
    stuck, task = bench.start(f"%%capture\n{wait}while True: {wait.strip() or 'pass'}", id="stuck")
    await stuck.running.wait()
    await bench.runner.interrupt("stuck")
    assert (await task).status == "error"
    block = await bench.run(f"%%capture taken\n{wait}6 * 7")
    assert (block.status, block.value) == ("ok", None)
    assert (await bench.run("taken.outputs[0].data['text/plain']")).value == "'42'"


async def test_a_block_that_fails_while_redirected_still_shows_its_error_and_frees_its_output(bench):
    await bench.run(
        "import contextlib, io\nc = contextlib.redirect_stdout(io.StringIO())\nc.__enter__()\n1/0"
    )
    assert (await bench.run("print('seen')")).text == "seen\n"


async def test_each_block_has_figures_of_its_own(bench):
    await bench.run("import matplotlib.pyplot as plt, time")
    code = (
        "plt.figure()\nplt.plot([1, {n}])\ntime.sleep(0.2)\nplt.title('t{n}')\n"
        "print(plt.get_fignums(), plt.gca().get_title())"
    )
    tasks = [bench.start(code.format(n=n))[1] for n in range(4)]
    for n, block in enumerate(await asyncio.gather(*tasks)):
        assert block.text == f"[1] t{n}\n"
        assert len(pictures(block)) == 1


async def test_the_first_import_of_pyplot_may_happen_in_two_blocks_at_once(bench):
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nprint(len(plt.get_fignums()))"
    first, second = await asyncio.gather(*(bench.start(code)[1] for _ in range(2)))
    assert (first.text, second.text) == ("1\n", "1\n")
    assert len(pictures(first)) == len(pictures(second)) == 1


async def test_a_block_may_draw_while_another_one_sets_up_the_backend_after_an_import_that_failed(bench):
    await bench.run(
        "import sys\nsys.modules['matplotlib_inline.config'] = None\n"
        "try:\n    import matplotlib.pyplot as plt\n    plt.figure()\n"
        "except ImportError:\n    del sys.modules['matplotlib_inline.config']"
    )
    # What IPython calls in the middle of it waits until the other block has drawn, if that can.
    await bench.run(
        "import threading\nfrom IPython.core import pylabtools\nhalfway, drawn = threading.Event(), threading.Event()\n"
        "stock = pylabtools.flag_calls\n"
        "def slowly(function):\n    halfway.set()\n    drawn.wait(0.5)\n    return stock(function)\n"
        "pylabtools.flag_calls = slowly"
    )
    draw = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nprint(len(plt.get_fignums()))"
    tasks = [bench.start(code)[1] for code in (draw, f"halfway.wait()\n{draw}\ndrawn.set()")]
    for block in await asyncio.gather(*tasks):
        assert (block.text, len(pictures(block))) == ("1\n", 1)


async def test_show_and_the_object_interface_show_each_figure_once(bench):
    block = await bench.run(
        "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2])\nplt.show()"
    )
    assert len(pictures(block)) == 1
    block = await bench.run(
        "from matplotlib.figure import Figure\nf = Figure()\nf.subplots().plot([1, 2])\ndisplay(f)"
    )
    assert len(pictures(block)) == 1


async def test_cells_that_a_block_runs_inside_of_it_take_no_figures_of_others(bench):
    await bench.run("import matplotlib.pyplot as plt\nover = False")
    inner = "shell = get_ipython()\nwhile not over: shell.run_cell('pass')"
    beside, task = bench.start(inner, lane="worker")
    await beside.running.wait()
    blocks = [await bench.run("plt.plot([1, 2])\nNone") for _ in range(4)]
    await bench.run("over = True", after=())
    assert (await task).status == "ok"
    assert [len(pictures(block)) for block in blocks] == [1] * 4


async def test_values_of_many_blocks_that_end_at_once_each_reach_their_block(bench):
    await bench.run("import asyncio")
    tasks = [bench.start(f"await asyncio.sleep(0.05)\n{n} * 10")[1] for n in range(60)]
    tasks += [bench.start(f"{n} * 10")[1] for n in range(60, 90)]
    for n, block in enumerate(await asyncio.gather(*tasks)):
        values = [o for o in block.outputs if isinstance(o, ResultOutput)]
        assert [v.data["text/plain"] for v in values] == [str(n * 10)]
        assert values[0].execution_count == block.outcome.execution_count


async def test_in_and_out_are_sensible_for_a_person_who_attaches(bench):
    await bench.run("import asyncio")
    tasks = [bench.start(f"await asyncio.sleep(0.02)\n{n}")[1] for n in range(10)]
    blocks = await asyncio.gather(*tasks)
    checks = [f"(In[{b.outcome.execution_count}][-1:], Out[{b.outcome.execution_count}])" for b in blocks]
    shown = await bench.run("print([" + ", ".join(checks) + "])")
    assert shown.text == f"{[(str(n), n) for n in range(10)]}\n"
    await bench.run("7 * 6")
    assert (await bench.run("print(_)")).text == "42\n"


async def test_a_pager_of_one_block_is_not_another_s(bench):
    tasks = [bench.start(code)[1] for code in ("len?", "print('plain')", "sum?")]
    first, plain, last = await asyncio.gather(*tasks)
    assert "number of items" in first.text
    assert plain.text == "plain\n"
    assert "sum of a" in last.text


async def test_timed_and_captured_code_may_await(bench):
    await bench.run("import asyncio\nasync def f(x):\n    await asyncio.sleep(0.05)\n    return x")
    block = await bench.run("%%time\nv = await f(3)\nv * 2")
    assert (block.lane, block.value) == ("async", "6")
    assert WAITED.search(block.text)
    assert (await bench.run("print(v)")).text == "3\n"
    block = await bench.run("%time w = await f(4)")
    assert WAITED.search(block.text)
    block = await bench.run("%time await f(5)")
    assert block.value == "5"
    assert (await bench.run("%%capture c\nprint('hidden')\nawait f(1)")).text == ""
    assert (await bench.run("print(w, c.stdout)")).text == "4 hidden\n\n"
    failed = await bench.run("%%time\nawait f(1)\n1/0", id="slow")
    assert "block slow, line 3" in failed.error


@pytest.mark.parametrize("lane", ["main", "worker", "async"])
async def test_ipython_s_magics_work_in_every_lane(bench, lane, tmp_path):
    options = {"lane": lane}
    (tmp_path / "sub").mkdir()
    assert (await bench.run("%matplotlib inline", **options)).status == "ok"
    assert (await bench.run("%load_ext autoreload\n%autoreload 2", **options)).status == "ok"
    assert (await bench.run("%env GREETING=hello", **options)).status == "ok"
    assert (await bench.run("!echo $GREETING", **options)).text == "hello\r\n"
    assert (await bench.run("%cd sub", **options)).status == "ok"
    assert (await bench.run("%pwd", **options)).value == repr(str(tmp_path.resolve() / "sub"))
    assert (await bench.run("%cd ..", **options)).status == "ok"
    assert "hello" in (await bench.run("%%bash\necho hello", **options)).text
    assert "number of items" in (await bench.run("len?", **options)).text


async def test_errors_of_thread_affinity_say_what_to_do(bench):
    await bench.run("import sqlite3, signal\ndb = sqlite3.connect(':memory:')", lane="main")
    for code in ("db.execute('select 1')", "signal.signal(signal.SIGUSR1, lambda *a: None)"):
        block = await bench.run(code, lane="worker")
        assert block.status == "error"
        assert 'lane="main"' in block.error
        assert (await bench.run(code, lane="main")).status == "ok"


async def test_work_given_to_a_pool_prints_as_the_block_that_gave_it(bench):
    await bench.run(
        "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2)\npool.submit(int)"
    )
    for n in range(3):
        assert (await bench.run(f"pool.submit(print, 'work {n}').result()")).text == f"work {n}\n"
    block = await bench.run(
        "import asyncio\nawait asyncio.get_running_loop().run_in_executor(pool, print, 'in loop')"
    )
    assert block.text == "in loop\n"


async def test_an_interrupt_reaches_the_threads_of_its_block(bench):
    code = (
        "from concurrent.futures import ThreadPoolExecutor\nimport time\n"
        "def spin():\n    while True: time.sleep(0.01)\n"
        "print('on', flush=True)\nwith ThreadPoolExecutor(3) as p:\n"
        "    [f.result() for f in [p.submit(spin) for _ in range(3)]]"
    )
    stuck, task = bench.start(code, id="stuck")
    await stuck.spoke.wait()
    async with asyncio.timeout(10):
        while not task.done():
            await bench.runner.interrupt("stuck")
            await asyncio.wait([task], timeout=0.5)
    assert stuck.status == "error"
    assert "KeyboardInterrupt" in stuck.error
    assert (await bench.run("import threading\nprint(threading.active_count() < 40)")).text == "True\n"


def test_every_attribute_that_ipython_and_ipykernel_keep_is_decided_on_its_page():
    decided = {}
    for section in PAGE.read_text().split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        decided[heading.strip("`")] = set(re.findall(r"`(\w+)`", text))
    traitlets = PAGE.read_text().partition("Parts of traitlets")[2].partition("\n\n")[0]
    everywhere = set(re.findall(r"`(\w+)`", traitlets))
    # A stock kernel: what ours adds is no news of theirs.
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        heard = []
        client.execute_interactive(NAMES, timeout=30, output_hook=heard.append)
        kept = json.loads("".join(message["content"].get("text", "") for message in heard))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    open_ones = {what: sorted({*names} - decided[what] - everywhere) for what, names in kept.items()}
    assert open_ones == {what: [] for what in kept}


async def test_what_is_said_of_an_exception_that_ends_a_thread_is_its_block_s_output(bench):
    code = (
        "import threading\ngo = threading.Event()\ndef work():\n    go.wait()\n    raise ValueError('in a thread')\n"
        "thread = threading.Thread(target=work)\nthread.start()"
    )
    first, task = bench.start(code)
    await task
    second = await bench.run("go.set()\nthread.join()\nprint('second')")
    assert second.text == "second\n"
    async with asyncio.timeout(20):
        while "ValueError: in a thread" not in COLOUR.sub("", first.text):
            first.spoke.clear()
            await first.spoke.wait()
