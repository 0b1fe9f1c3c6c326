"""Puts an agent together: the one place where the stations meet.

Comes in: options. Goes out: `Parts`, alive inside the given exit stack.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeact_kernel.agent.asker import Asker
from codeact_kernel.agent.checking import Checks
from codeact_kernel.agent.config import Settings
from codeact_kernel.agent.context import Context
from codeact_kernel.agent.delegation import Delegation
from codeact_kernel.agent.gating import make_gate
from codeact_kernel.agent.goal import Goal
from codeact_kernel.agent.history import History
from codeact_kernel.agent.hooks import HookChain
from codeact_kernel.agent.housing import house
from codeact_kernel.agent.inbox import Inbox
from codeact_kernel.agent.kin import Kin, Tree
from codeact_kernel.agent.launcher import Launcher
from codeact_kernel.agent.limiting import budget_for_code
from codeact_kernel.agent.loop import Loop
from codeact_kernel.agent.models import Models
from codeact_kernel.agent.options import Options
from codeact_kernel.agent.planning import Plan, plan
from codeact_kernel.agent.prompting import write_prompt
from codeact_kernel.agent.recorded.following import Following, follow
from codeact_kernel.agent.remembering import remembered
from codeact_kernel.agent.reporting import Reporter
from codeact_kernel.agent.rundir import make_runs
from codeact_kernel.agent.seeing import open_vision
from codeact_kernel.agent.serving import answering, in_the_loop, make_server, own_methods
from codeact_kernel.agent.spending import counter_of
from codeact_kernel.agent.subagents import Subagents
from codeact_kernel.agent.survey import Survey
from codeact_kernel.agent.wakeups import WakeUps
from codeact_kernel.agent.workspace import seed_files
from codeact_kernel.allowance import ANY_HOST, Allowance
from codeact_kernel.blocks import AgentBlock, CodeBlock
from codeact_kernel.dialogue import codec
from codeact_kernel.errors import ConfigError
from codeact_kernel.events import BlockFinished, Event, HostReached, KernelEnded, KernelLeased
from codeact_kernel.kernels import (
    Checkpoints,
    Kernel,
    KernelRunner,
    KernelSettings,
    KernelSource,
    Leased,
    Sandbox,
    compiles,
    describe_sandbox,
    kept_parents,
    name_sandbox,
    sandbox_for_model,
)
from codeact_kernel.masking import Mask
from codeact_kernel.policy import Audit, Doors, Limits
from codeact_kernel.protocols import Model, Runner
from codeact_kernel.runfiles import Folder
from codeact_kernel.supervisor import Supervisor, SupervisorSettings
from codeact_kernel.tools import Catalogue
from codeact_kernel.transcript import Transcript

if TYPE_CHECKING:
    from codeact_kernel.agent.agent import Agent

Emit = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Relations:
    """What an agent has to do with others."""

    kin: Kin | None
    """Its place; None for a root."""
    spawn: Callable[[Options, Kin], Agent]
    """Makes an agent of options, at a place."""
    folder: Callable[[], Folder | None]
    """Where its record is, open."""
    tell: Callable[[str, str], None]
    """Lets its model know something: (text, sender)."""
    turn: Callable[[], int]
    """The number of the turn that goes on."""
    mask: Mask
    """Knows the secrets that are told to nobody."""
    audit: Audit
    """Takes what is done."""
    leased: Leased | None = None
    """Where a kernel may be that it has left in another process; a root's."""


@dataclass(frozen=True, slots=True)
class Parts:
    """An agent's parts."""

    kin: Kin
    settings: Settings
    limits: Limits
    """What each run may use."""
    workspace: Path
    model: Model
    kernel: Kernel
    sandbox: str
    """What the kernel is walled in by, in a word."""
    about_sandbox: str
    """What that does not hold, in words."""
    runner: KernelRunner
    supervisor: Supervisor
    context: Context
    goal: Goal
    wake_ups: WakeUps
    loop: Loop
    delegation: Delegation
    mode: str
    """How what is asked is decided, where no rule does."""
    remembered: dict[str, Any]
    """What of the options a resume goes by."""
    following: Following | None
    """What keeps it beside the record that it replays; it has to hear of events."""


