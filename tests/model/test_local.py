from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from codeact_kernel.errors import ConfigError, ContextOverflow, ModelUnreachable
from codeact_kernel.messages import EndPiece, Message, ModelRequest, TextPiece
from codeact_kernel.model import open_model, resolve
from codeact_kernel.model.local import LocalModel, LocalServer, choose_threads, find_weights
from codeact_kernel.model.weights import fetch

EXAMPLES = (
    Message("system", "Reply only with Python code inside <run_code> and </run_code> tags. Use print()."),
    Message("user", "What is 12 * 12?"),
    Message("assistant", "<run_code>\nprint(12 * 12)\n</run_code>"),
    Message("user", "How many words are in 'the cat sat'?"),
    Message("assistant", "<run_code>\nprint(len('the cat sat'.split()))\n</run_code>"),
)


def ask(text: str, **options) -> ModelRequest:
    return ModelRequest((*EXAMPLES, Message("user", text)), **options)


async def say(model, request: ModelRequest) -> tuple[str, EndPiece]:
    pieces = [piece async for piece in model.stream(request)]
    assert isinstance(pieces[-1], EndPiece)
    return "".join(p.text for p in pieces if isinstance(p, TextPiece)), pieces[-1]


def test_without_the_runtime_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r'pip install "codeact-kernel\[local\]"'):
        open_model(resolve("local", {}, None, {}))


def test_weights_that_are_not_here_name_the_command(monkeypatch, tmp_path):
    monkeypatch.setenv("CODEACT_MODELS_DIR", str(tmp_path))
    with pytest.raises(ConfigError, match=r"\(491 MB\) are not here yet: run `codeact model fetch 0.5b`"):
        find_weights("0.5b")


def test_a_file_that_is_no_gguf_is_refused(tmp_path):
    (tmp_path / "x.gguf").write_text("PK")
    with pytest.raises(ConfigError, match="no GGUF"):
        find_weights(str(tmp_path / "x.gguf"))
    with pytest.raises(ConfigError, match="No such file"):
        find_weights(str(tmp_path / "y.gguf"))


def test_the_threads_are_what_is_set_one_when_busy_else_the_cores(monkeypatch):
    cores = len(os.sched_getaffinity(0))
    assert choose_threads({"CODEACT_LOCAL_THREADS": " 3 "}) == 3
    monkeypatch.setattr(os, "getloadavg", lambda: (float(cores), 0.0, 0.0))
    assert choose_threads({}) == 1
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 9.0, 9.0))
    assert choose_threads({}) == min(cores, 8)
    for wrong in ("0", "-1", "two", "1.5"):
        with pytest.raises(ConfigError, match="CODEACT_LOCAL_THREADS"):
            choose_threads({"CODEACT_LOCAL_THREADS": wrong})


@pytest.fixture
async def small(monkeypatch) -> AsyncIterator[LocalModel]:
    """The smallest model: enough for the plumbing."""
    monkeypatch.setenv("CODEACT_LOCAL_THREADS", "1")
    await asyncio.to_thread(fetch, "135m")
    model = LocalModel(resolve("local:135m", {}, None, {}))
    try:
        yield model
    finally:
        await model.aclose()


def server_of(model: LocalModel) -> psutil.Process:
    [child] = [p for p in psutil.Process().children() if "local_server.py" in " ".join(p.cmdline())]
    return child


@pytest.mark.model
async def test_the_default_model_writes_a_block_streamed_and_for_nothing(monkeypatch):
    monkeypatch.setenv("CODEACT_LOCAL_THREADS", "1")
    await asyncio.to_thread(fetch, "0.5b")
    model = open_model(resolve("local", {}, None, {}))
    try:
        async with asyncio.timeout(300):
            text, end = await say(model, ask("What is 2 to the power of 20?"))
            again, _ = await say(model, ask("What is 2 to the power of 20?"))
    finally:
        await model.aclose()
    assert text.startswith("<run_code>\n")
    assert "2**20" in text.replace(" ", "") or "1048576" in text
    assert end.finish == "stop"
    assert end.usage.cost == 0.0
    assert end.usage.input_tokens > 50
    assert not end.usage.estimated
    assert again == text
    assert model.window == 8192
    assert model.name == "qwen2.5-coder-0.5b-instruct-q4_k_m"


