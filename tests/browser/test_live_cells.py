"""An agent's blocks as live cells, in a real page; the kernel's side is played by `fake_agent`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import nbformat
import pytest
from lab import PATIENCE

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore")]

BEGIN = """
import time
import fake_agent as fa
from fake_agent import wait_for_file
fa.wait_for_page()
run = fa.Run()
"""


def expect(locator):
    from playwright.sync_api import expect

    return expect(locator)


def stream(text):
    return {"output_type": "stream", "name": "stdout", "text": text}


@pytest.fixture
def live(open_notebook, server):
    """Opens a notebook of a stock kernel whose first cell plays what is given, and runs it."""
    shutil.copy(Path(__file__).with_name("fake_agent.py"), server.folder)

    def open_it(story, *more):
        notebook = open_notebook(BEGIN + story, *more, kernel="python3")
        notebook.run(0)
        return notebook

    yield open_it
    for file in server.folder.glob("go-*"):
        file.unlink()


def bar(notebook):
    return notebook.panel.locator(".codeact-Bar")


def press(notebook, name):
    bar(notebook).get_by_role("button", name=name, exact=True).click()


def go(server, name):
    """Let the story go on."""
    (server.folder / name).touch()


def codes(notebook):
    return [cell.source for cell in notebook.save().cells]


def test_code_streams_outputs_come_and_the_time_stays(live, server):
    notebook = live(
        f"""
run.cell_op("I *look* at it.", kind="prose", model="fake", turn=1)
name = run.cell_op("")
run.state(name, "writing")
run.source(name, 0, "print(")
run.source(name, 6, "'a')")
wait_for_file("go-1")
start = time.time()
run.state(name, "running", start)
run.outputs(name, 0, {stream("a")!r})
run.outputs(name, 1, {stream("b")!r})
wait_for_file("go-2")
run.state(name, "ok", start, start + 1.44)
last = run.cell_op("1 / 0")
run.outputs(last, 0, dict(output_type="error", ename="E", evalue="e", traceback=["no"]))
run.state(last, "error", start, start + 0.2)
run.end()
""",
        "mine",
    )
    expect(notebook.cell(1)).to_contain_text("I look at it.")
    expect(notebook.cell(2).locator(".cm-content")).to_have_text("print('a')")
    expect(notebook.cell(2)).to_have_attribute("data-codeact-note", "being written")
    expect(notebook.prompt(2)).to_have_text("[ ]:")
    expect(notebook.prompt(0)).to_have_text("[*]:")
    go(server, "go-1")
    expect(notebook.output(2)).to_have_text("ab")
    expect(notebook.prompt(2)).to_have_text("[*]:")
    expect(notebook.cell(2)).to_have_attribute("data-codeact-note", re.compile(r"running · \d+\.\d s"))
    go(server, "go-2")
    expect(notebook.cell(3)).to_have_attribute("data-codeact-note", "error · 0.2 s")
    expect(notebook.output(3)).to_have_text("no")
    # What has ended well has folded, and what has failed has not.
    expect(notebook.cell(2)).to_have_attribute("data-codeact-note", "1.4 s")
    expect(notebook.output(2)).to_be_hidden()
    expect(notebook.cell(2)).to_contain_text("print('a')")
    expect(bar(notebook)).to_contain_text("Answered")
    saved = notebook.save()
    nbformat.validate(saved)
    assert [cell.id for cell in saved.cells[1:4]] == ["ck-r1-1", "ck-r1-2", "ck-r1-3"]
    assert saved.cells[1].metadata.codeact == {
        "run": "r1", "kind": "prose", "block": None, "model": "fake", "turn": 1
    }  # fmt: skip
    assert saved.cells[2].metadata.tags == ["codeact", "skip-execution"]
    assert saved.cells[2].outputs == [nbformat.from_dict(stream("ab"))]
    assert saved.cells[4].source == "mine"


def test_the_cells_of_a_sub_agent_stand_under_its_heading_which_hides_them(live):
    notebook = live(
        """
