"""A run that is read from its record."""

import shutil
from html.parser import HTMLParser

import pytest
from records import EVIL, played, told, written

from codeact_kernel import Run
from codeact_kernel.errors import ConfigError, RecordError
from codeact_kernel.record import to_notebook
from codeact_kernel.testing import jumping

PROTOCOLS = pytest.mark.parametrize("protocol", ["tags", "tools"])


@PROTOCOLS
@jumping
async def test_folder_journal_and_notebook_tell_of_the_same_run(play, tmp_path, protocol):
    events = await played(play, protocol)
    folder, live = written(tmp_path / "run", events), told(events)
    shutil.copy(folder / "run.ipynb", tmp_path / "alone.ipynb")
    for path in (folder, folder / "journal.jsonl", folder / "run.ipynb", str(tmp_path / "alone.ipynb")):
        run = Run.load(path)
        assert (run.task, run.stop, run.answer) == (f"Do it. {EVIL}", "answered", "Done & done.")
        assert run.usage == live.usage
        assert [turn.number for turn in run.turns] == [1, 2]
        assert [(block.id, block.result.status) for block in run.blocks] == [("a", "ok"), ("b", "error")]
        assert run.transcript.entries[1].parts == live.entries[1].parts
        assert run.to_notebook() == to_notebook(live)


@PROTOCOLS
@jumping
async def test_the_messages_are_those_that_the_model_read(play, tmp_path, protocol):
    folder = written(tmp_path / "run", await played(play, protocol))
    read = [(message.role, message.content) for message in play.model.requests[-1].messages]
    for path in (folder, folder / "run.ipynb"):
        run = Run.load(path)
        messages = run.messages()
        assert [(message["role"], message["content"]) for message in messages[:-1]] == read
        assert messages[-1] == {"role": "assistant", "content": "Done & done."}
        assert run.messages(system=False) == messages[1:]
        assert run.messages() == messages
        assert run.samples() == [messages]
    if protocol == "tools":
        calls = [message.get("tool_calls", []) for message in messages]
        assert [call["id"] for call in calls[2]] == ["call_a", "call_b"]
        assert [message.get("tool_call_id") for message in messages[3:5]] == ["call_a", "call_b"]


@jumping
async def test_a_compaction_begins_a_sample_of_its_own(play, tmp_path):
    def compact(request):
        play.context.compact("I know that.")
        return "<run_code>\nprint('x')\n</run_code>"

    folder = written(tmp_path / "run", await played(play, "tags", [compact, "Done."]))
    first, second = Run.load(folder).samples(system=False)
    assert [message["role"] for message in first] == ["user", "assistant"]
    assert "I know that." in second[0]["content"]
    assert second[-1]["content"] == "Done."


@jumping
async def test_a_frame_has_a_row_for_each_block(play, tmp_path):
    frame = Run.load(written(tmp_path / "run", await played(play, "tags"))).frame()
    assert list(frame["id"]) == ["a", "b"]
    assert list(frame["status"]) == ["ok", "error"]
    assert list(frame["output"]) == ["é <b>\n<Figure>\n42\n", "x\nValueError: no\n"]
    assert str(frame["queued"].dtype).endswith("UTC]")


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)


@jumping
async def test_its_page_is_small_and_everything_in_it_is_text(play, tmp_path):
    events = await played(play, "tags")
    page = Run.load(written(tmp_path / "run", events))._repr_html_()
    reader = _Tags()
    reader.feed(page)
    assert reader.tags == {
        *("div", "h3", "h4", "table", "tr", "th", "td", "img", "details", "summary", "pre", "p")
    }
    assert "é &lt;b&gt;" in page
    assert "\x1b" not in page
    assert len(page) < 12_000


def test_what_is_no_record_is_said(tmp_path):
    with pytest.raises(ConfigError, match="there is no record"):
        Run.load(tmp_path / "none")
    with pytest.raises(ConfigError, match="there is no record"):
        Run.load(tmp_path)
    (tmp_path / "other.ipynb").write_text("{}")
    with pytest.raises(RecordError):
        Run.load(tmp_path / "other.ipynb")
    (tmp_path / "journal.jsonl").write_text("{}\n")
    with pytest.raises(ConfigError, match="tells of no run"):
        Run.load(tmp_path)
