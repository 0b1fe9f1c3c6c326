"""Puts an agent together: the one place where the stations meet.

Comes in: options. Goes out: `Parts`, alive inside the given exit stack.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from codeact_kernel.agent.answer import AnswerType
from codeact_kernel.agent.asker import Asker
from codeact_kernel.agent.config import PROTOCOLS, Settings, load_settings
from codeact_kernel.agent.context import Context
from codeact_kernel.agent.hooks import HookChain
from codeact_kernel.agent.inbox import Inbox
from codeact_kernel.agent.launcher import Launcher
from codeact_kernel.agent.loop import Loop
from codeact_kernel.agent.options import Options, Person
from codeact_kernel.agent.prompting import surroundings
from codeact_kernel.agent.workspace import seed_files
from codeact_kernel.blocks import AgentBlock, CodeBlock
from codeact_kernel.context import Counter
from codeact_kernel.dialogue import codec, system_prompt
from codeact_kernel.errors import ConfigError
from codeact_kernel.events import Event, ModelRetry
from codeact_kernel.kernels import Kernel, KernelRunner, KernelSettings, compiles
from codeact_kernel.model import ModelSettings, open_model, resolve
from codeact_kernel.model.catalogue import VOCABULARY_FOLDER
from codeact_kernel.model.weights import models_dir
from codeact_kernel.protocols import Model, Runner
from codeact_kernel.supervisor import Supervisor, SupervisorSettings
from codeact_kernel.tools import Tool, ToolServer, as_tools, load_tools
from codeact_kernel.transcript import Transcript

Emit = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Parts:
    """An agent's parts."""

    settings: Settings
    workspace: Path
    model: Model
    kernel: Kernel
    supervisor: Supervisor
    context: Context
    loop: Loop


@dataclass(frozen=True, slots=True)
class Plan:
    """What is settled before anything is started."""

    settings: Settings
    protocol: str
    workspace: Path
    tools: dict[str, Tool]
    answer_type: AnswerType | None


def plan(options: Options) -> Plan:
    """Settle and check what can be checked without starting anything.

    Args:
        options: What the caller wants.

    Raises:
        ConfigError: If something of it is wrong.
    """
    workspace = Path(options.workspace).expanduser()
    if not workspace.is_dir():
        raise ConfigError(f"the workspace {workspace} is no folder")
    settings = options.settings if options.settings is not None else load_settings(workspace)
    protocol = options.protocol or settings.protocol
    if protocol not in PROTOCOLS:
        raise ConfigError(f"{protocol!r} is no protocol; it is one of {', '.join(PROTOCOLS)}")
    functions = [*options.tools]
    for source in settings.tools:
        functions += load_tools(source if not source.endswith(".py") else str(workspace / source))
    if options.person is not None:
        functions.append(_ask_person(options.person))
    answer_type = AnswerType(options.output_type) if options.output_type is not None else None
    return Plan(settings, protocol, workspace.resolve(), as_tools(functions), answer_type)


