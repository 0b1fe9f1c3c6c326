"""The order that the model asks for with `after`."""

import asyncio

import pytest

from codeact_kernel.events import BlockStarted
from codeact_kernel.testing import jumping


@jumping
async def test_a_block_runs_when_all_before_it_have_ended_well(stage):
    async with stage.supervisor():
        stage.launch("a", "sleep(5)")
        stage.launch("b", "sleep(9)")
        stage.launch("c", "sleep(1)", after=("a", "b"))
        await asyncio.sleep(20)
    assert [stage.at(event) for event in stage.of(BlockStarted, "c")] == [pytest.approx(9)]
    assert stage.result("c").status == "ok"


@jumping
async def test_a_block_after_one_that_ended_long_ago_runs_at_once(stage):
    async with stage.supervisor():
        stage.launch("a", "sleep(5)")
        await asyncio.sleep(100)
        stage.launch("b", "sleep(1)", after=("a",))
        await asyncio.sleep(2)
    assert stage.result("b").status == "ok"


@pytest.mark.parametrize(
    ("code", "attributes", "said"),
    [
        ('fail("ValueError")', {}, "block 'a', which it waited for, failed"),
        ("sleep(60)", {"timeout": 2}, "block 'a', which it waited for, was stopped at its deadline"),
        ('skip("x is missing")', {}, "block 'a', which it waited for, was skipped"),
        ('die("x")', {}, "block 'a', which it waited for, ended with its kernel"),
        ("sleep(1)", {"after": ("nobody",)}, "block 'a', which it waited for, was rejected"),
    ],
)
@jumping
async def test_a_block_is_skipped_when_one_before_it_did_not_end_well(stage, code, attributes, said):
    async with stage.supervisor():
        stage.launch("a", code, **attributes)
        stage.launch("b", "sleep(1)", after=("a",))
        await asyncio.sleep(10)
    assert stage.result("b").status == "skipped"
    assert said in stage.result("b").outcome.error
    assert "b" not in [job.id for job in stage.runner.jobs]


@jumping
async def test_a_block_is_skipped_as_soon_as_one_fails_and_does_not_wait_for_the_others(stage):
    async with stage.supervisor():
        stage.launch("slow", "sleep(500)")
        stage.launch("bad", 'sleep(1)\nfail("ValueError")')
        stage.launch("c", "sleep(1)", after=("slow", "bad"))
        await asyncio.sleep(2)
        assert stage.result("c").status == "skipped"


@jumping
async def test_a_chain_is_skipped_to_its_end_with_the_reason_at_each_link(stage):
    async with stage.supervisor():
        stage.launch("a", "sleep(60)")
        for before, name in zip("abcd", "bcde", strict=True):
            stage.launch(name, "sleep(1)", after=(before,))
        await asyncio.sleep(5)
        stage.it.cancel("a", "by the user")
        await asyncio.sleep(0.1)
    assert [stage.result(name).status for name in "abcde"] == ["cancelled"] + ["skipped"] * 4
    assert "'a', which it waited for, was cancelled" in stage.result("b").outcome.error
    assert "'d', which it waited for, was skipped" in stage.result("e").outcome.error
    assert [job.id for job in stage.runner.jobs] == ["a"]


@jumping
async def test_an_unknown_name_is_rejected_at_once_and_named(stage):
    async with stage.supervisor():
        stage.launch("a", "sleep(50)")
        stage.launch("b", "sleep(1)", after=("a", "dl", "later"))
        stage.launch("later", "sleep(1)")
        await asyncio.sleep(1)
        assert stage.result("b").status == "rejected"
        assert stage.result("b").outcome.error.startswith("after names 'dl', 'later', but no block")


@jumping
async def test_a_block_cannot_wait_for_itself_but_for_the_one_that_had_its_id(stage):
    async with stage.supervisor():
        stage.launch("dl", "sleep(5)", after=("dl",))
        await asyncio.sleep(1)
        stage.launch("dl#2", "sleep(5)")
        stage.launch("dl#3", "sleep(5)", after=("dl",))
        await asyncio.sleep(20)
    assert [stage.result(name).status for name in ("dl", "dl#2", "dl#3")] == ["rejected", "ok", "ok"]
    assert [stage.at(event) for event in stage.of(BlockStarted, "dl#3")] == [pytest.approx(6)]


@jumping
async def test_no_names_means_side_by_side(stage):
    async with stage.supervisor():
        stage.launch("a", "sleep(5)")
        stage.launch("b", "sleep(5)", after=())
        await asyncio.sleep(5.1)
        assert len(stage.it.results) == 2


@jumping
async def test_a_hundred_blocks_in_a_row_all_run(stage):
    async with stage.supervisor():
        stage.launch("b0", "sleep(1)")
        for number in range(1, 100):
            stage.launch(f"b{number}", "sleep(1)", after=(f"b{number - 1}",))
        await asyncio.sleep(101)
        assert [result.status for result in stage.it.results.values()] == ["ok"] * 100
