"""A kernel's life and surroundings."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import venv
from pathlib import Path

import pytest

from codeact_kernel.blocks import CodeBlock, Job
from codeact_kernel.errors import ConfigError, KernelDied, KernelError
from codeact_kernel.kernels import Kernel, KernelSettings, kernel_environment

pytestmark = pytest.mark.kernel


async def test_a_kernel_says_what_it_is_and_leaves_nothing_behind(tmp_path):
    async with Kernel(KernelSettings(cwd=tmp_path)) as kernel:
        pid, folder = kernel.pid, kernel.process.folder
        assert kernel.description.startswith("Python 3.")
        assert "ipykernel" in kernel.description
        assert folder.exists()
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_blocks_run_in_the_workspace(bench, tmp_path):
    assert (await bench.run("import os\nprint(os.getcwd())")).text == f"{tmp_path.resolve()}\n"


async def test_a_workspace_that_does_not_exist_is_said_in_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"the workspace .*nowhere is no folder"):
        async with Kernel(KernelSettings(cwd=tmp_path / "nowhere")):
            pass


async def test_no_key_of_the_host_reaches_the_kernel(open_bench, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("GREETING", "hello")
    monkeypatch.setenv("OTHER", "hidden")
    bench = await open_bench(env=("GREETING",), variables=(("EXTRA", "1"),))
    block = await bench.run(
        "import os\nprint({k: os.environ.get(k) for k in ('OPENAI_API_KEY', 'GREETING', 'OTHER', 'EXTRA')})"
    )
    assert block.text == "{'OPENAI_API_KEY': None, 'GREETING': 'hello', 'OTHER': None, 'EXTRA': '1'}\n"


@pytest.mark.parametrize(
    ("code", "sign"), [("os._exit(7)", "exit code 7"), ("os.kill(os.getpid(), 9)", "SIGKILL")]
)
async def test_a_death_is_told_to_every_block_with_its_cause_and_the_lost_names(bench, code, sign):
    await bench.run("import os\nvaluable = 1")
    waiting, task = bench.start("import asyncio\nawait asyncio.sleep(60)")
    await waiting.running.wait()
    with pytest.raises(KernelDied, match=sign) as died:
        await bench.run(code)
    assert "valuable" in died.value.lost
    with pytest.raises(KernelDied):
        await task


async def test_the_next_block_runs_in_a_fresh_kernel_and_says_what_is_gone(bench):
    await bench.kernel.seed({"rows": [1, 2]})
    await bench.run("import os\nvaluable = 1")
    with pytest.raises(KernelDied):
        await bench.run("os._exit(3)")
    block = await bench.run("print(rows, 'valuable' in globals())")
    assert block.text == "[1, 2] False\n"
    assert "fresh kernel" in block.outcome.notes[0]
    assert "exit code 3" in block.outcome.notes[0]
    assert "valuable" in block.outcome.notes[0]
    assert "rows" not in block.outcome.notes[0]
    assert (await bench.run("1")).outcome.notes == ()


async def test_what_the_names_hold_is_told_while_a_block_runs(bench):
    await bench.run("import time\nx = 1\nrows = [1, 2]")
    watched, running = bench.start("print('begun')\ntime.sleep(600)")
    await watched.spoke.wait()
    about = {v["name"]: (v["type"], v["size"], v["value"]) for v in await bench.kernel.variables()}
    assert about == {"time": ("module", "", "time"), "x": ("int", "", "1"), "rows": ("list", "2", "[1, 2]")}
    await bench.kernel.kill("was ended by the test")
    with pytest.raises(KernelDied):
        await running


async def test_a_restart_ends_every_block_and_keeps_what_was_seeded(bench):
    await bench.kernel.seed({"kept": 1})
    await bench.run("gone = 2")
    watched, running = bench.start("import time\nprint('begun')\ntime.sleep(600)")
    await watched.spoke.wait()
    assert await bench.kernel.restart("was restarted by the test") == ("gone",)
    with pytest.raises(KernelDied, match="the kernel was restarted by the test"):
        await running
    again = await bench.run("print(kept, 'gone' in globals())")
    assert again.text == "1 False\n"
    assert again.outcome.notes == ()


async def test_values_functions_and_classes_are_seeded(bench):
    factor = 3

    class Point:
        def __init__(self, x):
            self.x = x

    await bench.kernel.seed({"rows": [1, 2], "triple": lambda n: n * factor, "Point": Point, "p": Point(4)})
    block = await bench.run("print(rows, triple(2), Point(1).x, p.x, isinstance(p, Point))")
    assert block.text == "[1, 2] 6 1 4 True\n"
    assert {"rows", "triple", "Point", "p"} <= set(block.outcome.names)


async def test_what_cannot_be_seeded_is_named(bench, tmp_path):
    with pytest.raises(ConfigError, match=r"rows \(builtins.generator\) cannot be passed"):
        await bench.kernel.seed({"rows": (n for n in ())})
    with pytest.raises(ConfigError, match="no identifier"):
        await bench.kernel.seed({"not a name": 1})


async def test_wrong_choices_of_a_kernel_say_what_to_do(tmp_path):
    async def problem(**settings):
        with pytest.raises(ConfigError) as error:
            async with Kernel(KernelSettings(cwd=tmp_path, **settings)):
                pass
        return error.value.message

    assert "codeact" in await problem(kernel="nosuch")
    assert "--python takes the path" in await problem(python=str(tmp_path / "python"))
    assert "not both" in await problem(python=sys.executable, kernel="codeact")
    bare = tmp_path / "bare"
    await asyncio.to_thread(venv.create, bare)
    python = str(bare / "bin" / "python")
    assert f"{python} -m pip install 'ipykernel>=7.4'" in await problem(python=python)


async def test_an_interpreter_of_another_environment_sees_our_package_and_no_other_of_ours(
    open_bench, tmp_path
):
    """A second environment that has ipykernel by a path entry, and neither our package nor cloudpickle."""
    other = tmp_path / "other"
    await asyncio.to_thread(venv.create, other)
    here = Path(next(p for p in sys.path if p.endswith("site-packages")))
    target = next((other / "lib").iterdir()) / "site-packages"
    for entry in here.iterdir():
        if not any(word in entry.name.lower() for word in ("codeact", "cloudpickle", "openai", "tiktoken")):
            (target / entry.name).symlink_to(entry)
    bench = await open_bench(python=str(other / "bin" / "python"))
    await bench.kernel.seed({"double": lambda n: 2 * n})
    block = await bench.run("import sys\nprint(double(21), sys.prefix)")
    assert block.text == f"42 {other}\n"
    block = await bench.run(
        "import importlib.util as u\nprint([u.find_spec(n) is None for n in ('openai', 'wire', 'adopt')])"
    )
    assert block.text == "[True, True, True]\n"


async def test_an_ipython_kernelspec_lends_its_interpreter_to_our_kernel(open_bench):
    bench = await open_bench(kernel="python3")
    assert bench.kernel.ours
    assert (await bench.run("self if 'self' in globals() else 'no self'")).status == "ok"


@pytest.fixture
def foreign_spec(tmp_path, monkeypatch):
    """A kernelspec of a kernel that is not ours: stock ipykernel behind a script of its own."""
    folder = tmp_path / "share" / "kernels" / "foreign"
    folder.mkdir(parents=True)
    script = tmp_path / "stock.py"
    script.write_text("from ipykernel.kernelapp import launch_new_instance\nlaunch_new_instance()\n")
    spec = {
        "argv": [sys.executable, str(script), "-f", "{connection_file}"],
        "display_name": "Foreign",
        "language": "python",
    }
    (folder / "kernel.json").write_text(__import__("json").dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share"))
    return "foreign"


async def test_a_kernel_that_is_not_ours_runs_one_block_at_a_time(open_bench, foreign_spec):
    bench = await open_bench(kernel=foreign_spec)
    assert not bench.kernel.ours
    assert "no IPython kernel" in bench.kernel.note
    first, first_task = bench.start("import time\ntime.sleep(0.3)\nprint('first')")
    second, second_task = bench.start("print('second')")
    await asyncio.gather(first_task, second_task)
    assert (first.text, second.text) == ("first\n", "second\n")
    assert second.began >= first.ended - 0.05
    failed = await bench.run("1/0")
    assert failed.status == "error"
    assert failed.error.splitlines()[-1] == "ZeroDivisionError: division by zero"


async def test_a_kernel_that_is_not_ours_is_talked_to_by_sockets_in_a_private_folder(
    open_bench, foreign_spec
):
    bench = await open_bench(kernel=foreign_spec)
    about = bench.kernel.process.manager.get_connection_info()
    assert about["transport"] == "ipc"
    folder = Path(about["ip"]).parent
    assert [path for path in folder.iterdir() if path.is_socket()]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(bench.kernel.process.manager.connection_file).stat().st_mode) == 0o600


async def test_a_kernel_that_is_not_ours_keeps_the_order_of_blocks_that_wait_for_a_decision(
    open_bench, foreign_spec
):
    bench = await open_bench(kernel=foreign_spec)
    held, refused = (Job(name, CodeBlock(f"print('{name}')"), 1) for name in ("held", "refused"))
    await bench.runner.hold(held)
    await bench.runner.hold(refused)
    watched, last = bench.start("print('last')", id="last", reply=1)
    await bench.runner.drop(refused)
    async with asyncio.timeout(30):
        first = await bench.start("print('held')", id="held", reply=1)[1]
        assert first.text == "held\n"
        assert (await last).text == "last\n"
    assert watched.began > first.began


async def test_a_block_of_a_kernel_that_is_not_ours_is_interrupted(open_bench, foreign_spec):
    bench = await open_bench(kernel=foreign_spec)
    stuck, task = bench.start("import time\nprint('on', flush=True)\ntime.sleep(60)", id="stuck")
    await stuck.spoke.wait()
    await bench.runner.interrupt("stuck")
    async with asyncio.timeout(5):
        assert "KeyboardInterrupt" in (await task).error


async def test_a_kernel_that_ends_at_its_start_is_said_at_once(tmp_path, monkeypatch):
    folder = tmp_path / "share" / "kernels" / "broken"
    folder.mkdir(parents=True)
    spec = {
        "argv": [sys.executable, "-c", "raise SystemExit('no luck')", "{connection_file}"],
        "display_name": "x",
        "language": "y",
    }
    (folder / "kernel.json").write_text(__import__("json").dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share"))
    with pytest.raises(KernelError, match="no luck"):
        async with asyncio.timeout(10), Kernel(KernelSettings(cwd=tmp_path, kernel="broken")):
            pass


@pytest.mark.other_python
async def test_a_kernel_of_another_python_version_runs_blocks_and_takes_data(open_bench):
    bench = await open_bench(python=os.environ["CODEACT_OTHER_PYTHON"])
    await bench.kernel.seed({"rows": [1, 2, 3]})
    block = await bench.run("import sys\nprint(sys.version_info[:2], sum(rows))")
    assert block.text != f"{tuple(sys.version_info[:2])} 6\n"
    assert block.text.endswith("6\n")
    assert (
        await bench.run("import asyncio\nawait asyncio.sleep(0.01)\nprint('awaited')")
    ).text == "awaited\n"
    with pytest.raises(ConfigError, match="between versions only data"):
        await bench.kernel.seed({"f": lambda: 1})


def test_the_environment_is_an_allow_list():
    host = {"PATH": "/bin", "LC_ALL": "C", "AWS_SECRET": "x", "MINE": "1"}
    assert kernel_environment(host, ("MINE",), {"A": "b"}) == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "MINE": "1",
        "A": "b",
    }
