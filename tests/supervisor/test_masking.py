"""Secrets in what blocks put out, cut anywhere, in memory, in files and in results."""

from __future__ import annotations

import asyncio

from codeact_kernel.blocks import (
    ClearOutput,
    CodeBlock,
    DisplayOutput,
    ErrorOutput,
    Job,
    Outcome,
    ResultOutput,
    StreamOutput,
)
from codeact_kernel.events import BlockFinished, BlockOutput
from codeact_kernel.masking import Mask
from codeact_kernel.supervisor import Supervisor
from codeact_kernel.supervisor.masking import OutputMask

KEY = "sk-0123456789abcdef"
MASK = Mask({"A_KEY": KEY})
SHOWN = "[secret A_KEY]"


def fed(*outputs, finish=True):
    mask = OutputMask(MASK)
    kept = [masked for output in outputs for masked in mask.feed(output)]
    return [*kept, *(mask.finish() if finish else ())]


def out(text):
    return StreamOutput("stdout", text)


def err(text):
    return StreamOutput("stderr", text)


def test_a_secret_in_pieces_of_one_stream_is_masked_though_the_other_speaks_between():
    assert fed(out("key: sk-012345"), err("oh\n"), out("6789abcdef!\n")) == [
        out("key: "),
        err("oh\n"),
        out(f"{SHOWN}!\n"),
    ]
    assert fed(*map(out, KEY)) == [out(SHOWN)]


def test_what_only_looked_like_the_beginning_of_one_comes_before_other_output_and_at_the_end():
    display = DisplayOutput({"text/plain": "x"})
    assert fed(out("as"), display, out("s")) == [out("a"), out("s"), display, out("s")]
    assert fed(out("s"), ClearOutput()) == [out("s"), ClearOutput()]
    assert fed(out("\n"), err("")) == [out("\n"), err("")]


def test_other_output_is_masked_whole():
    assert fed(
        DisplayOutput({"text/html": f"<p>{KEY}"}),
        ResultOutput({"text/plain": repr(KEY)}),
        ErrorOutput("E", KEY, (f"E: {KEY}",)),
    ) == [
        DisplayOutput({"text/html": f"<p>{SHOWN}"}),
        ResultOutput({"text/plain": repr(SHOWN)}),
        ErrorOutput("E", SHOWN, (f"E: {SHOWN}",)),
    ]


def test_late_output_waits_for_nothing():
    mask = OutputMask(MASK)
    assert list(mask.finish()) == []
    assert list(mask.feed(out("s"))) == [out("s")]
    assert list(mask.feed(out(KEY))) == [out(SHOWN)]


class Printing:
    """Prints pieces, and ends with an error that tells a secret."""

    def __init__(self, *pieces):
        self._pieces = pieces

    async def run(self, job, watcher):
        watcher.started("main", 0.0)
        for piece in self._pieces:
            watcher.output(out(piece))
            await asyncio.sleep(0)
        return Outcome("error", f"ValueError: {KEY}", notes=(f"see {KEY}",))

    async def interrupt(self, job_id, insistence=0):
        pass


async def test_neither_events_nor_results_nor_files_hold_it(tmp_path):
    events = []
    line = "x" * 99 + "\n"
    pieces = [line * 12_000, KEY[:7], KEY[7:], "\n", line * 3_000]
    async with Supervisor(
        {CodeBlock: Printing(*pieces)}, events.append, folder=tmp_path / "outputs", mask=MASK
    ) as supervisor:
        supervisor.launch(Job("b1", CodeBlock("x"), 1), 1)
        await supervisor.settled()
        whole = supervisor.output("b1")
    said = "".join(event.output.text for event in events if isinstance(event, BlockOutput))
    (result,) = (event.result for event in events if isinstance(event, BlockFinished))
    assert whole == said == line * 12_000 + f"{SHOWN}\n" + line * 3_000
    assert result.outcome.error == f"ValueError: {SHOWN}"
    assert KEY not in repr(result)
    (file,) = (tmp_path / "outputs").iterdir()
    assert KEY.encode() not in file.read_bytes()
    assert SHOWN.encode() in file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600


async def test_a_long_output_is_lost_and_not_written_where_its_file_was_replaced_by_a_link(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "outputs"

    class Planting(Printing):
        async def run(self, job, watcher):
            watcher.output(out("x" * 2**20))
            (file,) = folder.iterdir()
            file.unlink()
            file.symlink_to(victim)
            watcher.output(out("y" * 2**20))
            return Outcome()

    events = []
    async with Supervisor({CodeBlock: Planting()}, events.append, folder=folder) as supervisor:
        supervisor.launch(Job("b1", CodeBlock("x"), 1), 1)
        await supervisor.settled()
    assert victim.read_text() == "mine"
    (result,) = (event.result for event in events if isinstance(event, BlockFinished))
    assert "could not be written" in result.outcome.notes[0]