first = run.cell_op("**scout**: look", kind="agent")
second = run.cell_op("**reader**: read", kind="agent")
run.block("a1", under=first)
run.block("b1", under=second)
run.block("a2", under=first)
run.cell_op("Both are back.", kind="prose")
run.end()
"""
    )
    expect(notebook.cell(6)).to_contain_text("Both are back.")
    assert codes(notebook)[1:] == ["**scout**: look", "a1", "a2", "**reader**: read", "b1", "Both are back."]
    expect(notebook.cell(1)).to_have_attribute("data-codeact-note", "2 cells")
    expect(notebook.cell(2)).to_be_hidden()
    toggle = notebook.cell(1).get_by_role("button", name="Show the sub-agent's cells")
    toggle.click()
    expect(notebook.cell(3)).to_be_visible()
    expect(notebook.cell(5)).to_be_hidden()


def test_what_the_bars_buttons_say_arrives_while_the_cell_runs(live):
    notebook = live(
        """
run.set_bar(blocks=["dl"])
assert fa.wait_for("stop_block")["block"] == "dl"
run.set_bar(text="the block is stopped", blocks=[])
assert fa.wait_for("steer")["text"] == "skip page 7"
run.set_bar(text="steered")
fa.wait_for("stop")
run.end("stopped", "as you said")
"""
    )
    shown = bar(notebook)
    expect(shown).to_contain_text("1 turn · 1.2k tokens · $0.020")
    expect(shown.get_by_role("meter")).to_have_attribute("aria-valuenow", "30")
    press(notebook, "Stop block")
    expect(shown).to_contain_text("the block is stopped")
    expect(shown.get_by_role("button", name="Stop block")).to_be_disabled()
    press(notebook, "Steer…")
    notebook.page.keyboard.type("skip page 7")
    notebook.page.keyboard.press("Enter")
    expect(shown).to_contain_text("steered")
    press(notebook, "Stop")
    expect(shown).to_contain_text("Stopped")
    expect(shown.get_by_role("button", name="Stop", exact=True)).to_be_disabled()
    expect(notebook.prompt(0)).to_have_text("[1]:")


def test_a_question_is_answered_by_keyboard_and_only_where_it_has_the_focus(live):
    notebook = live(
        """
name = run.cell_op("df.to_csv('results.csv')")
run.ask(name)
first = fa.wait_for("answer")
run.asked("yes")
run.ask(name, "q2", title="Change report.py?", text=None, diff="-b = 2\\n+b = 3\\n", always=None)
second = fa.wait_for("answer")
run.asked("no", "q2")
run.end()
print(first["question"], first["answer"], first["text"])
print(second["question"], second["answer"], second["reason"])
""",
        "mine",
    )
    page = notebook.page
    question = notebook.panel.locator(".codeact-Question")
    expect(question).to_contain_text("Write to results.csv?")
    expect(bar(notebook).get_by_role("status")).to_have_text("The agent asks: Write to results.csv?")
    # Keys elsewhere are what they are.
    notebook.cell(2).locator(".cm-content").click()
    page.keyboard.press("End")
    page.keyboard.type("y")
    expect(notebook.cell(2).locator(".cm-content")).to_have_text("miney")
    page.keyboard.press("Control+Alt+q")
    expect(question).to_be_focused()
    page.keyboard.press("e")
    page.keyboard.press("Control+End")
    page.keyboard.type("  # yes")
    page.keyboard.press("Escape")
    expect(question).to_be_focused()
    page.keyboard.press("y")
    expect(question).to_contain_text("Change report.py?")
    expect(question.locator(".codeact-mod-added")).to_have_text("+b = 3")
    expect(question.get_by_role("button", name="Always")).to_have_count(0)
    question.get_by_role("textbox").fill("not this one")
    page.keyboard.press("Enter")
    expect(question).to_have_count(0)
    expect(notebook.output(0).last).to_contain_text("q1 yes df.to_csv('results.csv')  # yes")
    expect(notebook.output(0).last).to_contain_text("q2 no not this one")
    assert len(notebook.save().cells) == 3


def test_undo_leaves_the_cells_and_what_was_deleted_does_not_come_back(live, server):
    notebook = live(
        """
for number in range(3):
    run.block(f"block_{number}")
wait_for_file("go-1")
run.block("block_3")
run.end()
""",
        "mine",
    )
    expect(notebook.cell(4)).to_contain_text("mine")
    notebook.cell(2).locator(".jp-InputPrompt, .jp-Placeholder-prompt").first.click()
    notebook.command("notebook:delete-cell")
    expect(notebook.cell(3)).to_contain_text("mine")
    notebook.cell(3).locator(".cm-content").click()
    notebook.page.keyboard.press("End")
    notebook.page.keyboard.type(" = 1")
    notebook.page.keyboard.press("Control+z")
    # The page is loaded again, in the middle of the run, and the server has forgotten nothing.
    notebook.save()
    notebook.page.reload()
    expect(notebook.cell(3)).to_contain_text("mine")
    go(server, "go-1")
    expect(bar(notebook)).to_contain_text("Answered")
    kept = codes(notebook)
    assert [code for code in kept[1:] if "block" in code] == ["block_0", "block_2", "block_3"]
    assert notebook.save().cells[0].metadata.codeact == {"agent": "r1", "cells": 4, "complete": True}


def test_a_page_that_comes_in_the_middle_catches_up_and_a_second_one_doubles_nothing(live, server):
    notebook = live(
        f"""
