from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codeact_kernel.errors import ConfigError, ModelRefused, RecordError
from codeact_kernel.messages import CallPiece, EndPiece, Message, ModelRequest, Piece, TextPiece, Usage
from codeact_kernel.model import ModelSettings, open_model, resolve
from codeact_kernel.model.replay import ReplayModel

REQUEST = ModelRequest((Message("user", "x"),))
CALL = {"id": "c1", "name": "run_code", "arguments": '{"code": "1"}'}


async def collect(model: Any) -> list[Piece]:
    return [piece async for piece in model.stream(REQUEST)]


def write(path: Path, *replies: Any) -> Path:
    path.write_text("\n".join(json.dumps(reply) for reply in replies) + "\n\n")
    return path


async def test_replies_come_in_order_for_nothing(tmp_path):
    file = write(
        tmp_path / "r.jsonl",
        {"text": "one", "finish": "stop"},
        {"text": "two"},
        {"text": "cu", "finish": None},
        {"text": "", "finish": "tool_calls", "calls": [CALL]},
    )
    model = open_model(resolve(f"replay:{file}", {}, None, {}))
    free = Usage(calls=1)
    assert free.cost == 0.0
    assert await collect(model) == [TextPiece("one"), EndPiece("stop", free)]
    assert await collect(model) == [TextPiece("two"), EndPiece("stop", free)]
    assert await collect(model) == [TextPiece("cu"), EndPiece(None, free)]
    assert await collect(model) == [
        CallPiece(0, "c1", "run_code", '{"code": "1"}'),
        EndPiece("tool_calls", free),
    ]
    assert model.name == "r.jsonl"


async def test_when_all_have_been_given_it_says_so(tmp_path):
    model = ReplayModel.load(write(tmp_path / "r.jsonl", {"text": "one"}))
    assert model.left == 1
    await collect(model)
    for _ in range(2):
        with pytest.raises(ModelRefused, match=r"r\.jsonl holds 1 reply, and all have been replayed"):
            await collect(model)


async def test_a_notebook_is_read_without_nbformat(tmp_path):
    notebook = {
        "cells": [],
        "nbformat": 4,
        "metadata": {"codeact": {"replies": [{"text": "from a notebook"}]}},
    }
    (tmp_path / "run.ipynb").write_text(json.dumps(notebook))
    for path in (tmp_path / "run.ipynb", tmp_path):
        assert (await collect(ReplayModel.load(path)))[0] == TextPiece("from a notebook")


@pytest.mark.parametrize("separator", ["\u2028", "\x0b", "\x85", "\r"])
async def test_odd_line_ends_inside_a_reply_do_not_split_it(tmp_path, separator):
    (tmp_path / "r.jsonl").write_text(json.dumps({"text": f"a{separator}b"}, ensure_ascii=False), newline="")
    assert (await collect(ReplayModel.load(tmp_path / "r.jsonl")))[0] == TextPiece(f"a{separator}b")


@pytest.mark.parametrize("name", ["missing.jsonl", "missing.ipynb", ""])
def test_a_file_that_is_not_there_is_a_wrong_option(tmp_path, name):
    with pytest.raises(ConfigError, match="cannot replay"):
        open_model(ModelSettings("r", str(tmp_path / name), "replay"))


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("r.jsonl", '{"text": "a"}\nnot json\n', "line 2 is no JSON"),
        ("r.jsonl", "\n\n", "no replies"),
        ("r.jsonl", "[1]", "reply 1: a reply is"),
        ("r.jsonl", '{"txt": "a"}', "reply 1: a reply is"),
        ("r.jsonl", '{"text": "a", "finish": 5}', "finish is no text"),
        ("r.jsonl", '{"text": "a", "calls": 5}', "calls are no list"),
        ("r.jsonl", '{"text": "a", "calls": [{"id": 1}]}', "a call is"),
        ("r.ipynb", "not json", "no notebook"),
        ("r.ipynb", "[]", "no record of a run"),
        ("r.ipynb", '{"metadata": {"codeact": {}}}', "no record of a run"),
        ("r.ipynb", '{"metadata": {"codeact": {"replies": []}}}', "no replies"),
    ],
)
def test_a_file_that_is_no_record_says_what_is_wrong(tmp_path, name, text, hint):
    (tmp_path / name).write_text(text)
    with pytest.raises(RecordError, match=hint):
        ReplayModel.load(tmp_path / name)


def test_a_file_of_bytes_is_no_record(tmp_path):
    (tmp_path / "r.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecordError, match="not text"):
        ReplayModel.load(tmp_path / "r.jsonl")
