"""A supervisor over a kernel, for tests of what becomes of blocks; and kernels behind walls."""

from __future__ import annotations

import asyncio
import os
import sys
import time

import pytest

from codeact_kernel.blocks import CodeBlock, Job
from codeact_kernel.errors import ConfigError
from codeact_kernel.events import BlockOutput
from codeact_kernel.kernels import (
    Kernel,
    KernelSettings,
    KernelSource,
    SandboxSettings,
    choose,
    choose_sandbox,
)
from codeact_kernel.kernels.process import environment_of
from codeact_kernel.supervisor import Supervisor

FORKED_TOO = {
    f"test_{name}"
    for name in (
        "a_block_that_swallows_interrupts_is_ended_and_everything_else_stays",
        "a_death_is_told_to_every_block_with_its_cause_and_the_lost_names",
        "a_forked_child_that_leaves_the_block_ends_and_is_no_second_kernel",
        "a_hog_in_a_worker_costs_the_kernel_and_the_block_beside_it_is_told_why",
        "a_hog_of_the_interpreter_on_main_ends_by_a_signal_and_the_names_stay",
        "a_kernel_that_is_stopped_does_not_answer_and_is_replaced",
        "a_signal_of_the_host_means_the_request_that_it_notes_and_no_other",
        "alone_what_nothing_ends_costs_the_kernel_and_the_names_are_told",
        "an_await_that_swallows_its_cancellation_gets_no_further_step",
        "an_interrupt_ends_the_block_it_names_and_no_other",
        "an_interrupt_while_a_child_is_being_started_ends_the_block",
        "beside_others_what_nothing_ends_is_cut_off_and_named",
        "blocks_run_in_the_workspace",
        "every_way_to_start_a_child_brings_its_output_back_to_its_block",
        "interrupts_at_random_instants_leave_every_block_with_one_end",
        "no_key_of_the_host_reaches_the_kernel",
        "output_of_c_code_belongs_to_the_only_live_block",
        "pools_of_processes_work_and_print_in_their_blocks",
        "processes_in_sessions_of_their_own_end_with_the_block_and_are_named",
        "the_next_block_runs_in_a_fresh_kernel_and_says_what_is_gone",
        "the_whole_tree_of_a_block_is_found_and_ended_and_no_other",
        "values_functions_and_classes_are_seeded",
    )
}
"""Tests that hold for a kernel however it came to be: run with a spawned one and with a forked one."""

HEAD = "import asyncio, os, queue, select, signal, socket, subprocess, sys, threading, time\n"


def pytest_generate_tests(metafunc):
    if metafunc.function.__name__ in FORKED_TOO and sys.platform == "linux":
        metafunc.parametrize("open_bench", ["spawned", "forked"], indirect=True)


class Stage:
    """A supervisor over a real kernel."""

    def __init__(self, bench):
        self.bench = bench
        self.events = []
        self.supervisor = Supervisor({CodeBlock: bench.runner}, self._take)
        self._heard = asyncio.Event()
        self._count = 0

    def _take(self, event):
        self.events.append(event)
        self._heard.set()

    def launch(self, name, code, **attributes):
        self._count += 1
        self.supervisor.launch(
            Job(name, CodeBlock(HEAD + code, id=name, **attributes), self._count), self._count
        )

    async def until(self, found):
        async with asyncio.timeout(30):
            while not (value := found()):
                self._heard.clear()
                await self._heard.wait()
        return value

    async def spoke(self, name):
        await self.until(lambda: [e for e in self.events if isinstance(e, BlockOutput) and e.id == name])

    async def result(self, name):
        return await self.until(lambda: self.supervisor.results.get(name))

    async def run(self, name, code, **attributes):
        self.launch(name, code, **attributes)
        return await self.result(name)

    async def cancel(self, name):
        """Cancel a block that has spoken; returns its result and the seconds that it took."""
        await self.spoke(name)
        begun = time.monotonic()
        assert self.supervisor.cancel(name, "by the test")
        return await self.result(name), time.monotonic() - begun


@pytest.fixture
async def stage(bench):
    stage = Stage(bench)
    async with stage.supervisor:
        yield stage


@pytest.fixture
def passed_over():
    """Ends a test that cannot be had on this machine; where all of them must be, it fails."""

    def end(why):
        if os.environ.get("CODEACT_NEED_SANDBOX"):
            pytest.fail(f"passed over: {why}")
        pytest.skip(why)

    return end


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
async def open_walled(workspace, bench_of, passed_over, warm):
    """Starts a kernel in a mode; it lives as long as the test."""
    async with KernelSource(0, warm) as source:
        kernels = []

        async def start(mode, way="spawned", serve=None, tools=None, **wanted):
            launch = await choose()
            env = environment_of(launch, KernelSettings())
            try:
                sandbox = await choose_sandbox(
                    SandboxSettings(mode, **wanted), launch, workspace.resolve(), env
                )
            except ConfigError as error:
                passed_over(str(error))
            settings = KernelSettings(cwd=workspace, sandbox=sandbox)
            if way == "forked":
                kernel = await source.take(settings, serve, tools)
            else:
                kernel = Kernel(settings, serve, tools)
                await kernel.start(launch)
            kernels.append(kernel)
            return bench_of(kernel)

        yield start
        for kernel in kernels:
            await kernel.__aexit__(None, None, None)
