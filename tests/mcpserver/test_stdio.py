"""`codeact mcp` with real kernels, through the SDK's own client on stdio."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")
from processes import COMMAND, LIFE, PATIENCE, Life, served

pytestmark = pytest.mark.kernel


@pytest.fixture
def serve(tmp_path, caller):
    return lambda *options, **more: served(tmp_path, *options, caller=caller, **more)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_blocks_share_a_namespace_and_run_at_once(serve, mode):
    async with serve(mode=mode) as call:
        await call("run_code", code="import threading\nbar = threading.Barrier(2)")
        texts = await asyncio.gather(
            call("run_code", code="bar.wait(30)\nprint('one has met')"),
            call("run_code", code="bar.wait(30)\nprint('two has met')"),
        )
        assert "one has met" in texts[0]
        assert "two has met" in texts[1]
        assert re.search(r"^bar +Barrier$", await call("variables"), re.MULTILINE)


async def test_a_block_that_swallows_interrupts_is_ended_and_the_result_says_what_it_took(serve):
    code = (
        "x = 1\nprint('begun')\n"
        "while True:\n    try:\n        time.sleep(60)\n    except KeyboardInterrupt:\n        pass"
    )
    async with serve() as call:
        await call("run_code", code="import time")
        await call("run_code", code=code, wait=0)
        assert "begun" in await call("wait")
        text = await call("cancel", id="b2")
        assert 'status="cancelled"' in text
        assert "its code was ended at the line that it was in" in text
        assert "\n1\n" in await call("run_code", code="print(x)")


async def test_a_flood_is_bounded_and_all_of_it_can_be_had(serve):
    async with serve() as call:
        text = await call("run_code", code="for n in range(200_000):\n    print('line', n)")
        assert len(text) < 20_000
        assert "line 0\n" in text
        assert "line 199999\n" in text
        handle = re.search(r'self\.output\("b1"\)', text)[0]
        assert "['line 150000']" in await call("run_code", code=f"print({handle}.lines(150_000, 150_001))")


async def test_a_restart_ends_what_runs_and_says_which_names_are_gone(serve):
    async with serve() as call:
        await call("run_code", code="rows = [1, 2]")
        await call("run_code", code="import time\ntime.sleep(600)", wait=0)
        text = await call("restart")
        assert "These names are gone: rows" in text
        assert '<run_code_result id="b2" status="died"' in text
        assert "was restarted, because you asked for it" in text
        assert "NameError" in await call("run_code", code="rows")


async def test_a_kernel_that_dies_is_told_and_replaced(serve):
    async with serve() as call:
        await call("run_code", code="rows = [1, 2]")
        text = await call("run_code", code="import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
        assert 'status="died"' in text
        assert "SIGKILL" in text
        assert "These names are gone: rows" in text
        again = await call("run_code", code="print('here')")
        assert "here\n[it ran in a fresh kernel, because" in again


async def test_an_image_that_a_block_displays_is_seen(serve):
    pytest.importorskip("matplotlib")
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    async with serve() as call:
        await call("run_code", code="%matplotlib inline")
        text = await call("run_code", code=code)
        assert re.search(r"\[image/png \d+x\d+, \d+ kB: picture 1\]", text)
        (image,) = call.images
    assert (image.mime_type, base64.b64decode(image.data)[:4]) == ("image/png", b"\x89PNG")


async def test_the_notebook_of_a_session_is_one(serve, tmp_path):
    async with serve() as call:
        await call("run_code", code="x = 1\nprint('a')")
        await call("run_code", code="1 / 0")
        await call("save_notebook", path="run.ipynb")
    notebook = nbformat.read(tmp_path / "run.ipynb", 4)
    nbformat.validate(notebook)
    assert [c.source for c in notebook.cells if c.cell_type == "code"] == ["x = 1\nprint('a')", "1 / 0"]


async def test_tools_of_the_user_are_there_and_what_they_print_is_no_protocol(serve, tmp_path):
    (tmp_path / "my_tools.py").write_text(
        "import os, sys\n"
        "def shout(text: str) -> str:\n"
        "    '''Shout.'''\n"
        "    print('noise')\n"
        "    os.system('echo more noise; cat')\n"
        "    return text.upper() + repr(sys.stdin.read())\n"
    )
    async with serve("--tools", str(tmp_path / "my_tools.py"), "--env", "MY_KEY") as call:
        code = "import os\nprint(shout('a'), os.environ.get('MY_KEY'))\nprint(input.__name__)"
        assert "\nA'' secret\n" in await call("run_code", code=code)


async def test_what_only_an_agent_can_do_says_that_there_is_none(serve):
    async with serve() as call:
        text = await call("run_code", code="await self.run_agent('x')")
        assert "there is no agent behind this kernel" in text


async def test_a_client_that_leaves_leaves_nothing(serve):
    async with serve() as call:
        life = Life(await call("run_code", code=LIFE))
        await call(
            "run_code", code="while True:\n    try: child.wait()\n    except BaseException: pass", wait=0
        )
    life.check_gone()


class Raw:
    """A server whose client speaks by hand."""

    def __init__(self, folder):
        # A short one: Unix sockets lie in it.
        self.temporary = Path(tempfile.mkdtemp(prefix="t"))
        self.process = subprocess.Popen(
            [sys.executable, *COMMAND, "--workspace", str(folder)],
            env={**os.environ, "TMPDIR": str(self.temporary)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        about = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": ""},
        }
        assert "serverInfo" in self.ask(1, "initialize", about)["result"]

    def send(self, number, method, params):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    def ask(self, number, method, params):
        self.send(number, method, params)
        return json.loads(self.process.stdout.readline())

    def call(self, tool, **arguments):
        result = self.ask(2, "tools/call", {"name": tool, "arguments": arguments})["result"]
        return result["content"][0]["text"]

    def check_gone(self, life):
        """Wait until nothing is left of a block's life, and no folder of the server's."""
        life.check_gone()
        self.check_clean()

    def check_clean(self):
        """Wait until no folder of the server's is left: somebody cleans up after one that was killed."""
        end = time.monotonic() + PATIENCE
        while any(self.temporary.iterdir()) and time.monotonic() < end:
            os.sched_yield()
        assert list(self.temporary.iterdir()) == []

    def complaints(self):
        """What it has said on stderr, but for the line about its sandbox."""
        return [line for line in self.process.stderr if not line.startswith(b"codeact: sandbox: ")]

    def close(self):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()
        self.check_clean()
        shutil.rmtree(self.temporary)


