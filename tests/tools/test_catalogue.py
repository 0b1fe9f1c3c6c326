"""How code finds a tool among many."""

from __future__ import annotations

import pytest

from codeact_kernel.errors import ConfigError, ToolError
from codeact_kernel.tools import Catalogue, Tool, as_tools, tool
from codeact_kernel.tools.catalogue import line


class Shop:
    """A set of tools that counts how often it is started."""

    about = "Orders and goods."

    def __init__(self, name="mcp.shop", known=True, fails=None):
        self.name = name
        self.started = 0
        self._known = known
        self._fails = fails
        self._tools = {
            n: Tool(
                n,
                print,
                "(*, id: int) -> dict",
                doc,
                False,
                group=name,
                full_name=f"{name.replace('.', ':')}:{n}",
            )
            for n, doc in [
                ("create_event", "Put a date into the calendar."),
                ("list_orders", "All orders.\n\nEach with its invoice."),
                ("getInvoice", "One bill."),
            ]
        }

    def known(self):
        return self._tools if self._known else None

    async def tools(self):
        self.started += 1
        if self._fails:
            raise ToolError(self._fails)
        return self._tools

    async def aclose(self):
        pass


def read_file(path: str) -> str:
    """Read a file."""
    return path


async def fetch(url: str) -> str:
    '''Fetch a page: not """quoted""".'''
    return url


def catalogue(*sets):
    return Catalogue(as_tools([read_file, fetch]), sets)


@pytest.mark.parametrize("name", ["mcp.shop.list_orders", "mcp:shop:list_orders"])
async def test_a_tool_is_found_by_each_form_of_its_name(name):
    assert (await catalogue(Shop()).find(name)).name == "list_orders"
    assert (await catalogue().find("read_file")).name == "read_file"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mcp.shop.list_order", "mcp.shop has no tool 'list_order'; did you mean 'list_orders'"),
        ("read_fil", "no tool 'read_fil'; did you mean 'read_file'"),
        ("mcp.stop.x", "there is no tool 'mcp.stop.x'"),
    ],
)
async def test_what_is_not_there_has_a_hint(name, said):
    with pytest.raises(ToolError, match=said):
        await catalogue(Shop()).find(name)


async def test_a_search_ranks_by_name_then_group_then_text():
    found = await catalogue(Shop()).search("calendar event")
    assert found[0] == "mcp.shop.create_event(*, id: int) -> dict: Put a date into the calendar."
    assert [hit.partition("(")[0] for hit in await catalogue(Shop()).search("invoices")] == [
        "mcp.shop.getInvoice",
        "mcp.shop.list_orders",
    ]
    assert len(await catalogue(Shop()).search("shop", most=2)) == 2


async def test_a_search_that_finds_nothing_says_so_and_so_does_a_set_that_does_not_start():
    found = await catalogue(Shop(fails="it does not start: no such file")).search("zebra")
    assert found == [
        "(no tool is about 'zebra'; tools.list() tells what there is)",
        "(mcp.shop could not be searched: it does not start: no such file)",
    ]


async def test_a_list_tells_of_sets_without_starting_them():
    shop, other = Shop(), Shop("mcp.other", known=False)
    assert await catalogue(shop, other).lines() == [
        "read_file(path: str) -> str: Read a file.",
        'await fetch(url: str) -> str: Fetch a page: not """quoted""".',
        "mcp.shop, 3 tools: Orders and goods. (tools.list('mcp.shop') lists them)",
        "mcp.other: Orders and goods. (tools.list('mcp.other') lists them)",
    ]
    assert shop.started == other.started == 0
    assert len(await catalogue(shop).lines("mcp:shop")) == 3
    with pytest.raises(ToolError, match=r"no group 'mcp.sho'; did you mean 'mcp.shop'"):
        await catalogue(shop).lines("mcp.sho")


async def test_a_description_is_python():
    there = catalogue(Shop())
    texts = [await there.describe(name) for name in ("read_file", "fetch", "mcp.shop")]
    assert texts[0] == 'def read_file(path: str) -> str:\n    """Read a file."""'
    for text in texts:
        compile(text, "stub", "exec")
    assert texts[2].count("def ") == 3


async def test_a_stub_counts_over_what_could_be_made():
    stubbed = Tool("f", print, "()", "", False, stub="def f() -> Order: ...")
    assert await Catalogue({"f": stubbed}).describe("f") == "def f() -> Order: ..."


async def test_the_kernel_asks_a_set_only_where_its_tools_are_not_known():
    shop, other = Shop(), Shop("mcp.other", known=False)
    there = catalogue(shop, other)
    assert (await there.group("mcp.shop"))[0]["called"] == "mcp:shop:create_event"
    assert shop.started == 0
    await there.group("mcp.shop", fresh=True)
    await there.group("mcp.other")
    assert shop.started == other.started == 1
    assert there.describe_all()[2:] == [{"group": "mcp.shop"}, {"group": "mcp.other"}]


def test_two_sets_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="two sets of tools have one name"):
        catalogue(Shop(), Shop())


def test_the_decorator_says_more_of_a_tool_and_leaves_the_function():
    @tool(kind="write", limit=3)
    def send(text: str) -> int:
        """Send."""
        return len(text)

    assert (send.name, send.writes, send.limit) == ("send", True, 3)
    assert send("abc") == 3
    assert line(tool(read_file, name="look")) == "look(path: str) -> str: Read a file."
