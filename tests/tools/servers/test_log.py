"""The log of a server: in the run's folder, without secrets, through no link."""

from __future__ import annotations

import pytest

from codeact_kernel.masking import Mask
from codeact_kernel.runfiles import Folder
from codeact_kernel.tools.mcp.config import read_servers, secrets_of
from codeact_kernel.tools.mcp.log import ServerLog
from codeact_kernel.tools.mcp.names import Secrets
from codeact_kernel.tools.mcp.open import open_servers


@pytest.fixture
def folder(tmp_path):
    return Folder.make(tmp_path / "run")


def test_neither_its_own_secrets_nor_those_of_the_host_are_in_it(folder):
    log = ServerLog("far", lambda: folder, Secrets(["s3cr3t-value"]), Mask({"A_KEY": "sk-0123456789"}))
    log.feed(b"token s3cr3t-value and sk-01234")
    log.feed(b"56789 too\n")
    log.finish()
    assert (folder.path / "far.log").read_text() == "token *** and [secret A_KEY] too\n"
    assert (folder.path / "far.log").stat().st_mode & 0o777 == 0o600
    assert "sk-" not in log.tail
    assert str(folder.path / "far.log") in log.tail


def test_it_is_not_written_through_a_link_and_the_tail_has_it_all_the_same(folder, tmp_path):
    (tmp_path / "victim").write_text("mine")
    (folder.path / "far.log").symlink_to(tmp_path / "victim")
    log = ServerLog("far", lambda: folder, Secrets())
    log.feed(b"hello\n")
    assert (tmp_path / "victim").read_text() == "mine"
    assert "hello" in log.tail


def test_a_folder_that_cannot_be_opened_ends_nothing():
    def broken():
        raise OSError(40, "agents is a link")

    log = ServerLog("far", broken, Secrets())
    log.feed(b"hello\n")
    assert log.tail.endswith("Its last lines on stderr:\nhello")


TABLE = {
    "near": {
        "command": "x",
        "env": {
            "GITHUB_TOKEN": "ghp_short",
            "ROOT": "/home/me/a1b2c3d4e5f6",
            "MODE": "production",
            "ODD": "a1b2c3d4e5f6g7h8",
        },
    },
    "far": {
        "url": "https://me:hunter22@host/mcp?apikey=0123456789&limit=1000000000",
        "headers": {
            "Authorization": "Bearer abc.def-123",
            "Accept": "application/json",
            "X-Api-Key": "plainword",
        },
    },
}


def test_what_servers_are_given_is_a_secret_by_its_name_or_its_looks(tmp_path):
    near, far = read_servers({"mcpServers": TABLE}, workspace=tmp_path)
    assert secrets_of(near) == {"GITHUB_TOKEN of near": "ghp_short", "ODD of near": "a1b2c3d4e5f6g7h8"}
    assert secrets_of(far) == {
        "Authorization of far": "Bearer abc.def-123",
        "X-Api-Key of far": "plainword",
        "apikey of far": "0123456789",
        "url of far": "hunter22",
    }


async def test_the_mask_of_an_agent_learns_them(tmp_path):
    mask = Mask()
    servers = open_servers({"mcpServers": TABLE}, workspace=tmp_path, notice=print, mask=mask)
    assert mask.text("abc.def-123 hunter22") == "[secret Authorization of far] [secret url of far]"
    for server in servers:
        await server.aclose()