async def assemble(
    options: Options, stack: AsyncExitStack, inbox: Inbox, transcript: Transcript, emit: Emit
) -> Parts:
    """Start an agent's parts.

    Args:
        options: What the caller wants.
        stack: Ends them.
        inbox: Where the loop waits.
        transcript: What the context is read from.
        emit: Gets every event.

    Returns:
        The parts, running.

    Raises:
        ConfigError: If something of the options is wrong.
        KernelError: If the kernel does not start.
    """
    wanted = plan(options)
    settings, hooks = wanted.settings, HookChain(options.hooks)
    model, model_settings = _open_model(options, settings, emit)
    stack.push_async_callback(model.aclose)
    seed_files(wanted.workspace, options.files)

    methods: dict[str, Callable[..., Any]] = {}
    server = ToolServer(wanted.tools, methods, emit, hooks.before_tool_call, hooks.after_tool_call)

    async def serve(name: str, args: Sequence[Any], kwargs: dict[str, Any], msg_id: str | None) -> Any:
        return await server.call(name, args, kwargs, runner.block_of(msg_id))

    described = [tool.describe() for tool in wanted.tools.values()]
    kernel = Kernel(_kernel_settings(options, wanted), serve, described)
    runner = KernelRunner(kernel)
    await stack.enter_async_context(kernel)
    if not kernel.ours and options.tools:
        raise ConfigError(f"tools cannot be called from this kernel: {kernel.note}")
    await kernel.seed(dict(options.namespace))

    runners: dict[type[CodeBlock] | type[AgentBlock], Runner] = {CodeBlock: runner}
    supervising = SupervisorSettings(default_timeout=settings.block_timeout)
    supervisor = await stack.enter_async_context(Supervisor(runners, emit, settings=supervising))
    # Small models write blocks reliably only when they have seen some.
    talk = codec(wanted.protocol, examples=model_settings is not None and model_settings.kind == "local")
    system = write_prompt(options, wanted, kernel)
    context = Context(
        transcript,
        talk,
        system,
        _counter(model, model_settings),
        window=lambda: model.window,
        threshold=settings.reminder_tokens,
        supervisor=supervisor,
        names=lambda: kernel.names,
        wall=time.time,
    )
    launcher = Launcher(supervisor, hooks, emit, free=inbox.free)
    asker = Asker(model, talk, launcher, hooks, emit, compiles)
    loop = Loop(
        asker,
        context,
        supervisor,
        inbox,
        hooks,
        emit,
        result_tokens=settings.result_tokens,
        answer_type=wanted.answer_type,
        handles=kernel.ours,
    )
    methods |= {
        "self.output": _in_the_loop(supervisor.page),
        "self.cancel": lambda id: supervisor.cancel(id, "you cancelled it"),
        "self.compact_knowledge": context.compact,
    }
    return Parts(settings, wanted.workspace, model, kernel, supervisor, context, loop)


class Described(Protocol):
    """A kernel as far as the prompt tells of it: one that runs, or one that could be started."""

    @property
    def description(self) -> str:
        """What it is, in words."""

    @property
    def ours(self) -> bool:
        """Whether it runs blocks side by side."""


def write_prompt(options: Options, wanted: Plan, kernel: Described) -> str | None:
    """Write the system prompt of an agent.

    Args:
        options: What the caller wants.
        wanted: What was settled.
        kernel: The kernel, or how it would be started (`kernels.choose`).

    Returns:
        The prompt, or None where the caller wants none.
    """
    if options.system is False:
        return None
    more = wanted.answer_type.instruction if wanted.answer_type else ""
    if isinstance(options.system, str):
        return "\n\n".join(filter(None, [options.system, more]))
    around = surroundings(
        tools=wanted.tools.values() if kernel.ours else (),
        names=options.namespace,
        kernel=kernel.description,
        ours=kernel.ours,
        workspace=wanted.workspace,
        timeout=wanted.settings.block_timeout,
        more=more,
    )
    return system_prompt(around, wanted.protocol)  # type: ignore[arg-type]


def _open_model(options: Options, settings: Settings, emit: Emit) -> tuple[Model, ModelSettings | None]:
    if options.model is not None and not isinstance(options.model, str):
        return options.model, None
    resolved = resolve(options.model, settings.models, options.base_url, default=settings.model)
    return open_model(resolved, lambda reason, wait: emit(ModelRetry(0, reason, wait))), resolved


def _counter(model: Model, settings: ModelSettings | None) -> Counter:
    encoding = settings.encoding if settings else None
    return Counter(model.name, encoding, models_dir() / VOCABULARY_FOLDER)


def _kernel_settings(options: Options, wanted: Plan) -> KernelSettings:
    return KernelSettings(
        kernel=options.kernel,
        python=options.python,
        cwd=wanted.workspace,
        env=(*wanted.settings.env, *options.env),
    )


def _in_the_loop(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that is quick and reads what the loop writes: no thread may run it."""

    async def call(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    return call


def _ask_person(person: Person) -> Callable[..., Any]:
    async def ask_person(question: str) -> str:
        """Ask the person you work for, and wait for the answer."""
        if inspect.iscoroutinefunction(person):
            return str(await person(question))
        return str(await asyncio.to_thread(person, question))

    return ask_person
