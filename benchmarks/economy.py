"""Model calls and tokens of an hour's job with progress: our heartbeats, polling at a fixed interval, JSON tool calls.

400 files are downloaded, nine seconds each, and each prints a line. Somebody wants to hear every half minute whether it
still goes well. All three have the same words of the task, read the same lines and say the same few words to them; the
whole context is sent with every call, and tiktoken (o200k_base, `codeact model fetch vocabularies`) counts all of it.

Heartbeats: the real loop, supervisor and protocol with the real system prompt, on a clock that jumps, so that the hour
takes a second; only the downloads are played. The model asks for a report every 30 seconds; while it only waits, the
reports come less often, and what ends the block wakes it at once.

Polling at a fixed interval: the same prompt and the same reports, but one every 30 seconds to the end.

JSON tool calls: a job is started by one tool, another waits 30 seconds at most and returns what is new. Its system
prompt is two sentences.

A provider's prompt cache makes some of the tokens in cheaper, not fewer: it is not counted on any side.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from accounts import SYSTEM, Conversation, Cost, open_counter, schemas

from codeact_kernel import Agent
from codeact_kernel.blocks import Job, Outcome
from codeact_kernel.context import Counter
from codeact_kernel.messages import Message, ToolCall
from codeact_kernel.protocols import Watcher
from codeact_kernel.testing import FakeRunner, ScriptedModel
from codeact_kernel.testing.clock import run_jumping

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "agent"))
from play import Play

FILES, EACH, EVERY = 400, 9, 30
TASK = f"Download the {FILES} files in urls, and tell me about every half minute whether it still goes well."
CODE = """for number, url in enumerate(urls, 1):
    await fetch(url)
    print(f"downloaded {number}/{len(urls)} {url}")"""
WAITING, ANSWER = "It goes on well; I wait.", f"All {FILES} files are there."
LINES = [
    f"downloaded {number}/{FILES} https://data.example.org/part-{number:04}.parquet"
    for number in range(1, FILES + 1)
]


def start_job(code: str) -> str:
    """Run Python code in the background; returns the job's id."""
    return code


def job_output(job_id: str, wait_seconds: int = 30) -> str:
    """Wait until a job has ended, or some seconds, and return its new output as {"running": bool, "output": str}."""
    return f"{job_id}{wait_seconds}"


class Downloads(FakeRunner):
    """Plays the downloads, whatever the code."""

    async def run(self, job: Job, watcher: Watcher) -> Outcome:
        """As in `Runner`."""
        played = "\n".join(f"sleep({EACH})\nprint({line!r})" for line in LINES)
        return await super().run(replace(job, block=replace(job.block, code=played)), watcher)


async def by_heartbeats(counter: Counter, system: str) -> Cost:
    """Our own way."""
    block = f'<run_code id="dl" heartbeat="{EVERY}s" timeout="2h">\n{CODE}\n</run_code>'
    with tempfile.TemporaryDirectory() as folder:
        play = Play(Path(folder))
        play.runner = Downloads()
        replies = [block, *[lambda request: reply(request.messages[-1].content)] * FILES]
        assert await play.run(*replies, task=TASK) == ANSWER
    cost, texts = Cost(), [block]
    texts += [reply(request.messages[-1].content) for request in play.model.requests[1:]]
    for request, text in zip(play.model.requests, texts, strict=True):
        messages = [replace(request.messages[0], content=system), *request.messages[1:]]
        cost += Cost(1, counter.count_messages(messages), counter.count(text))
    return cost


def reply(read: str) -> str:
    """What the model says to what it reads last."""
    return ANSWER if "<run_code_result" in read else WAITING


def by_polling(counter: Counter, system: str) -> Cost:
    """A report at each interval, however little the model does about it."""
    talk = Conversation(counter, 0)
    talk.add(Message("system", system), Message("user", TASK))
    talk.say(
        Message("assistant", f'<run_code id="dl" heartbeat="{EVERY}s" timeout="2h">\n{CODE}\n</run_code>')
    )
    seconds = FILES * EACH
    for at in range(EVERY, seconds, EVERY):
        new = "\n".join(LINES[(at - EVERY) // EACH : at // EACH])
        now = f"{12 + at // 3600}:{at // 60 % 60:02}:{at % 60:02}"
        talk.add(
            Message(
                "user",
                f'<running id="dl" current="{at}s" now="{now}" deadline="14:00:00">\n{new}\n</running>',
            )
        )
        talk.say(Message("assistant", WAITING))
    rest = "\n".join(LINES[-4:])
    talk.add(Message("user", f'<run_code_result id="dl" duration="1h00m">\n{rest}\n</run_code_result>'))
    talk.say(Message("assistant", ANSWER))
    return talk.cost


def by_calls(counter: Counter) -> Cost:
    """A loop of JSON tool calls."""
    talk = Conversation(counter, counter.count(schemas([start_job, job_output])))
    talk.add(Message("system", SYSTEM), Message("user", TASK))
    talk.say(Message("assistant", "", (ToolCall("call_0", "start_job", json.dumps({"code": CODE})),)))
    talk.add(Message("tool", "job_1", tool_call_id="call_0"))
    wanted = json.dumps({"job_id": "job_1", "wait_seconds": EVERY})
    seconds = FILES * EACH
    for number, at in enumerate(range(EVERY, seconds + 1, EVERY), 1):
        talk.say(Message("assistant", WAITING, (ToolCall(f"call_{number}", "job_output", wanted),)))
        told = {"running": at < seconds, "output": "\n".join(LINES[(at - EVERY) // EACH : at // EACH])}
        talk.add(Message("tool", json.dumps(told), tool_call_id=f"call_{number}"))
    talk.say(Message("assistant", ANSWER))
    return talk.cost


async def real_system_prompt() -> str:
    """The prompt that our agent has."""
    model = ScriptedModel([ANSWER])
    with tempfile.TemporaryDirectory() as folder:
        async with Agent(model, workspace=folder, sandbox="none", run_dir=False) as agent:
            await agent.run(TASK)
    return model.requests[0].messages[0].content


def main() -> None:
    """Print all three."""
    counter = open_counter()
    system = asyncio.run(real_system_prompt())
    ways = {
        "heartbeats": run_jumping(by_heartbeats(counter, system)),
        "polling at a fixed interval": by_polling(counter, system),
        "JSON tool calls": by_calls(counter),
    }
    ours = ways["heartbeats"].tokens_in + ways["heartbeats"].tokens_out
    print(f"{'':28}  calls  tokens in  tokens out  beside heartbeats")
    for name, cost in ways.items():
        times = (cost.tokens_in + cost.tokens_out) / ours
        print(f"{name:28}  {cost.calls:5}  {cost.tokens_in:9,}  {cost.tokens_out:10,}  {times:8.1f} x")


if __name__ == "__main__":
    main()
