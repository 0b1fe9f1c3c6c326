"""Searching finds the same lines, with ripgrep and without."""

from __future__ import annotations

import os

import pytest

from codeact_kernel.errors import ToolError
from codeact_kernel.tools.builtin.search import FOUND, LARGEST, TEXT, SearchTools, find_ripgrep
from codeact_kernel.tools.builtin.workspace import Workspace

ENV = {"PATH": "/usr/bin:/bin"}
RIPGREP = find_ripgrep()
ways = pytest.mark.parametrize(
    "ripgrep",
    [
        pytest.param(None, id="ours"),
        pytest.param(
            RIPGREP, id="ripgrep", marks=pytest.mark.skipif(RIPGREP is None, reason="no ripgrep here")
        ),
    ],
)


@pytest.fixture
def place(tmp_path):
    """A workspace with files of every kind."""
    (tmp_path / "secret.py").write_text("needle outside\n")
    folder = tmp_path / "work"
    for name, content in {
        "a.py": b"one\nneedle = 1\nNeedle\n",
        "b/c.py": b"x\r\nneedle(2)\r\n",
        "b.py": b"needle",
        "b/d.txt": "\N{BYTE ORDER MARK}needle é\n".encode(),
        "utf16.txt": "needle ü\n".encode("utf-16"),
        "latin.txt": b"needle \xe9\n",
        "binary": b"needle\0\n",
        ".hidden/a.py": b"needle",
        ".hidden.py": b"needle",
        "node_modules/m.py": b"needle",
        "ignored.log": b"needle",
        ".gitignore": b"*.log\n",
        "-": b"needle in dash\n",
        "empty": b"",
        "new\nline": b"nothing",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "long.txt").write_text("needle" + "x" * TEXT + "\n")
    os.mkfifo(folder / "pipe")
    (folder / "link.py").symlink_to("../secret.py")
    (folder / "up").symlink_to("..")
    with (folder / "huge.txt").open("wb") as file:
        file.write(b"needle\n")
        file.truncate(LARGEST + 1)
    return folder


@pytest.fixture
def search(place, ripgrep):
    return SearchTools(Workspace(place), ENV, ripgrep).search_code


def at(found):
    return [(match["path"], match["line"]) for match in found]


@ways
async def test_lines_are_found_in_order_and_only_in_text_of_the_workspace(search):
    found = await search("needle")
    assert at(found) == [
        ("-", 1), ("a.py", 2), ("b/c.py", 2), ("b/d.txt", 1), ("b.py", 1), ("ignored.log", 1), ("latin.txt", 1),
        ("long.txt", 1), ("utf16.txt", 1),
    ]  # fmt: skip
    texts = {match["path"]: match["text"] for match in found}
    assert texts["b/c.py"] == "needle(2)"
    assert texts["utf16.txt"] == "needle ü"
    assert texts["latin.txt"] == "needle \N{REPLACEMENT CHARACTER}"
    assert texts["long.txt"] == "needle" + "x" * (TEXT - 6) + "…"


@ways
@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"pattern": "^needle$", "ignore_case": True}, [("a.py", 3), ("b.py", 1), ("ignored.log", 1)]),
        ({"pattern": "needle(", "literal": True}, [("b/c.py", 2)]),
        ({"pattern": "needle", "glob": "*.py"}, [("a.py", 2), ("b/c.py", 2), ("b.py", 1)]),
        ({"pattern": "needle", "glob": "[bd].{py,txt}"}, [("b/d.txt", 1), ("b.py", 1)]),
        ({"pattern": "needle", "path": "b"}, [("b/c.py", 2), ("b/d.txt", 1)]),
        ({"pattern": "needle", "path": "b/../b/c.py"}, [("b/c.py", 2)]),
        ({"pattern": "needle", "path": "-"}, [("-", 1)]),
        ({"pattern": "needle", "path": ".hidden"}, [(".hidden/a.py", 1)]),
        ({"pattern": "(?<=x)y|needle(?= = 1)"}, [("a.py", 2)]),
        ({"pattern": "[éü]$"}, [("b/d.txt", 1), ("utf16.txt", 1)]),
        ({"pattern": "-e"}, []),
        ({"pattern": "nosuch"}, []),
    ],
)
async def test_patterns_and_places(search, arguments, found):
    assert at(await search(**arguments)) == found


@ways
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pattern": "("}, "no regular expression: .*literal=True"),
        ({"pattern": ""}, "not empty"),
        ({"pattern": "x", "glob": "b/*.py"}, "path= names a folder"),
        ({"pattern": "x", "path": "up"}, "leads out of the workspace"),
        ({"pattern": "x", "path": "link.py"}, "leads out of the workspace"),
        ({"pattern": "x", "path": "nosuch"}, "there is no 'nosuch'"),
        ({"pattern": "x", "path": "huge.txt"}, "no file above"),
        ({"pattern": "x", "path": "pipe"}, "is a device, a pipe"),
    ],
)
async def test_what_cannot_be_searched_says_why(search, arguments, message):
    with pytest.raises(ToolError, match=message):
        await search(**arguments)


@ways
async def test_too_many_lines_are_an_error(search, place):
    (place / "many.txt").write_text("many\n" * (FOUND + 1))
    with pytest.raises(ToolError, match=rf"more than {FOUND} lines match \({FOUND + 1}\)"):
        await search("many")


async def test_a_pattern_that_takes_for_ever_is_ended_and_stops_nobody(place):
    (place / "a.txt").write_text("a" * 60 + "!\n")
    tools = SearchTools(Workspace(place), ENV, None, timeout=0.3)
    with pytest.raises(ToolError, match=r"took longer than 0\.3 s"):
        await tools.search_code("(a+)+$", path="a.txt")