run.block("block_1", {stream("one")!r})
name = run.cell_op("block_2")
run.state(name, "running", time.time())
run.outputs(name, 0, {stream("t")!r})
wait_for_file("go-1")
run.outputs(name, 1, {stream("wo")!r})
wait_for_file("go-2")
run.state(name, "ok", time.time(), time.time())
run.set_bar(text="go on")
fa.wait_for("stop")
run.end("stopped")
"""
    )
    expect(notebook.output(2)).to_have_text("t")
    notebook.save()
    # A second browser does not take the run away from this one.
    other = notebook.page.context.browser.new_page()
    other.goto(f"{server.url}lab/tree/{notebook.name}?token=secret&reset", timeout=PATIENCE * 1000)
    expect(other.locator(".codeact-Bar")).to_contain_text("Another page shows this run.")
    notebook.page.reload()
    go(server, "go-1")
    expect(notebook.output(2)).to_have_text("two")
    go(server, "go-2")
    expect(notebook.cell(2)).to_have_attribute("data-codeact-note", "0.0 s")
    press(notebook, "Stop")
    expect(bar(notebook)).to_contain_text("Stopped")
    assert codes(notebook)[1:] == ["block_1", "block_2"]
    expect(other.locator(".codeact-Cell")).to_have_count(2)
    other.close()


LONG_TASKS = """() => {
    window.long_ = [0];
    new PerformanceObserver(list => window.long_.push(...list.getEntries().map(entry => entry.duration)))
        .observe({ entryTypes: ["longtask"] });
}"""
"""Notes how long the page could not be used, in milliseconds, wherever that was 50 or more."""


def test_300_blocks_with_1000_outputs_stay_smooth_and_all_arrive(live):
    notebook = live(
        """
wait_for_file("go-1")
for number in range(300):
    name = run.cell_op(f"block_{number}")
    run.state(name, "running", time.time())
    for line in range(4 if number % 3 else 2):
        run.outputs(name, min(line, 1), dict(output_type="stream", name="stdout", text=f"{line}\\n"))
    run.state(name, "ok", time.time(), time.time() + 1)
    if number % 20 == 19:
        fa.wait_until_had(run)
run.end()
fa.wait_until_had(run)
"""
    )
    notebook.page.evaluate(LONG_TASKS)
    go(notebook.server, "go-1")
    expect(notebook.prompt(0)).to_have_text("[1]:", timeout=60_000)
    held = notebook.page.evaluate("window.long_")
    print(f"{len(held) - 1} long tasks, the longest {max(held):.0f} ms")
    assert max(held) < 1500
    saved = notebook.save()
    assert len(saved.cells) == 301
    assert saved.cells[300].outputs[0].text == "0\n1\n2\n3\n"


def test_cells_are_kept_run_again_by_choice_and_removed(live):
    notebook = live(
        f"""
run.block("x = 41 + 1", {stream("?")!r})
run.block("1 / 0", state="error")
run.end()
"""
    )
    expect(bar(notebook)).to_contain_text("Answered")
    expect(notebook.cell(2)).to_contain_text("1 / 0")
    notebook.command("codeact:unfold")
    notebook.run(1)
    note = "run in your kernel (Python 3 (ipykernel)); it was written and run in the agent's"
    expect(notebook.cell(1)).to_have_attribute("data-codeact-note", note)
    notebook.command("codeact:keep")
    expect(notebook.cell(3)).to_contain_text("x = 41 + 1")
    kept = notebook.save().cells[3]
    assert kept.metadata == {}
    bar(notebook).get_by_role("button", name="More").click()
    notebook.page.locator(".lm-Menu").get_by_text("Remove the Cells of This Run").click()
    expect(notebook.panel.locator(".codeact-Cell")).to_have_count(0)
    assert codes(notebook)[1:] == ["x = 41 + 1"]
