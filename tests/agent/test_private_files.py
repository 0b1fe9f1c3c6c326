"""What is made for a run is its user's alone, whatever the umask; and nothing listens where others could knock."""

from __future__ import annotations

import contextlib
import grp
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
    folder.chmod(0o711)  # as /tmp: a kernel's user may have to pass through
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def found(folder):
    """What lies in a folder, by its path."""
    return {path.relative_to(folder).as_posix(): path.lstat() for path in folder.rglob("*")}


def is_open(status):
    """Whether others than its owner may do something with it: a kernel's own group, which nobody else is in, may."""
    with contextlib.suppress(KeyError):
        grp.getgrgid(status.st_gid)
        return bool(status.st_mode & 0o077)
    return bool(status.st_mode & 0o027)


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
    kinds = {}
    for path, status in seen.items():
        # Whoever may not enter a folder reaches nothing in it.
        assert "/" in path or not is_open(status), (path, oct(status.st_mode))
        kind = stat.S_IFMT(status.st_mode)
        assert kind in (stat.S_IFDIR, stat.S_IFREG, stat.S_IFSOCK), path
        kinds.setdefault(path.rpartition("/")[2], []).append(status)
    assert len(kinds["kernel.json"]) >= 2
    assert not any(map(is_open, kinds["kernel.json"]))
    assert all(stat.S_ISSOCK(status.st_mode) for status in kinds["s-1"] + kinds["s-2f"])
    assert len(kinds["s-1"]) >= 2
    (parcels,) = (
        status for path, status in seen.items() if path.startswith("ck-parcels-") and "/" not in path
    )
    assert stat.S_IMODE(parcels.st_mode) == 0o700
    record = found(run.record.parent)
    assert record
    assert not [path for path, status in record.items() if is_open(status)]


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
