"""What runs leave in their audits, and what blocks cannot do to them."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace

import pytest
from talk import block, delegate

from codeact_kernel import Agent
from codeact_kernel.agent import AUDIT, JOURNAL, NOTEBOOK, Settings
from codeact_kernel.errors import ConfigError, RecordError
from codeact_kernel.policy import audit as module
from codeact_kernel.policy import journal_heads, notebook_heads, verify
from codeact_kernel.signing import host_signer
from codeact_kernel.testing import Cast, ScriptedModel

pytestmark = pytest.mark.kernel


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def events(path, *names):
    return [line for line in lines(path) if not names or line["event"] in names]


def heads(folder):
    return [*journal_heads(folder / JOURNAL), *notebook_heads(folder / NOTEBOOK)]


def verdict(folder):
    return verify(folder / AUDIT, host_signer(), heads(folder))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


async def work(tmp_path, folder, *replies, **fields):
    model = ScriptedModel(replies)
    async with Agent(model, workspace=tmp_path, run_dir=folder, **fields) as agent:
        run = await agent.run("Work.")
    return run, model


async def test_a_call_is_in_the_audit_before_the_tool_is_called_and_a_block_before_it_runs(tmp_path, folder):
    seen = []

    def look(word: str) -> str:
        """Look."""
        seen.append(events(folder / AUDIT, "ToolCalled"))
        return word

    async def alook(word: str) -> str:
        """Look."""
        return look(word)

    read = f"print('BlockQueued' in open({str(folder / AUDIT)!r}).read())"
    code = f"{read}\nlook('a')\nawait alook('b')"
    run, model = await work(tmp_path, folder, block(code, id="x"), "ok", tools=[look, alook])
    assert "True" in model.requests[1].messages[-1].content
    assert [[call["arguments"] for call in found] for found in seen] == [
        ['word="a"'],
        ['word="a"', 'word="b"'],
    ]
    assert all(found[-1]["block_id"] == "x" for found in seen)
    whole = verdict(folder)
    assert (whole.is_right, whole.lines, whole.vouched) == (True, whole.lines, whole.lines)
    assert set(whole.witnesses) == {"the journal", "the notebook"}
    assert run.answer == "ok"


async def test_the_agents_of_a_run_share_one_audit_each_under_its_name(tmp_path, folder):
    def count(n: int) -> int:
        """Count."""
        return n

    model = Cast(
        {
            "Work.": [delegate("SCOUT", name="scout", namespace="count"), "Done."],
            "SCOUT": [block("print(count(7))"), "Seven."],
        }
    )
    async with Agent(model, workspace=tmp_path, run_dir=folder, tools=[count]) as agent:
        await agent.run("Work.")
    (call,) = events(folder / AUDIT, "ToolCalled")
    assert (call["agent"], call["arguments"]) == ("scout", "n=7")
    queued = events(folder / AUDIT, "BlockQueued")
    assert [(line["agent"], line["block"]["kind"]) for line in queued] == [
        ("the agent", "AgentBlock"),
        ("scout", "CodeBlock"),
    ]
    assert not list(folder.glob(f"agents/**/{AUDIT}"))
    assert verdict(folder).is_right
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()}
    assert set(modes.values()) == {0o600}, modes


async def test_refusals_limits_cancels_notes_and_ends_of_kernels_are_in_it(tmp_path, folder):
    def search(q: str) -> str:
        """Search."""
        return q

    replies = [
        block("try:\n    search('a'); search('b')\nexcept Exception as e:\n    print(e)", id="limit"),
        block("import time; time.sleep(60)", id="slow", timeout="1h")
        + "\n"
        + block(
            "self.cancel('slow')\nwhile any(b['id'] == 'slow' for b in self.blocks): pass", id="c", after=""
        ),
        block("import os; os._exit(3)", id="death"),
        block("print(1)"),
    ]
    async with Agent(
        ScriptedModel(replies), workspace=tmp_path, run_dir=folder, tools=[search], max_calls=1
    ) as agent:
        run = await agent.run("Work.", max_turns=3)
        agent.steer("Be quick.")
    assert run.stop == "limit"
    path = folder / AUDIT
    # A plain tool's thread gives its result itself: that it returned may be heard after the next call.
    first, second = sorted(events(path, "ToolReturned"), key=lambda line: line["call_id"])
    assert (first["ok"], second["ok"]) == (True, False)
    assert "this call was not made" in second["error"]
    assert [(line["id"], line["reason"]) for line in events(path, "CancelAsked")] == [
        ("slow", "you cancelled it")
    ]
    assert [line["returncode"] for line in events(path, "KernelEnded")] == [3]
    assert [line["text"] for line in events(path, "NoteReceived")] == ["Be quick."]
    (end,) = events(path, "RunEnded")
    assert end["stop"] == "limit"
    assert end["message"].startswith("3 turns are used up; `codeact resume ")
    statuses = {line["id"]: line["status"] for line in events(path, "BlockFinished")}
    assert statuses == {"limit": "ok", "slow": "cancelled", "c": "ok", "death": "died"}
    assert verdict(folder).is_right


async def test_long_arguments_are_in_it_with_a_digest(tmp_path, folder):
    def put(text: str) -> int:
        """Put."""
        return len(text)

    await work(tmp_path, folder, block("put('ä' * 50_000)"), "ok", tools=[put])
    (call,) = events(folder / AUDIT, "ToolCalled")
    assert call["arguments"].startswith('text="ää')
    assert (len(call["arguments"]), len(call["digest"])) == (16_384, 64)


async def test_a_conversation_is_one_chain(tmp_path, folder):
    model = ScriptedModel([block("x = 1"), "one", block("print(x)"), "two"])
    async with Agent(model, workspace=tmp_path, run_dir=folder) as agent:
        await agent.run("first")
        assert verdict(folder).is_right
        await agent.run("second")
    assert [line["task"] for line in events(folder / AUDIT, "RunStarted")] == ["first", "second"]
    assert verdict(folder).vouched == len(lines(folder / AUDIT))


@pytest.fixture
def full(monkeypatch):
    """Lets the disk be full for the audit, from when it is told."""

    class Disk:
        is_full = False
        full_for = b"nothing"

        def write(self, fd, data):
            if self.is_full or self.full_for in data:
                raise OSError(28, "No space left on device")
            os.write(fd, data)

    disk = Disk()
    monkeypatch.setattr(module, "write_all", disk.write)
    return disk


async def test_what_cannot_be_audited_is_not_run_and_the_run_ends_with_the_reason(tmp_path, folder, full):
    called = []

    def fill(now: bool) -> None:
        """Fill the disk."""
        called.append(now)
        full.is_full = True

    replies = [block("fill(True)\nfill(False)", id="a"), block("print('never')", id="b"), "no answer"]
    model = ScriptedModel(replies)
    async with Agent(model, workspace=tmp_path, run_dir=folder, tools=[fill]) as agent:
        with pytest.raises(RecordError, match=r"audit\.jsonl cannot be written \(No space left"):
            async with asyncio.timeout(20):
                await agent.run("Work.")
        assert called == [True]
        assert len(model.requests) == 1
        assert agent.transcript.runs[-1].stop == "failed"
        full.is_full = False
    assert verdict(folder).wrong is not None
    assert "could not be written" in verdict(folder).reason


async def test_a_block_whose_line_cannot_be_written_never_reaches_the_kernel(tmp_path, folder, full):
    class Filling(ScriptedModel):
        def stream(self, request):
            full.is_full = True
            return super().stream(request)

    model = Filling([block(f"open({str(tmp_path / 'ran')!r}, 'w')"), "ok"])
    async with Agent(model, workspace=tmp_path, run_dir=folder) as agent:
        with pytest.raises(RecordError, match="nothing more is run"):
            await agent.run("Work.")
    assert not (tmp_path / "ran").exists()


async def test_a_block_of_which_the_decision_cannot_be_audited_never_reaches_the_kernel(
    tmp_path, folder, full
):
    full.full_for = b'"event":"Decided"'
    model = ScriptedModel([block(f"open({str(tmp_path / 'ran')!r}, 'w')"), "ok"])
    async with Agent(model, workspace=tmp_path, run_dir=folder) as agent:
        with pytest.raises(RecordError, match="nothing more is run"):
            async with asyncio.timeout(20):
                await agent.run("Work.")
        full.full_for = b"nothing"
        model = agent.transcript.runs[-1]
        assert [record.result.status for turn in model.turns for record in turn.blocks] == ["rejected"]
    assert not (tmp_path / "ran").exists()


async def test_a_sub_agent_that_cannot_be_audited_ends_the_run_too(tmp_path, folder, full):
    def fill() -> None:
        """Fill the disk."""
        full.is_full = True

    model = Cast(
        {
            "Work.": [delegate("SCOUT", name="scout", namespace="fill"), "Done."],
            "SCOUT": [block("fill()") + "\n" + block("print(1)", id="next", after=""), "Seven."],
        }
    )
    async with Agent(model, workspace=tmp_path, run_dir=folder, tools=[fill]) as agent:
        with pytest.raises(RecordError, match="cannot be written"):
            async with asyncio.timeout(30):
                await agent.run("Work.")


async def test_a_lenient_audit_has_a_gap_that_is_told(tmp_path, folder, full):
    def fill(now: bool) -> None:
        """Fill the disk."""
        full.is_full = now

    async with Agent(
        ScriptedModel([block("fill(True)\nfill(False)\nfill(False)"), "ok"]),
        workspace=tmp_path,
        run_dir=folder,
        tools=[fill],
        settings=replace(Settings(), audit="lenient"),
    ) as agent:
        assert (await agent.run("Work.")).answer == "ok"
    assert "The run goes on" in agent.record_error.message
    assert "could not be written" in verdict(folder).reason


@pytest.mark.parametrize("fields", [{"settings": replace(Settings(), audit="off")}, {"run_dir": False}])
async def test_there_may_be_none(tmp_path, fields):
    async with Agent(ScriptedModel([block("print(1)"), "ok"]), workspace=tmp_path, **fields) as agent:
        run = await agent.run("Work.")
    assert run.answer == "ok"
    assert list(tmp_path.rglob(AUDIT)) == []


async def test_a_file_of_the_caller_s_takes_the_audits_of_many_runs(tmp_path):
    path = tmp_path / "kept" / "agents.jsonl"
    for _ in range(2):
        model = ScriptedModel([block("print(1)"), "ok"])
        async with Agent(model, workspace=tmp_path, run_dir=False, audit=path) as agent:
            await agent.run("Work.")
    assert len(events(path, "RunStarted")) == 2
    assert verify(path, host_signer()).is_right
    model = ScriptedModel([])
    (tmp_path / "link.jsonl").symlink_to(path)
    async with Agent(model, workspace=tmp_path, run_dir=False, audit=tmp_path / "link.jsonl") as agent:
        with pytest.raises(RecordError, match="is a link"):
            await agent.run("Work.")


async def test_without_a_key_there_is_no_run_unless_the_settings_say_so(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CODEACT_DATA_DIR", str(tmp_path / "file" / "x"))
    async with Agent(ScriptedModel(["ok"]), workspace=tmp_path) as agent:
        with pytest.raises(ConfigError, match="name another one in CODEACT_DATA_DIR"):
            await agent.run("Work.")
    lenient = replace(Settings(), audit="lenient")
    async with Agent(ScriptedModel(["ok"]), workspace=tmp_path, settings=lenient) as agent:
        assert (await agent.run("Work.")).answer == "ok"
    assert "cannot be kept" in agent.record_error.message


# -- what blocks try ----------------------------------------------------------------------------------------

CUT = "p = {path!r}; text = open(p).read(); open(p, 'w').write(text[:len(text) // 2])"
EMPTY = "open({path!r}, 'w').close()"
FORGE = "import json; p = {path!r}; text = open(p).read(); open(p, 'w').write(text.replace('Work.', 'Play.'))"
ADD = "p = {path!r}; line = open(p).readlines()[-1]; open(p, 'a').write(line)"


@pytest.mark.parametrize("attack", [CUT, EMPTY, FORGE, ADD])
async def test_a_block_that_writes_into_the_audit_is_found_out(tmp_path, folder, attack):
    await work(tmp_path, folder, block(attack.format(path=str(folder / AUDIT))), block("print(2)"), "ok")
    assert verdict(folder).wrong is not None


async def test_a_block_that_replaces_files_of_the_run_by_links_writes_to_nothing_of_ours(tmp_path, folder):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    names = [AUDIT, JOURNAL, NOTEBOOK, ".run.ipynb.part", "outputs", "agents", "mcp"]
    code = (
        f"import os\nfor name in {names!r}:\n"
        f"    path = os.path.join({str(folder)!r}, name)\n"
        f"    os.path.lexists(path) and os.remove(path)\n    os.symlink({str(victim)!r}, path)"
    )
    long = block("print('x' * 3_000_000)", id="long")
    model = Cast({"Work.": [block(code), long, delegate("SUB", name="sub"), "ok"], "SUB": ["done"]})
    async with Agent(model, workspace=tmp_path, run_dir=folder) as agent:
        run = await agent.run("Work.")
    assert run.answer == "ok"
    assert victim.read_text() == "mine"
    assert not (folder / NOTEBOOK).is_symlink()
    assert (folder / NOTEBOOK).stat().st_size > 1000
    assert "is a link" in str(model.requests[-1].messages)


async def test_a_block_that_puts_a_link_in_the_place_of_the_run_s_folder_moves_nothing(tmp_path, folder):
    home = tmp_path / "home"
    home.mkdir()
    run, moved = str(folder), str(tmp_path / "moved")
    code = f"import os\nos.rename({run!r}, {moved!r})\nos.symlink({str(home)!r}, {run!r})"
    await work(tmp_path, folder, block(code), block("print('x' * 3_000_000)"), "ok")
    assert list(home.iterdir()) == []
    assert verdict(tmp_path / "moved").is_right
    assert (tmp_path / "moved" / "outputs").is_dir()
