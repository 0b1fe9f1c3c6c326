"""`codeact demo`, on recorded replies, and on the real embedded model."""

from __future__ import annotations

import json

import pytest

from codeact_kernel.testing.replies import EndpointReply

STORY = (
    "Here a language model acts by writing Python into a real IPython kernel.",
    "task    What is 2 to the power of 20?",
    "The model writes a block of code:\n  print(2 ** 20)",
    "The kernel runs it, and the model reads:\n  1048576",
    "The model answers:",
    " turns · ",
    "record: .codeact/runs/",
    "codeact run --model local",
)


def assert_told(story):
    at = 0
    for words in STORY:
        at = story.find(words, at)
        assert at >= 0, f"{words!r} is not told, or not there:\n{story}"


@pytest.mark.kernel
def test_the_story_is_told_on_stderr_and_the_answer_is_on_stdout(piped, place, block):
    replies = [block("print(2 ** 20)"), "It is 1048576."]
    (place / "replies.jsonl").write_text("".join(json.dumps({"text": reply}) + "\n" for reply in replies))
    said = piped("demo", "--model", "replay:replies.jsonl").end()
    assert (said.code, said.out) == (0, "It is 1048576.\n")
    assert_told(said.err)
    assert max(map(len, said.err.splitlines())) <= 80


@pytest.mark.kernel
def test_at_a_terminal_the_answer_stands_where_it_is_announced(terminal, scripted, block, place, monkeypatch):
    replies = [EndpointReply(block("print(2 ** 20)"), wait=0.6), "It is 1048576."]
    monkeypatch.setenv("LLM_BASE_URL", scripted(replies)[-1])
    shell = terminal("demo", "--model", "scripted")
    for words in (
        "the model thinks",
        "print(2 ** 20)",
        "1048576",
        "The model answers:",
        "It is 1048576.",
        "turns",
    ):
        shell.until(words)
    assert shell.end() == 0
    assert shell.raw.count(b"It is 1048576.") == 1


@pytest.mark.model
def test_the_real_model_solves_the_task_with_no_key(piped, monkeypatch, block):
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("CODEACT_LOCAL_THREADS", "1")
    said = piped("demo").end()
    assert said.code == 0
    assert "1048576" in said.out
    assert_told(said.err)


@pytest.mark.model
def test_weights_that_are_here_are_checked_and_named(piped):
    said = piped("model", "fetch", "0.5b").end()
    assert (said.code, said.err) == (0, "")
    assert said.out.endswith("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf\n")


@pytest.mark.model
def test_on_a_terminal_fetching_shows_a_bar(terminal):
    shell = terminal("model", "fetch", "0.5b")
    shell.until("0.5b")
    shell.until(".gguf")
    assert shell.end() == 0


@pytest.mark.model
def test_a_gguf_file_of_the_user_is_a_model(piped, block):
    path = piped("model", "fetch", "0.5b").end().out.strip()
    said = piped("run", "--model", f"local:{path}", "--max-turns", 4, "What is 2 to the power of 20?").end()
    assert said.code == 0
    assert "1048576" in said.out
