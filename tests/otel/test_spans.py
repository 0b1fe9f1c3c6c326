"""Runs as spans, as an exporter gets them."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.trace import SpanKind, StatusCode

from codeact_kernel import Agent, events
from codeact_kernel.blocks import AgentBlock, BlockResult, CodeBlock, Outcome, StreamOutput
from codeact_kernel.messages import Usage
from codeact_kernel.otel import OpenTelemetry
from codeact_kernel.testing import ScriptedModel

SECRET = "what nobody else shall read"
BLOCK = CodeBlock(f"print({SECRET!r})", id="dl")
STARTED = events.RunStarted(
    "r1", SECRET, "gpt", SECRET, 1.0, options={"base_url": f"https://user:{SECRET[:4]}@api.example:8443/v1"}
)
USAGE = Usage(100, 60, 7, 1, cost=0.5)


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def observe(exporter):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    def make(**options):
        return OpenTelemetry(provider=provider, **options)

    yield make
    provider.shutdown()


def spans(exporter):
    return {span.name: span for span in exporter.get_finished_spans()}


def tell(observer, *told):
    for event in told:
        observer(event)


def story(stop="answered"):
    failed = BlockResult(
        "dl", BLOCK, Outcome("error", error=SECRET), (StreamOutput("stdout", SECRET),), 3, 4, 5
    )
    return (
        STARTED,
        events.TurnStarted(1, 2.0),
        events.ModelRetry(1, SECRET, 4.0),
        events.BlockQueued(1, "dl", BLOCK, 3.0),
        events.Appended(
            1, events.Reply(1, SECRET, (BLOCK,), usage=USAGE, started=2.0, ended=3.5, finish="stop")
        ),
        events.BlockStarted("dl", "main", 4.0),
        events.ToolCalled("c1", "fetch", "dl", f"url={SECRET!r}"),
        events.ToolReturned("c1", False, 0.1, SECRET),
        events.BlockFinished(failed),
        events.ModelUsed("seer", USAGE),
        events.RunEnded(stop, SECRET if stop == "answered" else None, USAGE + USAGE, 1, 9.0, SECRET),
    )


def test_a_run_is_an_agents_span_over_its_chats_its_blocks_and_their_calls(observe, exporter):
    tell(observe(), *story())
    found = spans(exporter)
    agent = found["invoke_agent codeact"]
    above = {name: span.parent and span.parent.span_id for name, span in found.items()}
    inner, block = agent.context.span_id, found["execute_tool run_code"]
    assert above == {
        "invoke_agent codeact": None,
        "chat gpt": inner,
        "chat seer": inner,
        "execute_tool run_code": inner,
        "execute_tool fetch": block.context.span_id,
    }
    chat = found["chat gpt"]
    assert (chat.kind, agent.kind, block.kind) == (SpanKind.CLIENT, SpanKind.INTERNAL, SpanKind.INTERNAL)
    assert dict(chat.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "codeact.cost": 0.5,
        "server.address": "api.example",
        "server.port": 8443,
    }
    assert (chat.start_time, chat.end_time) == (2_000_000_000, 3_500_000_000)
    assert (block.start_time, block.end_time) == (3_000_000_000, 5_000_000_000)
    assert agent.attributes["gen_ai.usage.input_tokens"] == 200
    assert agent.attributes["gen_ai.conversation.id"] == "r1"
    assert agent.status.status_code is StatusCode.UNSET


def test_what_went_wrong_is_the_status_of_its_span(observe, exporter):
    tell(observe(), *story("limit"))
    kinds = {
        name: span.attributes["error.type"]
        for name, span in spans(exporter).items()
        if span.status.status_code is StatusCode.ERROR
    }
    assert kinds == {
        "invoke_agent codeact": "limit",
        "execute_tool run_code": "error",
        "execute_tool fetch": "tool_error",
    }


def test_no_content_is_told_unless_that_was_asked_for(observe, exporter):
    tell(observe(), *story("limit"))
    assert SECRET[:4] not in "".join(span.to_json() for span in exporter.get_finished_spans())
    exporter.clear()
    tell(observe(capture_content=True), *story())
    found = spans(exporter)
    said = json.loads(found["chat gpt"].attributes["gen_ai.output.messages"])
    assert said == [{"role": "assistant", "parts": [{"type": "text", "content": SECRET}]}]
    assert found["execute_tool run_code"].attributes["gen_ai.tool.call.result"] == SECRET
    assert found["execute_tool run_code"].status.description == SECRET
    assert SECRET in found["execute_tool fetch"].attributes["gen_ai.tool.call.arguments"]
    assert SECRET in found["invoke_agent codeact"].attributes["gen_ai.input.messages"]
    assert SECRET in found["invoke_agent codeact"].attributes["gen_ai.output.messages"]


def test_every_name_is_one_of_the_conventions_or_our_own(observe, exporter):
    tell(observe(capture_content=True), *story("limit"))
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    known |= {"error.type", "server.address", "server.port"}
    used = {name for span in exporter.get_finished_spans() for name in span.attributes}
    assert {name for name in used - known if not name.startswith("codeact.")} == set()


def test_what_is_open_when_a_run_is_broken_off_is_ended_with_it(observe, exporter):
    observer = observe()
    tell(
        observer,
        STARTED,
        events.TurnStarted(1, 2.0),
        events.BlockQueued(1, "dl", BLOCK, 3.0),
        events.ToolCalled("c", "f", "dl", ""),
    )
    tell(observer, events.RunEnded("cancelled", None, Usage(), 1, 9.0))
    found = spans(exporter)
    assert {span.attributes["error.type"] for span in found.values()} == {"cancelled"}
    assert len(found) == 4
    exporter.clear()
    tell(
        observer,
        events.BlockFinished(BlockResult("dl", BLOCK, Outcome())),
        events.ToolReturned("c", True, 0.0),
    )
    tell(
        observer,
        events.RunResumed("r1", 20.0, "gpt"),
        events.RunEnded("answered", "x", Usage(cost=None), 1, 21.0),
    )
    (again,) = exporter.get_finished_spans()
    assert again.attributes["gen_ai.conversation.id"] == "r1"
    assert "codeact.cost" not in again.attributes


def test_a_sub_agents_span_is_its_block_s_also_where_it_never_began(observe, exporter):
    observer = observe()
    inner = AgentBlock("Look.", id="inner", by="dl")
    tell(
        observer, STARTED, events.BlockQueued(1, "dl", BLOCK, 3.0), events.BlockQueued(1, "inner", inner, 3.0)
    )
    below = observer.of_agent("inner")
    tell(below, events.RunStarted("r2", "Look.", "small", "s", 4.0), events.TurnStarted(1, 4.0))
    tell(
        below,
        events.Appended(1, events.Reply(1, "x", usage=USAGE)),
        events.RunEnded("answered", "x", USAGE, 1, 5.0),
    )
    assert "invoke_agent inner" not in spans(exporter)
    tell(observer, events.BlockFinished(BlockResult("inner", inner, Outcome(), (), 3.0, 4.0, 6.0)))
    found = spans(exporter)
    agent = found["invoke_agent inner"]
    assert found["chat small"].parent.span_id == agent.context.span_id
    assert (agent.end_time, agent.attributes["gen_ai.request.model"]) == (6_000_000_000, "small")
    tell(observer, events.BlockQueued(1, "never", AgentBlock("x"), 7.0))
    tell(observer, events.BlockFinished(BlockResult("never", AgentBlock("x"), Outcome("rejected"))))
    assert spans(exporter)["invoke_agent never"].attributes["error.type"] == "rejected"
    tell(observer, events.BlockFinished(BlockResult("dl", BLOCK, Outcome())))
    assert agent.parent.span_id == spans(exporter)["execute_tool run_code"].context.span_id


def test_a_run_is_below_the_callers_own_span(observe, exporter):
    observer = observe()
    tracer = observer._provider.get_tracer("the caller")
    with tracer.start_as_current_span("request"):
        tell(observer, STARTED)
    tell(observer, events.RunEnded("answered", "x", Usage(), 1, 9.0))
    found = spans(exporter)
    assert found["invoke_agent codeact"].parent.span_id == found["request"].context.span_id


@pytest.mark.kernel
async def test_a_real_run_with_a_sub_agent_and_a_tool_is_one_trace(observe, exporter, tmp_path):
    def look(place: str) -> str:
        """Look."""
        return place

    replies = [
        '<run_agent name="scout" namespace="look">\nLook.\n</run_agent>',
        '<run_code id="in">\nprint(look("x"))\n</run_code>',
        "Found.",
        "Done.",
    ]
    async with Agent(
        ScriptedModel(replies), tools=[look], observers=[observe()], workspace=tmp_path, run_dir=False
    ) as agent:
        run = await agent.run("Go.")
    assert run.answer == "Done."
    found = exporter.get_finished_spans()
    names = {span.context.span_id: span.name for span in found}
    tree = sorted((span.parent and names[span.parent.span_id], span.name) for span in found if span.parent)
    model = ScriptedModel([]).name
    assert tree == sorted(
        [
            ("invoke_agent codeact", f"chat {model}"),
            ("invoke_agent codeact", f"chat {model}"),
            ("invoke_agent codeact", "invoke_agent scout"),
            ("invoke_agent scout", f"chat {model}"),
            ("invoke_agent scout", f"chat {model}"),
            ("invoke_agent scout", "execute_tool run_code"),
            ("execute_tool run_code", "execute_tool look"),
        ]
    )
    assert len({span.context.trace_id for span in found}) == 1
