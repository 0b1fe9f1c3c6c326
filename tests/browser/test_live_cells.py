"""An agent's blocks as live cells, in a real page; the kernel's side is played by `fake_agent`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import nbformat
import pytest
from lab import PATIENCE, Notebook

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


def test_code_streams_outputs_come_the_time_stays_and_sub_agents_hide_their_cells(live, server):
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
first = run.cell_op("**scout**: look", kind="agent")
second = run.cell_op("**reader**: read", kind="agent")
run.block("a1", under=first)
run.block("b1", under=second)
run.block("a2", under=first)
run.cell_op("Both are back.", kind="prose")
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
    # The cells of sub-agents that work side by side stand under their headings.
    expect(notebook.cell(9)).to_contain_text("Both are back.")
    expect(notebook.cell(4)).to_have_attribute("data-codeact-note", "2 cells")
    expect(notebook.cell(5)).to_be_hidden()
    notebook.cell(4).get_by_role("button", name="Show the sub-agent's cells").click()
    expect(notebook.cell(5)).to_be_visible()
    expect(notebook.cell(8)).to_be_hidden()
    expect(bar(notebook)).to_contain_text("Answered")
    saved = notebook.save()
    nbformat.validate(saved)
    sources = ["**scout**: look", "a1", "a2", "**reader**: read", "b1", "Both are back.", "mine"]
    assert [cell.source for cell in saved.cells[4:]] == sources
    assert [cell.id for cell in saved.cells[1:4]] == ["ck-r1-0", "ck-r1-1", "ck-r1-2"]
    mark = {"run": "r1", "kind": "prose", "block": None, "model": "fake", "turn": 1}
    assert saved.cells[1].metadata.codeact == mark
    assert saved.cells[2].metadata.tags == ["codeact", "skip-execution"]
    assert saved.cells[2].outputs == [nbformat.from_dict(stream("ab"))]


CONTRAST = """() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgb = colour => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = colour => {
        const linear = c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
        const [r, g, b] = rgb(colour).map(c => linear(c / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = node => {
        const colour = getComputedStyle(node).backgroundColor;
        return rgb(colour)[3] === 255 ? colour : behind(node.parentElement);
    };
    const speaks = node => [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
    const shown = [...document.querySelectorAll(".codeact-Bar *")]
        .filter(node => node.checkVisibility() && !node.disabled && speaks(node));
    return shown.map(node => {
        const [one, other] = [light(getComputedStyle(node).color), light(behind(node))].sort((a, b) => b - a);
        return [node.className || node.tagName, (one + 0.05) / (other + 0.05)];
    });
}"""
"""The contrast of each text in the bar, as WCAG counts it; what is disabled is left out, as there."""


def test_the_bars_buttons_and_its_questions_by_keyboard_while_the_cell_runs(live):
    notebook = live(
        """
run.set_bar(blocks=["dl"])
assert fa.wait_for("stop_block")["block"] == "dl"
run.set_bar(text="the block is stopped", blocks=[])
assert fa.wait_for("steer")["text"] == "skip page 7"
name = run.cell_op("df.to_csv('results.csv')")
run.ask(name)
first = fa.wait_for("answer")
run.asked("yes")
run.ask(name, "q2", title="Change report.py?", text=None, diff="-b = 2\\n+b = 3\\n", always=None)
second = fa.wait_for("answer")
run.asked("no", "q2")
print(first["question"], first["answer"], first["text"])
print(second["question"], second["answer"], second["reason"])
fa.wait_for("stop")
run.end("stopped", "as you said")
""",
        "mine",
    )
    page, shown = notebook.page, bar(notebook)
    expect(shown).to_contain_text("1 turn · 1.2k tokens · $0.020")
    expect(shown.get_by_role("meter")).to_have_attribute("aria-valuenow", "30")
    press(notebook, "Stop block")
    expect(shown).to_contain_text("the block is stopped")
    expect(shown.get_by_role("button", name="Stop block")).to_be_disabled()
    press(notebook, "Steer…")
    page.keyboard.type("skip page 7")
    page.keyboard.press("Enter")
    question = notebook.panel.locator(".codeact-Question")
    expect(question).to_contain_text("Write to results.csv?")
    expect(shown.get_by_role("status")).to_have_text("The agent asks: Write to results.csv?")
    # Keys elsewhere are what they are.
    notebook.cell(2).locator(".cm-content").click()
    page.keyboard.press("End")
    page.keyboard.type("y")
    expect(notebook.cell(2).locator(".cm-content")).to_have_text("miney")
    page.keyboard.press("Control+Alt+q")
    expect(question).to_be_focused()
    expect(question).not_to_have_class(re.compile("codeact-mod-new"))
    page.keyboard.press("e")
    page.keyboard.press("Control+End")
    page.keyboard.type("  # yes")
    page.keyboard.press("Escape")
    expect(question).to_be_focused()
    page.keyboard.press("y")
    expect(question).to_contain_text("Change report.py?")
    expect(question.locator(".codeact-mod-added")).to_have_text("+b = 3")
    expect(question.get_by_role("button", name="Always")).to_have_count(0)
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        page.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", theme
        )
        expect(page.locator("body")).to_have_attribute("data-jp-theme-name", theme)
        contrasts = page.evaluate(CONTRAST)
        assert len(contrasts) > 10
        assert not [found for found in contrasts if found[1] < 4.5], theme
    question.get_by_role("textbox").fill("not this one")
    page.keyboard.press("Enter")
    expect(question).to_have_count(0)
    expect(notebook.output(0).last).to_contain_text("q1 yes df.to_csv('results.csv')  # yes")
    expect(notebook.output(0).last).to_contain_text("q2 no not this one")
    press(notebook, "Stop")
    expect(shown).to_contain_text("Stopped")
    expect(shown.get_by_role("button", name="Stop", exact=True)).to_be_disabled()
    expect(notebook.prompt(0)).to_have_text("[1]:")
    assert len(notebook.save().cells) == 3


def test_pages_that_come_and_go_undo_and_deleted_cells_and_a_kernel_that_is_restarted(live, server):
    notebook = live(
        f"""
for number in range(3):
    run.block(f"block_{{number}}")
name = run.cell_op("block_3")
run.state(name, "running", time.time())
run.outputs(name, 0, {stream("t")!r})
wait_for_file("go-1")
run.outputs(name, 1, {stream("wo")!r})
wait_for_file("go-2")
run.state(name, "ok", 1.0, 1.0)
last = run.cell_op("block_4")
run.state(last, "running", time.time())
wait_for_file("go-3")
""",
        "mine",
    )
    page = notebook.page
    expect(notebook.output(4)).to_have_text("t")
    notebook.cell(2).locator(".jp-InputPlaceholder").click()
    notebook.command("notebook:delete-cell")
    expect(notebook.cell(4)).to_contain_text("mine")
    notebook.edit(4)
    page.keyboard.type(" = 1")
    page.keyboard.press("Control+z")
    notebook.save()
    # A second browser does not take the run away from this one.
    other = page.context.browser.new_page()
    other.goto(f"{server.url}lab/tree/{notebook.name}?token=secret&reset", timeout=PATIENCE * 1000)
    expect(other.locator(".codeact-Bar")).to_contain_text("Another page shows this run.")
    # The page is loaded again in the middle of the run, and catches up.
    page.reload()
    go(server, "go-1")
    expect(notebook.output(3)).to_have_text("two")
    go(server, "go-2")
    expect(notebook.cell(3)).to_have_attribute("data-codeact-note", "0.0 s")
    expect(notebook.prompt(4)).to_have_text("[*]:")
    # It has what it opened, and with collaboration what the first one has put in: nothing twice.
    assert other.locator(".codeact-Cell").count() in (3, 4)
    other.close()
    kept = [code for code in codes(notebook) if code.startswith("block")]
    assert kept == ["block_0", "block_2", "block_3", "block_4"]
    assert notebook.server.read(notebook.name).cells[0].metadata.codeact == {
        "agent": "r1", "cells": 5, "complete": False
    }  # fmt: skip
    notebook.press("restart")
    page.locator(".jp-Dialog .jp-mod-accept").click()
    expect(bar(notebook)).to_contain_text("Not connected")
    expect(bar(notebook)).to_contain_text("The kernel has gone away, or was restarted.")
    expect(bar(notebook).get_by_role("button", name="Stop", exact=True)).to_be_disabled()
    expect(notebook.prompt(4)).to_have_text("[ ]:")
    # A server that ends while a kernel starts again does not end.
    expect(notebook.kernel_status).to_have_attribute("data-status", "idle")


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


def test_in_notebook_7_cells_are_kept_run_again_by_choice_and_removed(live, server, page):
    server.write(
        "seven.ipynb",
        BEGIN
        + f"""
run.block("x = 41 + 1", {stream("?")!r})
run.block("1 / 0", state="error")
run.end()
""",
        kernel="python3",
    )
    seven = page.context.browser.new_page(viewport={"width": 1200, "height": 900})
    seven.goto(f"{server.url}notebooks/seven.ipynb?token=secret", timeout=PATIENCE * 1000)
    notebook = Notebook(seven, server, "seven.ipynb")
    expect(notebook.kernel_status).to_have_attribute("data-status", "idle")
    notebook.run(0)
    expect(bar(notebook)).to_contain_text("Answered")
    expect(notebook.cell(2).locator(".cm-content")).to_have_text("1 / 0")
    # What came of the cell before stays, folded, below what comes now.
    notebook.run(0)
    expect(notebook.panel.locator(".codeact-Cell")).to_have_count(4)
    expect(notebook.cell(4).locator(".cm-content")).to_be_hidden()
    expect(notebook.cell(2).locator(".cm-content")).to_have_text("1 / 0")
    press(notebook, "Fold")
    expect(notebook.cell(2).locator(".cm-content")).to_be_hidden()
    press(notebook, "Unfold")
    notebook.run(1)
    note = "run in your kernel (Python 3 (ipykernel)); it was written and run in the agent's"
    expect(notebook.cell(1)).to_have_attribute("data-codeact-note", note)
    for entry in ("Keep as My Cells", "Remove the Cells of This Run"):
        press(notebook, "More")
        seven.locator(".lm-Menu").get_by_text(entry).click()
    expect(notebook.panel.locator(".codeact-Cell")).to_have_count(2)
    expect(notebook.cell(1)).to_contain_text("x = 41 + 1")
    expect(notebook.cell(1)).not_to_have_class(re.compile("codeact-Cell"))
    seven.close()
