"""Blocks that ended long ago, of which memory holds a few numbers."""

import asyncio

import pytest

from codeact_kernel.errors import ToolError
from codeact_kernel.supervisor.supervisor import RECENT
from codeact_kernel.testing import jumping

MANY = RECENT + 30


async def many(stage, first='print("text")'):
    stage.launch("b0", first)
    for number in range(1, MANY):
        stage.launch(f"b{number}", f'print("line {number} é")\nprint("more")')
    await stage.it.settled()


@jumping
async def test_their_outputs_can_still_be_read_whole_and_in_pages(stage, tmp_path):
    async with stage.supervisor():
        stage.it.shelf.folder = tmp_path / "outputs"
        await many(stage)
        assert len(stage.it.results) == RECENT
        assert [stage.it.output(f"b{number}") for number in (0, 1, 7)] == [
            "text\n", "line 1 é\nmore\n", "line 7 é\nmore\n",
        ]  # fmt: skip
        page = stage.it.page("b5", 1, 2, lines=True)
        assert (page["text"], page["lines"]) == ("more\n", 2)
        assert [path.name for path in (tmp_path / "outputs").iterdir()] == ["older.txt"]


@jumping
async def test_their_ids_are_still_taken_and_their_names_still_mean_the_latest(stage):
    async with stage.supervisor():
        await many(stage)
        with pytest.raises(ValueError, match="launched before"):
            stage.launch("b0", 'print("again")')
        stage.launch("b0#2", 'print("again")')
        await stage.it.settled()
        assert stage.it.output("b0") == "again\n"
        with pytest.raises(ToolError, match="no block 'b999'"):
            stage.it.output("b999")


@jumping
async def test_others_can_still_name_them_in_after(stage):
    async with stage.supervisor():
        await many(stage, first='fail("ValueError", "no")')
        stage.launch("x", 'print("1")', after=("b1", "b2"))
        stage.launch("y", 'print("1")', after=("b0",))
        await stage.it.settled()
        assert stage.result("x").status == "ok"
        assert stage.result("y").outcome.error == "it did not run: block 'b0', which it waited for, failed"


@jumping
async def test_where_the_disk_is_full_they_stay_in_memory(stage, tmp_path):
    (tmp_path / "outputs").write_text("in the way")
    async with stage.supervisor():
        stage.it.shelf.folder = tmp_path / "outputs"
        await many(stage)
        assert len(stage.it.results) == MANY
        assert stage.it.output("b3") == "line 3 é\nmore\n"
        (tmp_path / "outputs").unlink()
        stage.launch("last", 'print("1")')
        await stage.it.settled()
        assert len(stage.it.results) == RECENT
        assert stage.it.output("b3") == "line 3 é\nmore\n"


@jumping
async def test_one_that_still_runs_stays_until_it_has_ended(stage):
    async with stage.supervisor():
        stage.launch("long", "sleep(1000)")
        async with asyncio.TaskGroup() as group:
            all_of_them = group.create_task(many(stage))
            await asyncio.sleep(10)
            assert [live.id for live in stage.it.live] == ["long"]
            assert not all_of_them.done()
        assert stage.result("long").status == "ok"
