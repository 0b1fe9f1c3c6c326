"""A run as HTML and as text, where no page of ours shows it."""

from __future__ import annotations

from codeact_kernel.blocks import CodeBlock, DisplayOutput, ErrorOutput, StreamOutput
from codeact_kernel.events import BlockOutput, BlockQueued, ReplyDelta, TurnStarted
from codeact_kernel.lab.page import BAR, PICTURE, SIZE, as_html, as_text, bundle


def queued(name, code="1"):
    return BlockQueued(1, name, CodeBlock(code, id=name), 100.0)


def test_all_forms_tell_the_same_story(shown):
    shown(
        TurnStarted(1, 100.0),
        ReplyDelta(1, "I **look**.\n<run_code id=a>\nprint(2)\n</run_code>\n"),
        queued("a", "print(2)"),
    )
    shown(BlockOutput("a", StreamOutput("stdout", "2\n")))
    made = bundle(shown.cells)
    assert made[BAR]["run"] == "ck-1"
    assert made[BAR]["bar"]["state"] == "working"
    assert (
        made["text/plain"]
        == "I **look**.\n\n>>> print(2)\n2\n[a: queued]\n\n[agent works · 0s · 0 turns · 0 tokens]"
    )
    for part in ("<strong>look</strong>", "print(2)", "<pre>2\n</pre>"):
        assert part in made["text/html"]


def test_what_blocks_put_out_is_text_whatever_it_looks_like(shown):
    bad = "<script>alert(1)</script>"
    shown(queued("a", bad), BlockOutput("a", StreamOutput("stdout", bad)))
    shown(BlockOutput("a", DisplayOutput({"text/html": bad, "text/plain": bad, "image/png": '"><script>'})))
    shown(BlockOutput("a", ErrorOutput("E", bad, (bad, "\x1b[31mred\x1b[2J"))))
    shown(TurnStarted(1, 100.0), ReplyDelta(1, f"{bad} [x](javascript:alert(1))"))
    html = as_html(shown.cells, whole=True)
    assert "<script" not in html
    assert 'href="javascript' not in html
    assert "\x1b" not in html + as_text(shown.cells)


def test_of_a_long_run_the_newest_cells_are_shown_and_how_many_are_not(shown):
    for number in range(60):
        shown(queued(f"b{number}", f"# {number}\n" + "x" * 5000))
    html = as_html(shown.cells)
    assert len(html) < SIZE + 10_000
    assert "# 59" in html
    assert "# 0\n" not in html
    assert "more above; the record has them" in html
    assert "# 0\n" in as_html(shown.cells, whole=True)


def test_a_large_picture_is_shown_at_the_end(shown):
    data = {"image/png": "A" * (PICTURE + 1), "text/plain": "<Figure>"}
    shown(queued("a"), BlockOutput("a", DisplayOutput(data)))
    assert "<img" not in as_html(shown.cells)
    assert "&lt;Figure&gt;" in as_html(shown.cells)
    assert "<img" in as_html(shown.cells, whole=True)


def test_a_question_stands_in_the_output_too(shown):
    shown.cells.ask("q1", title="Run a?", why="the mode asks")
    assert "Run a?" in as_html(shown.cells)
