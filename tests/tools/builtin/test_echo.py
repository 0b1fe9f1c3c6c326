"""What a program prints is shown as it comes, and never too much of it."""

from __future__ import annotations

import asyncio

import pytest

from codeact_kernel.testing import jumping
from codeact_kernel.tools.builtin.echo import LINES, LONGEST, MOST, PAUSE, Echo


@pytest.fixture
def said():
    return []


@jumping
async def test_lines_are_shown_when_they_end_and_what_is_left_at_the_end(said):
    with Echo(said.append) as echo:
        out, err = echo.stream(), echo.stream()
        out(b"one\ntw")
        err(b"wrong\n")
        out(b"o\r\n\nthr")
        assert said == ["one", "wrong", "two\n"]
        out("é".encode()[:1])
        out("é".encode()[1:])
    assert said == ["one", "wrong", "two\n", "thré"]


@jumping
async def test_bytes_that_are_no_text_are_shown_as_such(said):
    with Echo(said.append) as echo:
        out = echo.stream()
        out(b"\xff\n\xe2")
    assert said == ["\ufffd", "\ufffd"]


@jumping
async def test_a_progress_bar_is_shown_now_and_then_and_at_its_end(said):
    with Echo(said.append) as echo:
        out = echo.stream()
        for percent in range(101):
            out(f"\r{percent}%".encode())
            await asyncio.sleep(PAUSE / 50)
        out(b"\ndone\n")
    assert said[-1].endswith("100%\ndone")
    assert len(said) <= 3


@jumping
async def test_of_a_row_of_dots_each_is_shown_once(said):
    with Echo(said.append) as echo:
        out = echo.stream()
        for _ in range(30):
            out(b".")
            await asyncio.sleep(PAUSE / 10)
        out(b" passed\n")
    assert "".join(said) == "." * 30 + " passed"
    assert len(said) <= 4


@jumping
async def test_a_line_that_is_written_anew_counts_as_it_is_at_its_end(said):
    with Echo(said.append) as echo:
        out = echo.stream()
        out(b"first\rsecond\r\nthird\r")
        out(b"fourth\n\r\r\n")
    assert said == ["second", "fourth\n"]


@jumping
async def test_a_flood_is_shown_in_part_and_the_rest_is_counted(said):
    with Echo(said.append) as echo:
        out = echo.stream()
        for n in range(1000):
            out(f"line {n}\n".encode())
        assert len("\n".join(said).split("\n")) == LINES
        await asyncio.sleep(1)
        out(b"later\n")
        assert said[-1] == f"[... {1000 - LINES} lines not shown here]\nlater"
        out(b"x\n" * (LINES + 1))
        await asyncio.sleep(PAUSE)
        assert said[-1] == "[... 2 lines not shown here]"


@jumping
async def test_a_long_run_is_shown_up_to_a_size_and_counted_once(said):
    with Echo(said.append) as echo:
        out = echo.stream()
        for _ in range(1000):
            out(b"x" * 999 + b"\n")
            await asyncio.sleep(1)
    shown = [line for text in said for line in text.split("\n")]
    assert sum(len(line) + 1 for line in shown[:-1]) <= MOST
    assert shown[-1] == f"[... {1000 - MOST // 1000} lines not shown here]"


@jumping
async def test_a_line_without_an_end_holds_no_memory_and_is_cut(said):
    with Echo(said.append) as echo:
        out = echo.stream()
        for _ in range(100):
            out(b"y" * 65536)
            await asyncio.sleep(PAUSE)
        out(b"\nnext\n")
    assert said[0] == "y" * LONGEST + "…"
    assert "".join(said).count("next") == 1
    assert sum(map(len, said)) < 2 * LONGEST


@jumping
async def test_a_line_that_has_just_begun_is_not_broken(said):
    with Echo(said.append) as echo:
        out = echo.stream()
        out(b"x\n" * (LINES + 1))
        await asyncio.sleep(PAUSE - 0.1)
        out(b"half of ")
        await asyncio.sleep(0.2)
        assert said[1:] == ["[... 1 line not shown here]"]
        out(b"a line\n")
        assert said[2:] == ["half of a line"]
        out(b"waits")
        await asyncio.sleep(2 * PAUSE)
        assert said[3:] == ["waits"]