async def assemble(
    options: Options,
    stack: AsyncExitStack,
    inbox: Inbox,
    transcript: Transcript,
    emit: Emit,
    remind: Callable[[str], None],
    relations: Relations,
) -> Parts:
    """Start an agent's parts.

    Args:
        options: What the caller wants.
        stack: Ends them.
        inbox: Where the loop waits.
        transcript: What the context is read from.
        emit: Gets every event.
        remind: Lets the model know something.
        relations: What it has to do with other agents.

    Returns:
        The parts, running.

    Raises:
        ConfigError: If something of the options is wrong.
        KernelError: If the kernel does not start.
    """
    mask = relations.mask
    wanted = plan(options, relations.folder, mask)
    settings = wanted.settings
    kin = relations.kin or await _root(options, wanted, stack, relations)
    if kin.depth == 0:  # the others' are the root's
        for of_set in wanted.sets:
            stack.push_async_callback(of_set.aclose)
    models = Models(options, settings, emit, mask, lambda: kin.tree.budget)
    model, model_settings = models.model, models.settings
    stack.push_async_callback(models.aclose)
    following = follow(models, str(wanted.workspace), emit)
    hooks = HookChain([*options.hooks, *([] if following is None else [following])])
    vision, seer = open_vision(options, wanted.blind, models, emit)
    wanted = replace(wanted, blind=vision.blind)
    seed_files(wanted.workspace, options.files)

    methods: dict[str, Callable[..., Any]] = {}
    # Where there is no model that sees, the tool says so; and a caller's own one may have its name.
    tools = {vision.tool.name: vision.tool} | wanted.tools
    catalogue = Catalogue(tools, wanted.sets)
    methods |= catalogue.methods  # what is seeded may need them
    audited = relations.audit.settled
    doors = Doors(kin.tree.gate, kin.name, emit, lambda block_id: supervisor.standing(block_id))
    server = make_server(catalogue, methods, options, settings, hooks, kin.tree.calls, emit, doors, audited)
    serve = answering(server, lambda: runner, mask, kin.tree.workshop)
    described = catalogue.describe_all()
    who, kernel_settings = (kin.number, kin.name), wanted_kernel(options, wanted, kin.tree.sandbox)
    if kin.depth == 0:
        if options.run_dir in (None, True):
            make_runs(wanted.workspace)
        kernel_settings = replace(kernel_settings, lease=wanted.lease)
        source = kin.tree.source
        kernel = Kernel(
            kernel_settings, serve, described, remind, who, begin=source.begin, together=source.together
        )
        await kernel.start(kin.tree.launch, relations.leased)
        kernel.on_leased = lambda leased: emit(KernelLeased(**asdict(leased)))
    else:
        kernel = await kin.tree.source.take(kernel_settings, serve, described, remind, who)
    size, is_root = settings.checkpoint_size, kin.depth == 0
    kernel.keep_checkpoints(Checkpoints(relations.folder, size, kin.allowance, at_end=is_root, mask=mask))
    kernel.on_death = lambda death: emit(KernelEnded(death.message, death.returncode, time.time()))
    kernel.on_reached = lambda host, port, why: emit(HostReached(host, port, why, time.time()))
    runner = KernelRunner(await stack.enter_async_context(kernel))
    if not kernel.ours and (options.tools or options.vision is not None):
        raise ConfigError(f"tools cannot be called from this kernel: {kernel.note}")
    if kernel.lived_on is None or kernel.lived_on.fault:
        await kernel.seed(dict(options.namespace))
    if kin.parcel is not None:
        await kernel.seed_parcel(kin.parcel, kin.names)

    agents = Subagents(options, wanted, kin, runner, models, seer, relations)
    runners: dict[type[CodeBlock] | type[AgentBlock], Runner] = {CodeBlock: runner, AgentBlock: agents}

    def told(event: Event) -> None:
        emit(event)
        if isinstance(event, BlockFinished):
            runner.keep(event.result.id)

    supervising = SupervisorSettings(default_timeout=settings.block_timeout)
    supervisor = await stack.enter_async_context(
        Supervisor(runners, told, settings=supervising, mask=mask, admit=doors.block)
    )
    # Small models write blocks reliably only when they have seen some.
    is_small = model_settings is not None and model_settings.kind == "local"
    talk = codec(wanted.protocol, agents=kernel.ours and kin.may_delegate, examples=is_small)
    walls = kin.tree.sandbox, kin.tree.launch.provisioner
    system = write_prompt(options, wanted, kernel, kin, sandbox_for_model(*walls))
    counter, folder = counter_of(model, model_settings), relations.folder
    wake_ups = WakeUps(transcript, inbox, emit)
    checks = Checks(wanted.workspace, (*settings.env, *options.env), kin.tree.workshop)
    goal = Goal(transcript, checks, emit, counter.count, limit=settings.result_tokens, handles=kernel.ours)
    survey = Survey(
        supervisor,
        kernel,
        wanted.workspace,
        lambda: _path(folder()),
        more=lambda: (*goal.lines, *wake_ups.lines),
    )
    context = Context(
        transcript,
        talk,
        system,
        counter,
        window=lambda: model.window,
        threshold=settings.reminder_tokens,
        survey=survey,
    )
    history = History(transcript, lambda: supervisor.shelf.place("history"))
    launcher = Launcher(
        supervisor,
        hooks,
        emit,
        free=inbox.free,
        agents=kernel.ours and kin.may_delegate,
        used=transcript.blocks,
        take_back=wake_ups.take_back,
    )
    asker = Asker(model, talk, launcher, hooks, emit, compiles)
    reporter = Reporter(
        supervisor,
        context,
        hooks,
        asker.remarks,
        result_tokens=settings.result_tokens,
        handles=kernel.ours,
        handle_of_note=lambda text: history.handle_of(mask.text(text)),
    )
    loop = Loop(
        asker,
        context,
        supervisor,
        inbox,
        hooks,
        emit,
        reporter,
        goal,
        wake_ups,
        answer_type=wanted.answer_type,
        turn=transcript.last_turn,
    )
    delegation = Delegation(kin, agents, supervisor, launcher, relations.turn)
    kin.tree.homes[kin.number] = delegation
    stack.callback(kin.tree.homes.pop, kin.number)
    methods |= delegation.methods | own_methods(supervisor, kernel, context, history, goal, wake_ups)
    methods["self.budget"] = in_the_loop(lambda: budget_for_code(kin.tree))
    return Parts(
        kin,
        settings,
        wanted.limits,
        wanted.workspace,
        model,
        kernel,
        name_sandbox(*walls),
        describe_sandbox(*walls),
        runner,
        supervisor,
        context,
        goal,
        wake_ups,
        loop,
        delegation,
        kin.tree.gate.mode,
        remembered(options, wanted),
        following,
    )


