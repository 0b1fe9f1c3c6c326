"""What an agent does, as spans.

Comes in: the events of an agent and of those below it. Goes out: spans: `invoke_agent` for a run and for each
sub-agent, `chat` for each question to the model, `execute_tool` for each block and each call of a tool. What people,
models and blocks wrote is in them only where that was asked for.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from codeact_kernel._version import __version__
from codeact_kernel.blocks import AgentBlock, BlockResult, StreamOutput
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    BlockQueued,
    BlockStarted,
    Event,
    ModelRetry,
    ModelUsed,
    Reply,
    RunEnded,
    RunResumed,
    RunStarted,
    ToolCalled,
    ToolReturned,
    TurnStarted,
)
from codeact_kernel.otel.attributes import AGENT, of_messages, of_server, of_tool, of_usage


class OpenTelemetry:
    """An `Observer` that makes spans; give it to one agent, and those below it have their own.

    Args:
        capture_content: Whether tasks, replies, code, arguments, outputs and errors go into the spans. They may hold
            anything that a person or a page wrote.
        provider: Takes the spans; None for the global one.
        provider_name: What answers, in a word of the conventions (`gen_ai.provider.name`).
    """

    def __init__(
        self,
        *,
        capture_content: bool = False,
        provider: Any = None,
        provider_name: str = "openai",
    ) -> None:
        self._content = capture_content
        self._provider = provider
        self._provider_name = provider_name
        self._tracer = trace.get_tracer("codeact_kernel", __version__, provider)
        self._given: Span | None = None
        """A sub-agent's span, which its parent begins and ends."""
        self._agent: Span | None = None
        self._chat: Span | None = None
        self._asked: dict[str, Any] = {}
        """What is known of the model and its endpoint, as attributes."""
        self._blocks: dict[str, Span] = {}
        self._calls: dict[str, Span] = {}

    def of_agent(self, name: str) -> OpenTelemetry:
        """As in `TreeObserver`."""
        below = OpenTelemetry(
            capture_content=self._content, provider=self._provider, provider_name=self._provider_name
        )
        below._given = self._blocks.get(name)
        return below

    def close(self) -> None:
        """Let the provider send what it has not sent yet; it takes no more then."""
        if self._provider is not None:
            self._provider.shutdown()

    def __call__(self, event: Event) -> None:
        """Take an event."""
        match event:
            case RunStarted() | RunResumed():
                self._begin(event)
            case TurnStarted():
                self._end_chat("abandoned")
                self._chat = self._span(f"chat {self._model}", SpanKind.CLIENT, event.at, self._asked)
                self._chat.set_attribute("gen_ai.operation.name", "chat")
            case ModelRetry() if self._chat is not None:
                reason = event.reason if self._content else ""
                self._chat.add_event("codeact.retry", {"codeact.wait": event.wait, "codeact.reason": reason})
            case Appended(entry=Reply() as reply):
                self._answered(reply)
            case ModelUsed():
                self._used(event)
            case BlockQueued():
                self._queued(event)
            case BlockStarted() if event.id in self._blocks:
                self._blocks[event.id].add_event(
                    "codeact.started", {"codeact.lane": event.lane}, _ns(event.at)
                )
            case BlockFinished():
                self._finished(event.result)
            case ToolCalled():
                self._called(event)
            case ToolReturned():
                if (span := self._calls.pop(event.call_id, None)) is not None:
                    self._close(span, None if event.ok else "tool_error", event.error)
            case RunEnded():
                self._end(event)
            case _:
                pass

    # -- the agent -----------------------------------------------------------------------------------------

    def _begin(self, event: RunStarted | RunResumed) -> None:
        self._asked = {
            "gen_ai.provider.name": self._provider_name,
            "gen_ai.request.model": event.model,
            **of_server(event.options),
        }
        if self._given is None:
            self._agent = self._span(f"invoke_agent {AGENT}", SpanKind.INTERNAL, event.at, {})
            self._agent.set_attribute("gen_ai.agent.name", AGENT)
        else:
            self._agent = self._given
        about = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": event.run_id}
        self._agent.set_attributes(self._asked | about)
        if self._content and isinstance(event, RunStarted):
            self._agent.set_attribute("gen_ai.input.messages", of_messages("user", event.task))

    def _end(self, event: RunEnded) -> None:
        why = None if event.stop == "answered" else event.stop
        self._end_chat(event.stop)
        for span in (*self._calls.values(), *self._blocks.values()):
            self._close(span, event.stop)
        self._calls.clear()
        self._blocks.clear()
        agent, self._agent = self._agent, None
        if agent is None:
            return
        agent.set_attributes(of_usage(event.usage) | {"codeact.turns": event.turns})
        if self._content and event.answer is not None:
            agent.set_attribute("gen_ai.output.messages", of_messages("assistant", event.answer))
        self._close(agent, why, event.message, event.at, ends=self._given is None)

    # -- the model -----------------------------------------------------------------------------------------

    @property
    def _model(self) -> str:
        return str(self._asked.get("gen_ai.request.model", ""))

    def _answered(self, reply: Reply) -> None:
        chat, self._chat = self._chat, None
        if chat is None:
            return
        chat.set_attributes(of_usage(reply.usage))
        if reply.finish is not None:
            chat.set_attribute("gen_ai.response.finish_reasons", [reply.finish])
        if self._content:
            chat.set_attribute("gen_ai.output.messages", of_messages("assistant", reply.text))
        self._close(chat, None, at=reply.ended)

    def _used(self, event: ModelUsed) -> None:
        """Tell a question beside the turns (a tool's, a compaction's), of which only the end is known."""
        about = {"gen_ai.operation.name": "chat", "gen_ai.request.model": event.model}
        now = time.time()
        attributes = self._asked | about | of_usage(event.usage)
        self._close(self._span(f"chat {event.model}", SpanKind.CLIENT, now, attributes), None, at=now)

    def _end_chat(self, why: str) -> None:
        """The model was asked, and there is no reply."""
        chat, self._chat = self._chat, None
        if chat is not None:
            self._close(chat, why)

    # -- blocks and tools ----------------------------------------------------------------------------------

    def _queued(self, event: BlockQueued) -> None:
        block = event.block
        if isinstance(block, AgentBlock):
            name, about = f"invoke_agent {event.id}", {"gen_ai.agent.name": event.id}
            parent = self._blocks.get(block.by or "")
            span = self._span(name, SpanKind.INTERNAL, event.at, about, parent)
            span.set_attribute("gen_ai.operation.name", "invoke_agent")
        else:
            about = of_tool("run_code", event.id, block.code if self._content else None)
            span = self._span("execute_tool run_code", SpanKind.INTERNAL, event.at, about)
        self._blocks[event.id] = span

    def _finished(self, result: BlockResult) -> None:
        span = self._blocks.pop(result.id, None)
        if span is None:
            return
        if self._content and not isinstance(result.block, AgentBlock):
            said = "".join(output.text for output in result.outputs if isinstance(output, StreamOutput))
            span.set_attribute("gen_ai.tool.call.result", said)
        why = None if result.status == "ok" else result.status
        self._close(span, why, result.outcome.error or "", result.ended)

    def _called(self, event: ToolCalled) -> None:
        about = of_tool(event.name, event.call_id, event.arguments if self._content else None)
        parent = self._blocks.get(event.block_id or "")
        name = f"execute_tool {event.name}"
        self._calls[event.call_id] = self._span(name, SpanKind.INTERNAL, time.time(), about, parent)

    # -- spans ---------------------------------------------------------------------------------------------

    def _span(
        self, name: str, kind: SpanKind, at: float, attributes: Mapping[str, Any], parent: Span | None = None
    ) -> Span:
        """Begin a span below another one, else below the agent's, else below the caller's own."""
        above = parent or self._agent
        context = None if above is None else trace.set_span_in_context(above)
        return self._tracer.start_span(
            name, context, kind=kind, attributes=dict(attributes), start_time=_ns(at)
        )

    def _close(
        self, span: Span, why: str | None, message: str = "", at: float | None = None, *, ends: bool = True
    ) -> None:
        """End a span.

        Args:
            span: The span.
            why: The kind of its error; None for none.
            message: What the error says, told where content is.
            at: When it ended; None for now.
            ends: Whether it ends; else somebody else ends it.
        """
        if why is not None:
            span.set_attribute("error.type", why)
            span.set_status(Status(StatusCode.ERROR, message if self._content else None))
        if ends:
            span.end(_ns(time.time() if at is None else at))


def _ns(at: float) -> int:
    return int(at * 1e9)
