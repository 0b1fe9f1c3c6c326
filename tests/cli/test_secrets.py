"""A key that is planted, and looked for in every byte that a run leaves behind or sends."""

from __future__ import annotations

import base64
import json

import pytest

from codeact_kernel.testing import ScriptedEndpoint

KEY = "sk-Planted+0123456789/abcdef"
OTHER = "hunter22hunter22"

pytestmark = pytest.mark.kernel

TOOL = '''
import os
def leak(text: str) -> str:
    """Leak."""
    raise ValueError(f"401 Unauthorized: {os.environ['LLM_API_KEY']}")
def give() -> str:
    """Give."""
    return os.environ["LLM_API_KEY"]
'''

CODE = """
import os, sys, json, base64, time, urllib.parse
key = give()
print("plain", key)
print("repr", repr(key), json.dumps({"k": key}), urllib.parse.quote(key, safe=""))
print("basic", base64.b64encode(b"user:" + key.encode()))
sys.stdout.write(key[:9]); sys.stdout.flush(); time.sleep(0.3); sys.stdout.write(key[9:] + "\\n")
print(key, file=sys.stderr)
from IPython.display import display, HTML
display(HTML("<b>" + key + "</b>"))
print("let through", os.environ["DATABASE_PASSWORD"], os.environ.get("LLM_API_KEY"))
print(("y" * 99 + key + "\\n") * 30_000)
try:
    leak(key)
except Exception as error:
    print("the kernel reads:", error)
raise RuntimeError(key)
"""


def left_in(folder):
    return [path for path in folder.rglob("*") if path.is_file() and bad(path.read_bytes())]


def bad(data):
    forms = [KEY, OTHER, json.dumps(KEY)[1:-1], KEY.replace("+", "%2B").replace("/", "%2F")]
    forms += [base64.b64encode(b"user:" + KEY.encode()).decode()[9:40], KEY[:20], KEY[9:]]
    return [form for form in forms if form.encode() in data]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_planted_key_is_in_no_byte_of_the_run_s_folder_its_streams_or_its_requests(
    piped, place, monkeypatch, block, options
):
    (place / "leaky.py").write_text(TOOL)
    monkeypatch.setenv("LLM_API_KEY", KEY)
    monkeypatch.setenv("DATABASE_PASSWORD", OTHER)
    helper = f'<run_agent name="sub" namespace="give">\nUse {KEY}.\n</run_agent>'
    answers = [block(CODE, id="a", heartbeat="100ms"), helper, "sub done", f"The key is {KEY}."]

    def script(request):
        said = [message["content"] for message in request.messages if message["role"] == "user"]
        if said[0].startswith("Use "):
            return answers[2]
        return answers[1] if len(said) == 2 else answers[0 if len(said) == 1 else 3]

    with ScriptedEndpoint(script, key=KEY) as endpoint:
        said = piped(
            "run", "--model", "m", "--base-url", endpoint.base_url, "--env", "DATABASE_PASSWORD",
            "--tools", "leaky.py", *options, f"The task. {KEY}",
        ).end()  # fmt: skip
        sent = [json.dumps(request.body) for request in endpoint.requests]
    assert said.code == 0, said.err
    assert bad(said.out.encode()) == bad(said.err.encode()) == []
    assert [bad(body.encode()) for body in sent] == [[]] * len(sent)
    (runs,) = place.glob(".codeact/runs/*")
    assert left_in(runs) == []
    assert "0123456789" not in runs.name
    text = (runs / "run.ipynb").read_text() + "".join(sent)
    assert "the kernel reads: leak failed: ValueError: 401 Unauthorized: [secret LLM_API_KEY]" in text
    assert "let through [secret DATABASE_PASSWORD] None" in text
    assert "RuntimeError: [secret LLM_API_KEY]" in text
    assert "[secret LLM_API_KEY]" in (runs / "audit.jsonl").read_text()
    assert list(runs.glob("outputs/*"))
    assert "The key is [secret LLM_API_KEY]." in said.out


def test_errors_of_the_command_line_hold_no_key(codeact, place, monkeypatch):
    monkeypatch.setenv("LLM_API_KEY", KEY)
    said = codeact(
        "run", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--workspace", f"no/{KEY}", "x"
    )
    assert said.code == 2
    assert "[secret LLM_API_KEY]" in said.err
    assert bad(said.err.encode()) == []


def test_a_traceback_of_a_bug_holds_no_key(piped, place, monkeypatch):
    monkeypatch.setenv("LLM_API_KEY", KEY)
    (place / "buggy.py").write_text(f"raise KeyError({KEY!r})\n")
    said = piped(
        "run", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--tools", "buggy.py", "x"
    ).end()
    assert said.code in (1, 2)
    assert bad(said.err.encode()) == []
    assert "[secret LLM_API_KEY]" in said.err
