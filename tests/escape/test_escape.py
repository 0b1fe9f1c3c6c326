"""Every attack, in every mode: what is said to hold does hold, and what is said to be open is.

`results.json` is what a run of all of this has found; `python tests/escape/table.py` makes the table of
docs/security.md of it. A result that differs is a failure, in whichever direction: the page would say what is not so.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from servers import NEEDLE
from table import PAGE, page

from codeact_kernel.inkernel.walls import landlock_abi
from codeact_kernel.kernels import choose
from codeact_kernel.kernels.sandbox.places import PACKAGE, roots

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
WALLS = PACKAGE / "inkernel" / "walls" / "__main__.py"
USER = 54_321
"""An ordinary user, with no account."""
HOSTS = {
    "root": ("limits", "landlock", "bwrap"),
    "user": ("none", "limits", "landlock", "bwrap"),
    "contained": ("limits", "landlock"),
}
"""Who runs the host, and the modes that can be had then. "contained" is an ordinary user behind a filter that denies
namespaces, as Docker's does."""
TRIALS = [(who, mode, "forked") for who, modes in HOSTS.items() for mode in modes]
FULL = os.environ.get("CODEACT_STRESS") == "full"
TRIALS += [
    (who, mode, "spawned")
    for who, mode, _ in TRIALS
    if mode == "bwrap" or (FULL and mode != "none" and who != "contained")
]


ABI = 7
"""The version of Landlock that the results are of."""


def passed_over(why):
    """End a test that cannot be had here; where all of them must be, it fails."""
    if os.environ.get("CODEACT_NEED_SANDBOX"):
        pytest.fail(f"passed over: {why}")
    pytest.skip(why)


@pytest.fixture
def place():
    """A folder that everybody may pass through, whoever runs the tests."""
    folder = Path(tempfile.mkdtemp(prefix="escape-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


async def command_of(who, place, arguments):
    """The command of a host that somebody else runs, in a view of the files in which that one can read the tests."""
    program = [sys.executable, str(HERE / "host.py"), *arguments]
    if who == "root":
        return program
    launch = await choose()
    expose = [str(path) for path in (*await roots(launch.command[0]), HERE)]
    walls = [os.path.realpath(sys.executable), "-I", "-S", str(WALLS)]
    enter = {"enter": {"workspace": str(place), "uid": USER, "gid": USER, "expose": expose}}
    become = ["/usr/bin/setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--"]
    if who == "contained":
        become += [*walls, json.dumps({"seccomp": {"network": True}}), "--"]
    return [*walls, "--enter", json.dumps(enter), "--", *become, *program]


async def tried(who, mode, way, place):
    """What a host of somebody's has found out about a mode."""
    command = await command_of(who, place, [mode, way, str(place)])
    env = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    env |= {
        "OPENAI_API_KEY": NEEDLE,
        "HOME": str(place),
        "TMPDIR": "/tmp",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    process = await asyncio.create_subprocess_exec(*command, env=env, cwd="/", stdout=-1, stderr=-1)
    async with asyncio.timeout(180):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()[-2000:]
    return json.loads(out)


@pytest.mark.escape
@pytest.mark.parametrize(("who", "mode", "way"), TRIALS)
async def test_attacks_are_stopped_as_the_page_about_safety_says(who, mode, way, place, request):
    if sys.platform != "linux" or os.geteuid() != 0:
        passed_over("being several users takes root on Linux")
    if mode == "bwrap" and shutil.which("bwrap") is None:
        passed_over("bubblewrap is not installed")
    if (abi := landlock_abi()) < ABI:
        passed_over(f"the results are of a newer Landlock: ABI {ABI}, and here is {abi}")
    found = await tried(who, mode, way, place)
    assert found["mode"] == mode
    results = {name: result for name, (result, _) in found["results"].items()}
    if "CODEACT_ESCAPE_RESULTS" in os.environ:
        Path(os.environ["CODEACT_ESCAPE_RESULTS"], f"{who}-{mode}-{way}.json").write_text(
            json.dumps(found, indent=1)
        )
    said = json.loads(RESULTS.read_text())[who][mode]
    differ = {
        name: (said.get(name), *found["results"].get(name, ("not there",)))
        for name in {*said, *results}
        if said.get(name) != results.get(name)
    }
    assert differ == {}


def test_the_table_of_the_page_is_made_of_these_results():
    assert PAGE.read_text() == page(), "run: python tests/escape/table.py"


def test_the_strongest_mode_holds_all_that_is_not_only_watched():
    results = json.loads(RESULTS.read_text())
    for who in ("root", "user"):
        kinds = set(results[who]["bwrap"].values())
        assert kinds == {"held", "watched"}