@pytest.mark.model
async def test_the_loop_does_not_stall_while_the_model_thinks(small):
    await small.start()
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(0.01)
            longest = max(longest, loop.time() - before)

    watcher = asyncio.create_task(watch())
    await say(small, ask("Sort [3, 1, 2].", max_tokens=40))
    watcher.cancel()
    assert longest < 0.5


@pytest.mark.model
async def test_a_prompt_past_the_window_is_an_overflow(small):
    with pytest.raises(ContextOverflow):
        await say(small, ask("word " * 20000))


@pytest.mark.model
async def test_a_reply_limit_ends_a_reply_and_says_so(small):
    _, end = await say(small, ask("Count to one hundred.", max_tokens=5))
    assert end.finish == "length"


@pytest.mark.model
async def test_a_server_that_died_is_started_anew(small):
    await small.start()
    first = server_of(small)
    first.kill()
    text, _ = await say(small, ask("What is 1 + 1?", max_tokens=20))
    assert text
    assert server_of(small).pid != first.pid


@pytest.mark.model
async def test_two_first_calls_at_once_start_one_server(small):
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(say(small, ask(f"What is {n} + 1?", max_tokens=8))) for n in range(2)]
    assert all(call.result()[0] for call in calls)
    assert server_of(small)


@pytest.mark.model
async def test_cancelling_the_start_leaves_no_server(small, monkeypatch):
    loading, greet = asyncio.Event(), LocalServer._greet

    async def observed(self, process):
        loading.set()
        return await greet(self, process)

    monkeypatch.setattr(LocalServer, "_greet", observed)
    task = asyncio.create_task(small.start())
    await loading.wait()
    assert len(psutil.Process().children()) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert psutil.Process().children() == []


@pytest.mark.model
async def test_the_terminals_ctrl_c_does_not_end_the_server(small):
    await small.start()
    server_of(small).send_signal(signal.SIGINT)
    text, _ = await say(small, ask("What is 1 + 1?", max_tokens=8))
    assert text
    assert small._server is not None
    assert small._server.alive


@pytest.mark.model
async def test_closing_ends_the_server_at_once(small):
    await small.start()
    server = server_of(small)
    async with asyncio.timeout(5):
        await small.aclose()
    assert not server.is_running()


@pytest.mark.model
async def test_only_who_has_the_key_may_ask_the_server(small):
    endpoint = await small.start()
    url = endpoint._settings.base_url
    import httpx

    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(f"{url}/chat/completions", json={"messages": []})
    assert answer.status_code == 401
    assert url.startswith("http://127.0.0.1:")
    key = endpoint._settings.key.reveal()
    assert not any(key in word for word in server_of(small).cmdline())


@pytest.mark.model
def test_a_host_that_is_killed_takes_its_server_with_it(monkeypatch):
    monkeypatch.setenv("CODEACT_LOCAL_THREADS", "1")
    fetch("135m")
    program = """
import asyncio, sys
from codeact_kernel.model import resolve
from codeact_kernel.model.local import LocalModel
async def main():
    model = LocalModel(resolve("local:135m"))
    await model.start()
    print(model._server._process.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""
    root = Path(__file__).parents[2]
    host = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=root)
    assert host.stdout is not None
    server = psutil.Process(int(host.stdout.readline()))
    os.kill(host.pid, signal.SIGKILL)
    host.wait()
    host.stdout.close()
    server.wait(5)


@pytest.mark.model
async def test_weights_that_do_not_load_say_so(monkeypatch, tmp_path):
    monkeypatch.setenv("CODEACT_LOCAL_THREADS", "1")
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + bytes(100))
    model = LocalModel(resolve(f"local:{tmp_path}/broken.gguf", {}, None, {}))
    with pytest.raises(ModelUnreachable, match=r"broken\.gguf did not start: \S"):
        await say(model, ask("hello"))
    await model.aclose()


@pytest.mark.model
@pytest.mark.parametrize("mark", ["<|im_end|>", "<|im_start|>", "<|endoftext|>"])
async def test_a_mark_of_its_template_that_stands_in_a_text_is_read_as_text(small, mark):
    _, plain = await say(small, ask("hello", max_tokens=1))
    _, marked = await say(small, ask(f"hello {mark}", max_tokens=1))
    # The special token itself would be one more, or two.
    assert marked.usage.input_tokens >= plain.usage.input_tokens + 4
