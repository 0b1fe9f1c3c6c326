"""Kernels that somebody else starts: by the provisioner and the kernelspec of the page on containers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from jupyter_client.provisioning import KernelProvisionerFactory
from sources import alive, until

from codeact_kernel import Agent
from codeact_kernel.errors import ConfigError, KernelDied, KernelError
from codeact_kernel.events import RunStarted
from codeact_kernel.kernels import KernelSettings, KernelSource, SandboxSettings, choose, choose_sandbox
from codeact_kernel.kernels.janitor import descendants
from codeact_kernel.kernels.sandbox.places import roots
from codeact_kernel.testing import ScriptedModel

pytestmark = pytest.mark.kernel

PAGE = Path(__file__).resolve().parents[2] / "docs" / "containers.md"


def shown(language: str) -> list[str]:
    """The fenced blocks of the page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The page's package where Python finds it, and a folder for kernelspecs where Jupyter does."""
    about = tomllib.loads(shown("toml")[0])["project"]
    packages, specs = tmp_path / "packages", tmp_path / "share" / "kernels"
    metadata = packages / f"{about['name']}-{about['version']}.dist-info"
    metadata.mkdir(parents=True)
    (packages / "boxed.py").write_text(shown("python")[0])
    (metadata / "METADATA").write_text(f"Name: {about['name']}\nVersion: {about['version']}\n")
    ((group, named),) = about["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {where}" for name, where in named.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(packages)
    monkeypatch.setenv("PYTHONPATH", str(packages))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share"))
    # It looks once, as for programs that find there what is installed.
    KernelProvisionerFactory.clear_instance()
    yield specs
    KernelProvisionerFactory.clear_instance()
    KernelProvisionerFactory.provisioners.pop("boxed", None)


def write_spec(specs: Path, name: str, spec: dict) -> str:
    (specs / name).mkdir(parents=True)
    (specs / name / "kernel.json").write_text(json.dumps(spec))
    return name


@pytest.fixture
async def box(installed, passed_over):
    """The page's kernelspec, for the interpreter that runs the tests: its folders are a part of the image."""
    if shutil.which("bwrap") is None:
        passed_over("bubblewrap is not installed")
    spec = json.loads(shown("json")[0])
    spec["argv"][0] = sys.executable
    start = spec["metadata"]["kernel_provisioner"]["config"]["start"]
    outside = [str(root) for root in await roots(sys.executable) if not root.is_relative_to("/usr")]
    at = start.index("--bind")
    start[at:at] = [word for root in outside for word in ("--ro-bind", root, root)]
    trial = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]
    if (await asyncio.to_thread(subprocess.run, trial, check=False)).returncode:
        passed_over("user namespaces cannot be had")
    return write_spec(installed, "boxed", spec)


async def test_blocks_and_tool_calls_and_seeds_pass_the_walls_and_the_walls_are_there(
    open_bench, box, workspace
):
    async def serve(name, args, kwargs, block, back):
        return [name, kwargs]

    tools = [{"name": "fetch", "signature": "(url)", "doc": "Fetch.", "async": True}]
    bench = await open_bench(serve, tools, kernel=box, cwd=workspace)
    await bench.kernel.seed({"double": lambda n: 2 * n})
    both = await asyncio.gather(
        bench.run("import time\ntime.sleep(0.2)\nopen('made', 'w').write(str(double(21)))"),
        bench.run("print(await fetch('x'))"),
    )
    assert [block.status for block in both] == ["ok", "ok"]
    assert both[1].text == "['fetch', {'url': 'x'}]\n"
    assert (workspace / "made").read_text() == "42"
    code = (
        "import os, socket\nprint(socket.gethostname(), os.path.exists('/etc/passwd'), "
        "len([n for n in os.listdir('/proc') if n.isdigit()]) < 5, socket.if_nameindex())"
    )
    assert (await bench.run(code)).text == "box False True [(1, 'lo')]\n"
    assert bench.kernel.description.endswith(", started by boxed")


async def test_an_interrupt_ends_one_block_and_the_others_go_on(open_bench, box):
    bench = await open_bench(kernel=box)
    stuck, ends = bench.start("print('on', flush=True)\nwhile True: pass", id="stuck")
    await stuck.spoke.wait()
    other, goes_on = bench.start("import asyncio\nawait asyncio.sleep(0.5)\nprint('done')")
    await bench.runner.interrupt("stuck")
    async with asyncio.timeout(10):
        assert "KeyboardInterrupt" in (await ends).error
        assert (await goes_on).text == "done\n"
    assert other.status == "ok"


async def test_a_death_in_the_box_is_told_with_its_signal_and_the_next_block_has_another_box(open_bench, box):
    bench = await open_bench(kernel=box)
    await bench.run("import os\nvaluable = 1")
    with pytest.raises(KernelDied, match="SIGKILL") as died:
        await bench.run("os.kill(os.getpid(), 9)")
    assert "valuable" in died.value.lost
    again = await bench.run("print('valuable' in globals())")
    assert again.text == "False\n"
    assert "fresh kernel" in again.outcome.notes[0]


async def test_a_restart_ends_the_box_and_all_in_it(open_bench, box):
    bench = await open_bench(kernel=box)
    await bench.run("import subprocess\nkept = subprocess.Popen(['sleep', '600'], start_new_session=True)")
    family = [bench.kernel.pid, *descendants(bench.kernel.pid)]
    assert len(family) >= 4
    watched, ends = bench.start("print('on', flush=True)\nimport time\ntime.sleep(600)")
    await watched.spoke.wait()
    await bench.kernel.restart("was restarted by the test")
    with pytest.raises(KernelDied, match="was restarted by the test"):
        await ends
    await until(lambda: not any(map(alive, family)))
    assert (await bench.run("1 + 1")).value == "2"


