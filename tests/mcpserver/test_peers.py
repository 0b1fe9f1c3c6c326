"""Who may use a port of this machine: processes of the same user, and nobody who only says so."""

from __future__ import annotations

import os
import socket
import subprocess

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from codeact_kernel.mcpserver.peers import SameUser

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
NOBODY = 65534
root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


async def asked(client, port, tables=None):
    """The status with which a request is answered; 200 is that of the app."""
    said = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})

    async def send(message):
        said.append(message)

    guard = SameUser(app, port) if tables is None else SameUser(app, port, tables)
    await guard({"type": "http", "client": client}, None, send)
    return said[0]["status"]


@pytest.fixture(params=["127.0.0.1", "::1"])
def listening(request):
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with socket.socket(family) as server:
        try:
            server.bind((request.param, 0))
        except OSError:
            pytest.skip("there is no IPv6 here")
        server.listen()
        yield server


async def test_a_connection_of_ones_own_is_served(listening):
    port = listening.getsockname()[1]
    with socket.create_connection(listening.getsockname()[:2]) as mine:
        assert await asked(mine.getsockname()[:2], port) == 200
        host, own = mine.getsockname()[:2]
        assert await asked((host, own + 1), port) == 403
        assert await asked((host, 0), port) == 403
        assert await asked((host, own), port + 1) == 403
    assert await asked(None, port) == 403
    # It is closed by now, and belongs to nobody.
    assert await asked((host, own), port) == 403


@root
async def test_a_connection_of_another_user_is_refused(listening):
    host, port = listening.getsockname()[:2]
    with subprocess.Popen(  # noqa: ASYNC220 - it is only started
        ["bash", "-c", f"exec 3<>/dev/tcp/{host}/{port}; read -r line <&3"],
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
    ) as other:
        connection, address = listening.accept()
        with connection:
            assert await asked(address[:2], port) == 403
        other.wait(10)


def row(local, remote, uid, inode="77"):
    return f"   0: {local} {remote} 01 00000000:00000000 00:00000000 00000000  {uid}        0 {inode} 1\n"


@pytest.mark.parametrize(
    ("uid", "inode", "status"),
    [(os.geteuid(), "77", 200), (0, "77", 200), (4711, "77", 403), (0, "0", 403), (os.geteuid(), "0", 403)],
)
async def test_a_row_of_the_table_is_read(tmp_path, uid, inode, status):
    table = tmp_path / "tcp"
    table.write_text(HEAD + row("0100007F:1F90", "0100007F:0050", uid, inode))
    assert await asked(("127.0.0.1", 0x1F90), 80, (table,)) == status
    other = tmp_path / "tcp6"
    mapped = "0000000000000000FFFF00000100007F"
    other.write_text(HEAD + row(f"{mapped}:1F90", f"{mapped}:0050", uid, inode))
    assert await asked(("127.0.0.1", 0x1F90), 80, (other,)) == status
    assert await asked(("::ffff:127.0.0.1", 0x1F90), 80, (other,)) == status


async def test_where_there_is_no_table_nobody_is_refused(tmp_path):
    assert await asked(("127.0.0.1", 1), 80, (tmp_path / "none",)) == 200
