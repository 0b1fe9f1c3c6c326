"""Who may be taken for a kernel that outlived its host: nobody but that."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from codeact_kernel.errors import ConfigError
from codeact_kernel.kernels import Kernel, KernelSettings, Leased
from codeact_kernel.kernels.interpreter import Launch
from codeact_kernel.kernels.leases import Gone, connection_of, start_of, take_hold

LAUNCH = Launch(("python",), True)


@pytest.fixture
async def keeper(tmp_path):
    """What greets a host as a keeper does, and is this very process; gives where it says that it is, and who came."""
    place, came = tmp_path / "k", []
    place.mkdir(mode=0o700)

    async def greet(reader, writer):
        writer.write(b'{"host": 1}\n')
        came.append(json.loads(await reader.readline()))
        await reader.read()
        writer.close()

    async with await asyncio.start_unix_server(greet, place / "keeper"):
        pid = os.getpid()
        yield Leased(str(tmp_path), str(place / "keeper"), pid, start_of(pid), ""), came


async def test_a_keeper_is_taken_hold_of_and_hears_the_terms(keeper, tmp_path):
    leased, came = keeper
    hold, process, found = await take_hold(
        LAUNCH, KernelSettings(cwd=tmp_path, lease=60, max_memory=5), leased
    )
    process.close()
    hold.let_go()
    assert (hold.number, replace(found, walls="")) == (1, leased)
    async with asyncio.timeout(5):
        while not came:
            await asyncio.sleep(0)
    assert came == [{"lease": 60, "memory": 5, "disk": None}]


@pytest.mark.parametrize("wrong", [{"pid": 1}, {"started": 7}])
async def test_another_process_in_a_keepers_place_is_none(keeper, tmp_path, wrong):
    leased, _ = keeper
    with pytest.raises(Gone, match="is not the one that the record tells of"):
        await take_hold(LAUNCH, KernelSettings(cwd=tmp_path), replace(leased, **wrong))


async def test_a_socket_where_others_could_put_one_is_not_connected_to(keeper, tmp_path):
    leased, came = keeper
    (tmp_path / "k").chmod(0o755)
    with pytest.raises(Gone, match="is none of this user's"):
        await take_hold(LAUNCH, KernelSettings(cwd=tmp_path), leased)
    assert not came


async def test_where_nothing_is_any_more_the_kernel_has_ended(keeper, tmp_path):
    leased, _ = keeper
    with pytest.raises(Gone, match="has ended meanwhile"):
        await take_hold(LAUNCH, KernelSettings(cwd=tmp_path), replace(leased, socket=f"{leased.socket}-no"))


def test_a_connection_file_says_nothing_of_where_the_kernel_is(tmp_path):
    told = {"key": "k", "transport": "tcp", "ip": "192.0.2.1", "shell_port": 1, "iopub_port": "2"}
    (tmp_path / "kernel.json").write_text(json.dumps(told))
    connection = connection_of(tmp_path)
    assert (connection["transport"], connection["ip"]) == ("ipc", str(tmp_path / "own" / "s"))
    (tmp_path / "kernel.json").write_text('{"shell_port": "x"}')
    with pytest.raises(Gone):
        connection_of(tmp_path)


async def test_a_kernel_that_is_not_ours_has_no_lease(tmp_path):
    with pytest.raises(ConfigError, match="no lease"):
        await Kernel(KernelSettings(cwd=tmp_path, lease=1.0)).start(Launch((sys.executable,), False))


@pytest.mark.kernel
async def test_a_kernel_with_a_lease_that_is_left_ends_at_once(tmp_path):
    async with Kernel(KernelSettings(cwd=tmp_path, lease=60.0)) as kernel:
        leased = kernel.leased
        assert start_of(leased.pid) == leased.started
    assert not Path(f"/proc/{leased.pid}").exists()
    assert not Path(leased.folder).exists()
    assert not Path(leased.socket).parent.exists()
