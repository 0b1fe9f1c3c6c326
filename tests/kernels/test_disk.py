"""What blocks write to the disk is seen, whatever else happens on it."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace

from codeact_kernel.kernels.disk import REST, Disk
from codeact_kernel.testing import jumping

MB = 10**6


class FileSystem:
    """Says how full it is, as a test wants it."""

    def __init__(self, monkeypatch, used):
        self.used = used
        monkeypatch.setattr(os, "statvfs", lambda folder: self.state())

    def state(self):
        return SimpleNamespace(f_fsid=1, f_blocks=10**9, f_bfree=10**9 - self.used, f_frsize=1)


async def until_ended(disk):
    """Seconds until too much is written, and the reason."""
    began = asyncio.get_running_loop().time()
    reason = await disk.watch()
    return asyncio.get_running_loop().time() - began, reason


@jumping
async def test_what_others_remove_meanwhile_does_not_hide_what_blocks_write(tmp_path, monkeypatch):
    system = FileSystem(monkeypatch, used=500 * MB)
    disk = Disk([tmp_path], MB)
    system.used = 100 * MB  # much is removed elsewhere
    (tmp_path / "big").write_bytes(b"x" * 2 * MB)
    seconds, reason = await until_ended(disk)
    assert "more than the 1 MB of max_growth" in reason.replace("1.0 MB", "1 MB")
    assert seconds <= REST + 1


@jumping
async def test_a_rise_is_looked_into_at_once(tmp_path, monkeypatch):
    system = FileSystem(monkeypatch, used=0)
    disk = Disk([tmp_path], MB)
    (tmp_path / "big").write_bytes(b"x" * 2 * MB)
    system.used = 2 * MB
    seconds, _ = await until_ended(disk)
    assert seconds < 1


@jumping
async def test_where_nothing_is_written_files_are_looked_at_every_few_seconds_and_no_more(
    tmp_path, monkeypatch
):
    FileSystem(monkeypatch, used=0)
    looks = []

    class Counted(Disk):
        def written(self):
            looks.append(super().written())
            return looks[-1]

    watching = asyncio.ensure_future(Counted([tmp_path], MB).watch())
    await asyncio.sleep(10 * REST + 0.5)
    watching.cancel()
    assert looks == [0] * 10
