"""The written cases of the grammar, read at once and in pieces of several sizes."""

import json
from pathlib import Path

import pytest
from dialogue_helpers import blocks_of, faults_of, prose_of, read

from codeact_kernel.blocks import AgentBlock, Cancel, CodeBlock

CASES = json.loads(Path(__file__).with_name("grammar-cases.json").read_text(encoding="utf-8"))["cases"]


def written(block):
    """A block in the words of the cases."""
    kind = {CodeBlock: "run_code", AgentBlock: "run_agent", Cancel: "cancel"}[type(block)]
    payload = block.code if kind == "run_code" else block.task if kind == "run_agent" else ""
    attrs = {}
    for name in ("id", "timeout", "heartbeat", "after", "lane", "namespace", "model"):
        value = getattr(block, name, None)
        if value is None or (name == "namespace" and not value):
            continue
        key = "name" if name == "id" and kind == "run_agent" else name
        attrs[key] = list(value) if isinstance(value, tuple) else value
    return {"kind": kind, "attrs": attrs, "payload": payload}


@pytest.mark.parametrize("size", [None, 1, 2, 3, 7])
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_reply_means_what_its_case_says(case, size):
    items, _ = read(case["reply"], case["finish"], size)
    assert [written(block) for block in blocks_of(items)] == case["blocks"]
    assert [fault.kind for fault in faults_of(items)] == case["faults"]
    assert prose_of(items) == case.get("prose", prose_of(items))
