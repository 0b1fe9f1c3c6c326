from __future__ import annotations

import base64
import hashlib
import socket
from pathlib import Path

import pytest
import tiktoken
import tiktoken_ext.openai_public as recipes

from codeact_kernel.context import tokens
from codeact_kernel.context.tokens import Counter
from codeact_kernel.messages import Message, ToolCall

URL = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
KEY = "fb374d419588a4632f3f557e76b4b70aebbca790"
PROMPT = [Message("system", "be brief"), Message("user", "hello world")]


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*args, **options):
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    tokens._load.cache_clear()


@pytest.fixture
def vocabulary(tmp_path, monkeypatch) -> Path:
    """A folder with a vocabulary of single bytes and one word, taken for the right one of o200k_base."""
    words = [bytes([byte]) for byte in range(256)] + [b"he", b"ll", b"hell", b"hello"]
    data = b"\n".join(base64.b64encode(word) + f" {rank}".encode() for rank, word in enumerate(words))
    folder = tmp_path / "vocabularies"
    folder.mkdir()
    (folder / KEY).write_bytes(data)
    source = Path(recipes.__file__).read_text()
    expected = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
    assert source.count(expected) == 1
    copy = tmp_path / "openai_public.py"
    copy.write_text(source.replace(expected, hashlib.sha256(data).hexdigest()))
    monkeypatch.setattr(recipes.__spec__, "origin", str(copy))
    monkeypatch.setattr(recipes.__spec__.loader, "path", str(copy))
    return folder


def test_the_key_of_a_vocabulary_is_the_one_that_tiktoken_looks_for():
    assert hashlib.sha1(URL.encode()).hexdigest() == KEY


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5-mini", "openai/gpt-4.1", "o3"])
def test_with_the_vocabulary_here_counts_are_exact(vocabulary, model):
    counter = Counter(model, None, vocabulary, {})
    assert counter.exact
    assert counter.count("hello") == 1
    assert counter.count("hellohe") == 2
    assert counter.count("") == 0


def test_the_folder_that_the_environment_names_is_looked_at_first(vocabulary, tmp_path):
    assert Counter("gpt-4o", None, None, {"TIKTOKEN_CACHE_DIR": str(vocabulary)}).exact
    assert Counter("gpt-4o", None, vocabulary, {"TIKTOKEN_CACHE_DIR": str(tmp_path / "none")}).exact


def test_an_encoding_can_be_named_for_a_model_that_tiktoken_does_not_know(vocabulary):
    assert Counter("my-model", "o200k_base", vocabulary, {}).exact
    assert Counter("gpt-oss-20b", None, vocabulary, {}).exact
    assert not Counter("my-model", None, vocabulary, {}).exact
    assert not Counter("my-model", "no_such_encoding", vocabulary, {}).exact


def test_without_the_vocabulary_it_estimates_and_touches_nothing(tmp_path):
    counter = Counter("gpt-4o", None, tmp_path, {})
    assert not counter.exact
    assert counter.count("x" * 40) == 10
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("encoding", ["gpt2", "r50k_base", "p50k_base", "o200k_harmony"])
def test_no_recipe_of_tiktoken_reaches_the_network(tmp_path, encoding):
    assert not Counter("m", encoding, tmp_path, {}).exact


def test_a_file_with_a_wrong_hash_is_neither_used_nor_deleted(vocabulary):
    (vocabulary / KEY).write_bytes(b"aGVsbG8= 0\n")
    assert not Counter("gpt-4o", None, vocabulary, {}).exact
    assert (vocabulary / KEY).exists()


def test_tiktokens_own_loader_is_left_as_it_was(vocabulary):
    before = recipes.load_tiktoken_bpe
    assert Counter("gpt-4o", None, vocabulary, {}).exact
    assert recipes.load_tiktoken_bpe is before is tiktoken.load.load_tiktoken_bpe
    assert "o200k_base" not in tiktoken.registry.ENCODINGS


@pytest.mark.parametrize(
    "text", [" " * 1_200_000, "\n" * 300_000, "\ud800" * 10, "漢字" * 100, "<|endoftext|>"]
)
def test_any_text_is_counted(vocabulary, text):
    assert Counter("gpt-4o", None, vocabulary, {}).count(text) > 0
    assert Counter("unknown", None, vocabulary, {}).count(text) > 0


def test_a_text_longer_than_a_slice_is_counted_whole(vocabulary):
    counter = Counter("gpt-4o", None, vocabulary, {})
    assert counter.count("hello" * 30_000) == 30_000


def test_a_message_costs_more_than_its_text(vocabulary):
    call = Message("assistant", "", (ToolCall("c", "hello", "hello"),))
    for counter in (Counter("gpt-4o", None, vocabulary, {}), Counter("unknown", None, None, {})):
        bare = counter.count_messages([])
        assert bare == 3
        assert counter.count_messages([Message("user", "hello")]) > bare + counter.count("hello")
        assert counter.count_messages([call]) > counter.count_messages([Message("assistant", "")])


def test_estimates_learn_from_what_the_endpoint_says():
    counter = Counter("unknown", None, None, {})
    before = counter.count_messages(PROMPT)
    counter.calibrate(PROMPT, before * 2)
    assert counter.count_messages(PROMPT) == before * 2
    assert counter.count("x" * 400) == 200
    counter.calibrate(PROMPT, before)
    assert counter.count_messages(PROMPT) == before


def test_an_absurd_report_does_not_break_the_estimate():
    counter = Counter("unknown", None, None, {})
    before = counter.count_messages(PROMPT)
    for absurd in (10**9, 0, -5):
        counter.calibrate(PROMPT, absurd)
        assert 0 < counter.count_messages(PROMPT) <= before * 5
    counter.calibrate([], 10)
    assert counter.count("x" * 400) > 0


def test_exact_counts_learn_only_what_comes_on_top(vocabulary):
    counter = Counter("gpt-4o", None, vocabulary, {})
    before = counter.count_messages(PROMPT)
    counter.calibrate(PROMPT, before + 500)
    assert counter.count_messages(PROMPT) == before + 500
    assert counter.count("hello") == 1
    assert counter.count_messages([*PROMPT, Message("user", "hello")]) > before + 500


@pytest.mark.model
def test_the_real_vocabularies_give_the_known_tokens(monkeypatch):
    monkeypatch.undo()
    from codeact_kernel.model.weights import fetch

    folder = fetch("vocabularies")
    for model, token in (("gpt-5", 24912), ("gpt-4", 15339)):
        counter = Counter(model, None, folder, {})
        assert counter.exact
        assert counter._encoding.encode_ordinary("hello") == [token]
        assert counter.count("hello " * 1000) == pytest.approx(1000, abs=2)
        assert counter.count(" " * 1_200_000) > 0
