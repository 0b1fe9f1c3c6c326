"""What is made for a run is its user's alone, whatever the umask; and nothing listens where others could knock."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import psutil
import pytest
from talk import block, delegate, when

from codeact_kernel import Agent
from codeact_kernel.agent import Settings
from codeact_kernel.testing import Cast

pytestmark = pytest.mark.kernel


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder for what is temporary; short, since sockets lie in it."""
    folder = Path(tempfile.mkdtemp(prefix="m"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def found(folder):
    """What lies in a folder, by its path: its mode."""
    return {path.relative_to(folder).as_posix(): path.lstat().st_mode for path in folder.rglob("*")}


def is_open(mode):
    return bool(mode & 0o077)


def listening():
    """Where this process and those that it has started listen, but for private folders."""
    names = []
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        if process.status() != psutil.STATUS_ZOMBIE:
            names += [one for one in process.net_connections("inet") if one.status == psutil.CONN_LISTEN]
    names += [
        line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if line.endswith("ck-")
    ]
    return names


async def test_folders_sockets_and_files_of_a_run_with_a_sub_agent(tmp_path, place, umask):
    seen = {}

    def look(request):
        seen.update(found(place))
        seen["listening"] = listening()
        return "Done."

    first = block("x = list(range(10))\nprint('y' * 2_000_000)")
    first += "\n" + delegate("SCOUT", name="scout", namespace="x")
    model = Cast(
        {
            "ROOT": when(first, ("agent_result", "Done.")),
            "SCOUT": [block("self.return_value(x)\nimport os\nif os.fork() == 0: os._exit(0)"), look],
        }
    )
    work = tmp_path / "work"
    work.mkdir(0o700)
    settings = Settings(ready_kernels=1)
    async with Agent(model, workspace=work, settings=settings) as agent:
        run = await agent.run("ROOT")
    assert seen.pop("listening") == []
    kinds = {"kernel.json": [], "s-1": [], "s-2f": [], "log": [], "2.json": []}
    for path, mode in seen.items():
        # Whoever may not enter a folder reaches nothing in it.
        assert "/" in path or not is_open(mode), (path, oct(mode))
        assert stat.S_ISDIR(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode), path
        kinds.setdefault(path.rpartition("/")[2], []).append(mode)
    for name in ("kernel.json", "2.json"):
        assert kinds[name], name
        assert not any(map(is_open, kinds[name])), name
    assert all(map(stat.S_ISSOCK, kinds["s-1"] + kinds["s-2f"]))
    assert len(kinds["s-1"]) >= 2
    parcels = [mode for path, mode in seen.items() if path.startswith("ck-parcels-")]
    assert len(parcels) >= 5
    assert not any(map(is_open, parcels))
    record = found(run.record.parent)
    assert record
    assert not [path for path, mode in record.items() if is_open(mode)]


async def test_what_a_kernel_is_told_is_signed_and_the_key_is_in_the_private_file_only(tmp_path, place):
    seen = []

    def look(request):
        (connection,) = place.glob("ck-*/kernel.json")
        text = connection.read_text()
        seen.append(text)
        key = text.partition('"key": "')[2].partition('"')[0]
        assert len(key) >= 32
        for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
            assert key not in " ".join(process.cmdline())
            assert key not in str(process.environ())
        return "Done."

    async with Agent(Cast({"ROOT": [block("1"), look]}), workspace=tmp_path) as agent:
        await agent.run("ROOT")
    assert '"signature_scheme": "hmac-sha256"' in seen[0]
    assert '"transport": "ipc"' in seen[0]
