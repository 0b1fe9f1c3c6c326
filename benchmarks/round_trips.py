"""Model calls and tokens of three tasks, done by JSON tool calls and by blocks.

The headings of 200 Markdown files are counted; the largest of 1,000 orders are found, whose prices a second tool knows;
a long transcript is copied from one tool to another. Both sides have the same tools and the same words of the task, and
send their whole context with every call; tiktoken (o200k_base, `codeact model fetch vocabularies`) counts all of it:
prompts, schemas, calls, results. Nobody thinks here: the replies are written beforehand, by who knows the way. Both
sides must come to the right answer.

Blocks: the real `Agent`, with its real prompt and a real kernel. In two of the tasks its first block only looks at what
the tools return, as a model would have to.

JSON calls: each is a call of the endpoint's own tool calling, and its result comes back as compact JSON. Once each
reply makes one call; once it makes all whose arguments can be known by then, the most that parallel calls can do. This
is given for nothing: that thousands of numbers are counted, multiplied and sorted without a word, that the window holds
all of it, and that the system prompt is two sentences.

A provider's prompt cache makes some of the tokens in cheaper, not fewer: it is not counted on either side.

Published, and printed beside it: 150,000 -> 2,000 tokens in Anthropic's "Code execution with MCP" (2025-11-04), for a
document that goes from Google Drive into Salesforce; 6,890 -> 2,489 tokens, and half the time, in Microsoft's "CodeAct
in Agent Framework" (2026-04-23), for the orders of eight users over five tools. Half the round trips is what is
commonly said.
"""

from __future__ import annotations

import asyncio
import json
import tempfile

from accounts import SYSTEM, Conversation, Cost, open_counter, schemas
from chores import Task, World, copying, headings, orders

from codeact_kernel import Agent
from codeact_kernel.context import Counter
from codeact_kernel.messages import Message, ModelRequest, ToolCall
from codeact_kernel.testing import ScriptedModel

PUBLISHED = [
    ("Anthropic, code execution with MCP", 150_000, 2_000),
    ("Microsoft, CodeAct in Agent Framework", 6_890, 2_489),
]


def by_calls(task: Task, counter: Counter, parallel: bool) -> Cost:
    """A loop of JSON tool calls."""
    tools = {tool.__name__: tool for tool in task.tools}
    talk = Conversation(counter, counter.count(schemas(task.tools)))
    talk.add(Message("system", SYSTEM), Message("user", task.text))
    way, results, numbers = task.calls(), None, 0
    try:
        while True:
            wanted = way.send(results)  # type: ignore[arg-type]
            results = []
            for batch in [wanted] if parallel else [[call] for call in wanted]:
                made = []
                for name, arguments in batch:
                    numbers += 1
                    made.append(ToolCall(f"call_{numbers}", name, json.dumps(arguments, ensure_ascii=False)))
                talk.say(Message("assistant", "", tuple(made)))
                for call in made:
                    value = tools[call.name](**json.loads(call.arguments))
                    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
                    talk.add(Message("tool", text, tool_call_id=call.id))
                    results.append(text if isinstance(value, str) else json.loads(text))
    except StopIteration as end:
        check(task, end.value)
        talk.say(Message("assistant", end.value))
    return talk.cost


async def by_blocks(task: Task, counter: Counter) -> Cost:
    """The agent."""
    *codes, answer = task.blocks
    replies = [f"<run_code>\n{code}\n</run_code>" for code in codes]

    def last(request: ModelRequest) -> str:
        return answer.format(" ".join(request.messages[-1].content.splitlines()[1:-1]))

    model = ScriptedModel([*replies, last])
    with tempfile.TemporaryDirectory() as folder:
        async with Agent(model, tools=task.tools, workspace=folder, run_dir=False) as agent:
            run = await agent.run(task.text)
    check(task, run.answer)
    cost = Cost()
    for request, reply in zip(model.requests, [*replies, run.answer], strict=True):
        cost += Cost(1, counter.count_messages(request.messages), counter.count(reply))
    return cost


def check(task: Task, answer: str) -> None:
    """See that a side has done what it should."""
    assert task.answer in answer, f"{task.name}: {answer!r} is not {task.answer!r}"
    assert task.done(), f"{task.name}: the tools were not left as they should be"


def row(name: str, cost: Cost, base: Cost | None = None) -> None:
    total = cost.tokens_in + cost.tokens_out
    saved = ""
    if base is not None:
        before = base.tokens_in + base.tokens_out
        saved = f"{1 - total / before:>9.1%}{before / total:>9.1f}x{1 - cost.calls / base.calls:>10.0%}"
    print(f"  {name:<30}{cost.calls:>7}{cost.tokens_in:>14,}{cost.tokens_out:>10,}{total:>14,}{saved}")


async def main() -> None:
    counter = open_counter()
    world = World()
    ways = ("JSON calls, one a reply", "JSON calls, all that can be", "blocks")
    sums = {way: Cost() for way in ways}
    print(
        f"{'':<32}{'calls':>7}{'tokens in':>14}{'out':>10}{'in all':>14}{'saved':>9}{'':>10}{'of calls':>10}"
    )
    for task in (headings(world), orders(world), copying(world)):
        costs = [
            by_calls(task, counter, False),
            by_calls(task, counter, True),
            await by_blocks(task, counter),
        ]
        print(task.name)
        for way, cost in zip(ways, costs, strict=True):
            sums[way] += cost
            row(way, cost, costs[1] if way == "blocks" else None)
    print("all three")
    for way, cost in sums.items():
        row(way, cost, sums[ways[1]] if way == "blocks" else None)
    row("blocks, beside one a reply", sums["blocks"], sums[ways[0]])
    print("\npublished, tokens")
    for name, before, after in PUBLISHED:
        print(f"  {name:<61}{before:>9,} ->{after:>6,}{1 - after / before:>9.1%}{before / after:>9.1f}x")
    print("said of round trips: half of them")


asyncio.run(main())