HOST = """
import asyncio, sys
from pathlib import Path
from codeact_kernel.kernels import Kernel, KernelSettings

async def main():
    async with Kernel(KernelSettings(kernel=sys.argv[1], cwd=Path(sys.argv[2]))) as kernel:
        print(kernel.pid, kernel.process.folder, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_a_host_that_is_killed_leaves_no_box_and_its_ending_is_run(installed, box, workspace):
    """As with a container: what has to end is not below the process that was started."""
    file = installed / box / "kernel.json"
    spec = json.loads(file.read_text())
    mark = workspace / "ended"
    spec["metadata"]["kernel_provisioner"]["config"]["end"] = ["touch", f"{mark}-{{name}}"]
    file.write_text(json.dumps(spec))
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOST, box, str(workspace), stdout=asyncio.subprocess.PIPE
    )
    pid, folder = (await host.stdout.readline()).split()
    family = [int(pid), *descendants(int(pid))]
    host.send_signal(signal.SIGKILL)
    await host.wait()
    await until(lambda: not any(map(alive, family)) and not Path(os.fsdecode(folder)).exists())
    assert [path.name.startswith("ended-codeact-") for path in workspace.iterdir()] == [True]


async def test_a_run_says_whose_the_walls_are_and_tools_of_ours_run_outside(box, workspace):
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    heard = []
    model = ScriptedModel(["<run_code>\nprint(double(21))\n</run_code>", "It is 42."])
    options = {"kernel": box, "workspace": workspace, "tools": [double], "run_dir": False}
    async with Agent(model, observers=[heard.append], **options) as agent:
        run = await agent.run("Double 21.")
    assert run.answer == "It is 42."
    assert "\n42\n" in model.requests[1].messages[-1].content
    begun = next(event for event in heard if isinstance(event, RunStarted))
    assert begun.sandbox == "provisioner:boxed"
    assert begun.about_sandbox.startswith(
        "sandbox: that of boxed, which starts the kernels and whose walls are not ours"
    )
    assert "that boxed has made" in begun.system


async def test_a_mode_of_ours_is_refused_where_somebody_else_makes_the_walls(installed, workspace):
    write_spec(installed, "boxed", json.loads(shown("json")[0]))
    launch = await choose("boxed")
    for settings in (SandboxSettings("bwrap"), SandboxSettings(least="limits")):
        with pytest.raises(ConfigError, match=r"boxed starts the kernels, and their walls are its affair"):
            await choose_sandbox(settings, launch, workspace, {})
    assert await choose_sandbox(SandboxSettings("none"), launch, workspace, {}) is None


async def test_none_is_made_ready_before_anybody_asks(installed, workspace):
    """Its box is made for one workspace."""
    write_spec(installed, "boxed", json.loads(shown("json")[0]))
    async with KernelSource(ready=1) as source:
        await source.prepare(KernelSettings(kernel="boxed", cwd=workspace))
        assert source._stocks == {}


def provisioned(argv: list[str], **stanza) -> dict:
    metadata = {"kernel_provisioner": stanza}
    return {"argv": argv, "display_name": "x", "language": "python", "metadata": metadata}


async def test_what_is_wrong_with_a_provisioner_is_said_in_one_line(installed, open_bench):
    write_spec(installed, "nobodys", provisioned(["x"], provisioner_name="nosuch"))
    with pytest.raises(
        ConfigError, match=r"nobodys is started by a provisioner that is not installed .*kernel.json"
    ):
        await open_bench(kernel="nobodys")
    ours = ["x", "-m", "codeact_kernel.inkernel", "-f", "{connection_file}"]
    config = {"start": ["no-such-program"]}
    write_spec(installed, "broken", provisioned(ours, provisioner_name="boxed", config=config))
    with pytest.raises(KernelError, match=r"the kernel did not start: .*no-such-program"):
        await open_bench(kernel="broken")
    write_spec(installed, "misspelt", provisioned(ours, provisioner_name="boxed", config={"start": 3}))
    with pytest.raises(KernelError, match=r"the kernel did not start: boxed: TraitError"):
        await open_bench(kernel="misspelt")
    fails = {"start": ["sh", "-c", "echo no image >&2; exit 125", "sh"]}
    write_spec(installed, "failing", provisioned(ours, provisioner_name="boxed", config=fails))
    with pytest.raises(KernelError, match=r"exit code 125; it said: no image"):
        await open_bench(kernel="failing")


async def test_a_stock_kernel_in_a_box_runs_one_block_at_a_time(installed, open_bench):
    stock = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    config = {"start": ["env", "BOX=1"]}
    write_spec(installed, "stock", provisioned(stock, provisioner_name="boxed", config=config))
    bench = await open_bench(kernel="stock")
    assert not bench.kernel.ours
    assert "does not start codeact_kernel.inkernel" in bench.kernel.note
    assert (await bench.run("import os\nprint(os.environ['BOX'])")).text == "1\n"
    stuck, ends = bench.start("import time\nprint('on', flush=True)\ntime.sleep(60)", id="stuck")
    await stuck.spoke.wait()
    await bench.runner.interrupt("stuck")
    async with asyncio.timeout(10):
        assert "KeyboardInterrupt" in (await ends).error