@pytest.fixture
def raw(tmp_path):
    server = Raw(tmp_path)
    yield server
    server.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_server_though_its_client_stays(raw, number):
    life = Life(raw.call("run_code", code=LIFE))
    raw.process.send_signal(number)
    code = raw.process.wait(PATIENCE)
    assert code == 128 + number
    assert raw.complaints() == [b"codeact: it was stopped\n"]
    raw.check_gone(life)


def test_a_client_that_reads_nothing_holds_up_no_end(raw):
    life = Life(raw.call("run_code", code=LIFE))
    for number in range(300):
        raw.send(10 + number, "tools/list", {})
    raw.process.send_signal(signal.SIGTERM)
    assert raw.process.wait(PATIENCE) == 143
    raw.check_gone(life)


def test_a_server_that_is_killed_leaves_nothing(raw):
    life = Life(raw.call("run_code", code=LIFE))
    raw.call("run_code", code="print('long output ' * 200_000)")
    raw.process.kill()
    raw.check_gone(life)


def test_a_client_that_closes_stdin_ends_the_server_well(raw):
    life = Life(raw.call("run_code", code=LIFE))
    raw.process.stdin.close()
    assert raw.process.wait(PATIENCE) == 0
    assert raw.complaints() == []
    raw.check_gone(life)


def test_a_client_that_breaks_off_while_it_is_answered_ends_the_server_well(raw):
    life = Life(raw.call("run_code", code=LIFE))
    raw.process.stdout.close()
    raw.send(3, "tools/list", {})
    raw.process.stdin.close()
    assert raw.process.wait(PATIENCE) == 0
    assert raw.complaints() == []
    raw.check_gone(life)


def test_a_line_that_is_no_json_ends_nothing(raw):
    raw.process.stdin.write(b"hello\n\xff\xfe\n\n[1, 2\n")
    assert "2" in raw.call("run_code", code="print(1 + 1)")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_person_is_asked_and_the_session_has_an_audit_like_a_run(tmp_path, caller, mode):
    from mcp_types import ElicitResult

    forms = []

    async def person(context, params):
        forms.append(params.message)
        said = {"decision": "yes"} if len(forms) == 1 else {"decision": "no", "reason": "enough"}
        return ElicitResult(action="accept", content=said)

    served_to = served(tmp_path, "--approve", "ask", mode=mode, caller=caller, elicitation_callback=person)
    async with served_to as call:
        assert "\n2\n" in await call("run_code", code="print(1 + 1)")
        assert "enough" in await call("run_code", code="print('no')")
    (run,) = (tmp_path / ".codeact" / "runs").iterdir()
    assert "mcp" in run.name
    said = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "codeact_kernel.cli", "audit", "verify", str(run)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stdout + said.stderr
    lines = [json.loads(line) for line in (run / "audit.jsonl").read_text().splitlines()]
    told = [
        (line["block_id"], line["allowed"], line["by"]) for line in lines if line.get("event") == "Decided"
    ]
    assert told == [("b1", True, "person"), ("b2", False, "person")]
    assert [line["event"] for line in lines][-2:] == ["RunEnded", "AuditEnded"]
    notebook = nbformat.read(run / "run.ipynb", 4)
    assert [cell.source for cell in notebook.cells if cell.cell_type == "code"] == [
        "print(1 + 1)",
        "print('no')",
    ]
