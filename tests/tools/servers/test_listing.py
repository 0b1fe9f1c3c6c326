"""What is known of a server from an earlier run."""

from __future__ import annotations

import threading

import pytest

from codeact_kernel.tools.mcp.listing import Listing, ListingCache, mend

LISTING = Listing(({"name": "a", "inputSchema": {"default": None}},), resources=True, about="\ud800")


def test_a_listing_is_what_it_was(cache):
    assert cache.read("k") is None
    cache.write("k", LISTING)
    assert cache.read("k") == LISTING


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", '{"version": 1}', '{"version": 99, "tools": [], "resources": 1, "prompts": 1, "about": ""}',
     '{"version": 1, "tools": [7], "resources": 1, "prompts": 1, "about": ""}', '{"version": 1, "tools": 7}',
     "[" * 100_000, "\0\xff"],
)  # fmt: skip
def test_a_file_that_is_broken_is_as_none(cache, tmp_path, text):
    cache.write("k", LISTING)
    (tmp_path / "cache" / "k.json").write_text(text, "latin-1")
    assert cache.read("k") is None
    cache.write("k", LISTING)
    assert cache.read("k") == LISTING


def test_a_file_that_is_too_large_is_not_read(cache, tmp_path):
    cache.write("k", LISTING)
    with (tmp_path / "cache" / "k.json").open("r+") as file:
        file.truncate(65 * 2**20)
    assert cache.read("k") is None


def test_many_may_write_at_once_and_nobody_reads_half_of_it(cache, tmp_path):
    long = Listing(tuple({"name": f"t{n}"} for n in range(2_000)))
    cache.write("k", long)
    writers = [threading.Thread(target=lambda: [cache.write("k", long) for _ in range(10)]) for _ in range(4)]
    for thread in writers:
        thread.start()
    while any(thread.is_alive() for thread in writers):
        assert cache.read("k") == long
    for thread in writers:
        thread.join()
    assert [file.name for file in (tmp_path / "cache").iterdir()] == ["k.json"]


def test_where_nothing_can_be_written_nothing_is_known(tmp_path):
    (tmp_path / "file").touch()
    cache = ListingCache(tmp_path / "file" / "cache")
    cache.write("k", LISTING)
    assert cache.read("k") is None


def test_by_itself_it_lies_in_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ListingCache().write("k", LISTING)
    assert (tmp_path / "codeact-kernel" / "mcp" / "k.json").exists()


def test_a_tool_that_does_not_follow_the_protocol_does_not_hide_the_others():
    anything = {"type": "object", "additionalProperties": True}
    page = {
        "tools": [
            {"name": "a", "inputSchema": {"properties": {}}, "outputSchema": {"$ref": "#"}},
            {"name": "b", "inputSchema": {"type": "string"}, "outputSchema": {"type": "string"}},
            {"name": "c", "inputSchema": 7},
            {"name": "d"},
            {"inputSchema": {}},
            "e",
        ]
    }
    mend(page)
    assert page["tools"] == [
        {
            "name": "a",
            "inputSchema": {"type": "object", "properties": {}},
            "outputSchema": {"type": "object", "$ref": "#"},
        },
        {"name": "b", "inputSchema": anything},
        {"name": "c", "inputSchema": anything},
        {"name": "d", "inputSchema": anything},
    ]
    other = {"tools": 7, "content": []}
    mend(other)
    assert other == {"tools": 7, "content": []}
