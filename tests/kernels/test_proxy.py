"""The proxy by which blocks reach some hosts and no others."""

from __future__ import annotations

import asyncio

import pytest

from codeact_kernel.kernels.sandbox.proxy import Proxy, Rule, is_public


@pytest.mark.parametrize(
    ("rule", "host", "port", "holds"),
    [
        ("example.org", "example.org", 443, True),
        ("example.org", "example.org", 80, True),
        ("example.org", "example.org", 22, False),
        ("example.org", "www.example.org", 443, False),
        ("example.org", "evilexample.org", 443, False),
        ("example.org", "example.org.evil.com", 443, False),
        ("*.example.org", "www.example.org", 443, True),
        ("*.example.org", "a.b.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "evilexample.org", 443, False),
        ("example.org:8443", "example.org", 8443, True),
        ("example.org:8443", "example.org", 443, False),
        ("EXAMPLE.org.", "example.org", 443, True),
        ("bücher.example", "xn--bcher-kva.example", 443, True),
    ],
)
def test_a_rule_holds_for_its_host_and_no_other(rule, host, port, holds):
    assert Rule.of(rule).holds(host, port) == holds


@pytest.mark.parametrize(
    "rule", ["", "*", "*.", "a*b.org", "user@example.org", "example.org/path", "example.org:99999"]
)
def test_what_is_no_host_is_no_rule(rule):
    with pytest.raises(ValueError, match=r"."):
        Rule.of(rule)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1",
        "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
        "64:ff9b::7f00:1", "2002:7f00:1::", "ff02::1",
    ],
)  # fmt: skip
def test_addresses_of_this_machine_and_its_neighbours_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"])
def test_addresses_of_the_public_network_are(address):
    assert is_public(address)


class Stage:
    """A proxy, a server that it may lead to, and what it was told."""

    def __init__(self, folder, hosts, addresses):
        self.told = []
        self.seen = []
        self.path = folder / "proxy"
        self.proxy = Proxy(hosts, lambda *about: self.told.append(about), lambda host, port: list(addresses))

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        await self.proxy.start(self.path)
        return self

    async def __aexit__(self, *exception):
        await self.proxy.aclose()
        self.server.close()

    async def _serve(self, reader, writer):
        self.seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        await writer.drain()
        writer.close()

    async def ask(self, text):
        reader, writer = await asyncio.open_unix_connection(self.path)
        writer.write(text.encode("latin-1"))
        async with asyncio.timeout(10):
            answer = await reader.read()
        writer.close()
        return answer.decode("latin-1")


@pytest.mark.parametrize(
    ("request_line", "why"),
    [
        ("CONNECT other.org:443 HTTP/1.1\r\nHost: example.org", "other.org:443 may not be reached"),
        ("CONNECT example.org:22 HTTP/1.1\r\nHost: x", "example.org:22 may not be reached"),
        ("GET http://other.org/ HTTP/1.1\r\nHost: example.org", "other.org:80 may not be reached"),
        ("GET http://user@example.org/ HTTP/1.1\r\nHost: example.org", ":80 may not be reached"),
        ("GET /path HTTP/1.1\r\nHost: example.org", ":80 may not be reached"),
        ("GET https://example.org/ HTTP/1.1\r\nHost: example.org", ":80 may not be reached"),
        ("CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: x", "127.0.0.1:443 may not be reached"),
    ],
)
async def test_who_is_not_listed_gets_a_reason_and_no_connection(tmp_path, request_line, why):
    async with Stage(tmp_path, ["example.org"], ["93.184.216.34"]) as stage:
        answer = await stage.ask(f"{request_line}\r\n\r\n")
    assert answer.startswith("HTTP/1.1 403 ")
    assert why in answer
    assert stage.told[0][2]
    assert stage.seen == []


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["93.184.216.34", "10.0.0.1"], ["::ffff:169.254.169.254"], []]
)
async def test_a_listed_name_that_leads_elsewhere_is_refused_after_it_was_resolved(tmp_path, addresses):
    async with Stage(tmp_path, ["example.org"], addresses) as stage:
        answer = await stage.ask("CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith("HTTP/1.1 403 ")
    assert "no address" in answer


async def test_rubbish_ends_its_own_connection_and_nothing_else(tmp_path):
    async with Stage(tmp_path, ["example.org"], ["10.0.0.1"]) as stage:
        assert await stage.ask("\x00\x01\x02 nonsense\r\n\r\n") == ""
        assert (await stage.ask("x" * 200_000)).startswith(("", "HTTP"))
        assert "403" in await stage.ask("CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n")


async def test_what_is_allowed_reaches_the_host_that_was_named_and_no_other(tmp_path):
    """The address that is connected to is the one that was looked at: nobody resolves the name a second time."""
    looked = []

    class Near(Proxy):
        async def _checked(self, host, port):
            looked.append((host, port))
            return "127.0.0.1"

    async with Stage(tmp_path, ["example.org"], []) as stage:
        near = Near(["example.org"])
        await near.start(tmp_path / "near")
        stage.path = tmp_path / "near"
        answer = await stage.ask(
            f"GET http://example.org:{stage.port}/a?b HTTP/1.1\r\nHost: other.org\r\n"
            "Proxy-Authorization: x\r\nX-Y: z\r\n\r\n"
        )
        await near.aclose()
    assert answer.endswith("hi")
    head = stage.seen[0].decode()
    assert head.startswith(f"GET /a?b HTTP/1.1\r\nHost: example.org:{stage.port}\r\n")
    assert "other.org" not in head
    assert "Authorization" not in head
    assert "x-y: z" in head.lower()
    assert looked == [("example.org", stage.port)]


@pytest.mark.kernel
@pytest.mark.parametrize("way", ["spawned", "forked"])
async def test_blocks_find_the_proxy_and_nothing_else(open_walled, way):
    bench = await open_walled("bwrap", way, allow_hosts=("example.org",))
    told = []
    bench.kernel.on_reached = lambda *about: told.append(about)
    block = await bench.run(
        "import socket, urllib.request\n"
        "for url in ('http://other.org/', 'https://other.org/'):\n"
        "    try: urllib.request.urlopen(url, timeout=10)\n"
        "    except OSError as error: print(error)\n"
        "try: socket.create_connection(('192.0.2.1', 80), timeout=5)\n"
        "except OSError as error: print(error.strerror)"
    )
    assert block.text.splitlines() == [
        "HTTP Error 403: Forbidden",
        "<urlopen error Tunnel connection failed: 403 Forbidden>",
        "Network is unreachable",
    ]
    assert [(host, port) for host, port, _ in told] == [("other.org", 80), ("other.org", 443)]