def _path(folder: Folder | None) -> Path | None:
    return None if folder is None else folder.path


def wanted_kernel(options: Options, wanted: Plan, sandbox: Sandbox | None) -> KernelSettings:
    """The kernel that is wanted.

    Args:
        options: What the caller wants.
        wanted: What of it is settled.
        sandbox: What it is walled in by; None for nothing.
    """
    return KernelSettings(
        kernel=options.kernel,
        python=options.python,
        cwd=wanted.workspace,
        preload=wanted.settings.preload,
        env=(*wanted.settings.env, *options.env),
        max_memory=wanted.max_memory,
        max_result=wanted.settings.max_result,
        sandbox=sandbox,
    )


async def _root(options: Options, wanted: Plan, stack: AsyncExitStack, relations: Relations) -> Kin:
    settings, (launch, sandbox) = wanted.settings, await house(options, wanted)
    source = await stack.enter_async_context(KernelSource(settings.ready_kernels, kept_parents()))
    limits = settings.max_agents, settings.max_agent_depth
    gate = make_gate(options, settings, wanted.workspace)
    tree = Tree(*limits, source, launch, sandbox, gate, relations.mask, relations.audit)
    stack.callback(tree.close)
    tools = frozenset([*wanted.tools, *(of_set.name for of_set in wanted.sets)])
    allowance = Allowance(
        sandbox=name_sandbox(sandbox, launch.provisioner),
        workspace=str(wanted.workspace),
        network=_network(None if launch.provisioner else sandbox),
        tools=tools,
    )
    lacks = () if options.returns_objects else ("the user's trust in its objects",)
    return Kin(tree, tree.number(), allowance=allowance, hand_back=options.returns, lacks=lacks)


def _network(sandbox: Sandbox | None) -> frozenset[str]:
    """The hosts that code behind a sandbox reaches."""
    if sandbox is None or sandbox.mode == "limits" or sandbox.settings.allow_net:
        return frozenset((ANY_HOST,))
    return frozenset(sandbox.settings.allow_hosts)
