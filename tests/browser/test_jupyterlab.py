"""JupyterLab on our kernel, as a person uses it, while an agent's blocks run there."""

from __future__ import annotations

import re
import time

import pytest
from lab import SIGHT

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore")]

HOLD = "import time\nwhile not go_on: time.sleep(0.01)"


def expect(locator):
    from playwright.sync_api import expect

    return expect(locator)


def until(act, seen):
    """Do something, again where needed, until its effect is seen: the page drops answers that come after a second."""
    end = time.monotonic() + SIGHT
    while not seen():
        assert time.monotonic() < end
        act()
        for _ in range(15):
            if not seen():
                time.sleep(0.1)


def test_cells_completion_and_inspection_while_a_block_holds_the_main_thread(open_notebook, server):
    notebook = open_notebook(
        "go_on = False\nspecial_name = 6 * 7\nspecial_name", "print('beside')", "special_na"
    )
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("42")
    with server.beside(notebook.name) as agent:
        block = agent.block(HOLD, "a", lane="main")
        agent.until("execute_input", of=block)
        notebook.run(1)
        expect(notebook.output(1)).to_have_text(re.compile("beside"))
        expect(notebook.prompt(1)).to_have_text("[3]:")
        notebook.edit(2)
        completer = notebook.page.locator(".jp-Completer:not(.lm-mod-hidden)")
        until(lambda: notebook.page.keyboard.press("Tab"), completer.is_visible)
        expect(completer).to_contain_text("special_name")
        notebook.page.keyboard.press("Enter")
        expect(notebook.cell(2).locator(".cm-content")).to_have_text("special_name")
        notebook.page.keyboard.press("Shift+Tab")
        expect(notebook.page.locator(".jp-Tooltip")).to_contain_text("int")
        notebook.page.keyboard.press("Escape")
        agent.run("go_on = True")
        assert agent.text(block) == ""


def test_the_interrupt_button_ends_a_cell_and_restart_gives_a_fresh_namespace(open_notebook):
    notebook = open_notebook("kept = 1\nwhile True: pass", "print(kept)", "print('kept' in globals())")
    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[*]:")
    expect(notebook.kernel_status).to_have_attribute("data-status", "busy")
    notebook.press("interrupt")
    expect(notebook.output(0)).to_contain_text("KeyboardInterrupt")
    notebook.run(1)
    expect(notebook.output(1)).to_have_text("1")
    notebook.press("restart")
    notebook.page.locator(".jp-Dialog .jp-mod-accept").click()
    expect(notebook.kernel_status).to_have_attribute("data-status", "idle")
    notebook.run(2)
    expect(notebook.output(2)).to_have_text("False")


def test_a_widget_and_a_subshell_console_beside_a_busy_cell_and_a_block(open_notebook, server):
    notebook = open_notebook(
        "import ipywidgets\ngo_on = False\nipywidgets.IntSlider(value=4, description='size')",
        "import time\nwhile not go_on: time.sleep(0.01)",
    )
    notebook.run(0)
    expect(notebook.output(0).locator(".widget-slider .widget-label")).to_have_text("size")
    expect(notebook.output(0).locator(".widget-readout")).to_have_text("4")
    with server.beside(notebook.name) as agent:
        block = agent.block(HOLD, "a", lane="main")
        agent.until("execute_input", of=block)
        notebook.run(1)
        expect(notebook.prompt(1)).to_have_text("[*]:")
        notebook.command("notebook:create-subshell-console")
        console = notebook.page.locator(".jp-ConsolePanel")
        expect(console.locator(".jp-CodeConsole-banner")).to_contain_text("Python 3")
        # The widget's comm gets a subshell, too: what counts is that the console has its own.
        assert notebook.subshell_of_console() in agent.control("list_subshell_request")["subshell_id"]
        console.locator(".jp-CodeConsole-promptCell .cm-content").click()
        notebook.page.keyboard.type("6 * 111")
        notebook.page.keyboard.press("Shift+Enter")
        expect(console.locator(".jp-OutputArea-output")).to_have_text("666")
        console.locator(".jp-CodeConsole-promptCell .cm-content").click()
        notebook.page.keyboard.type("go_on = True")
        notebook.page.keyboard.press("Shift+Enter")
        expect(notebook.prompt(1)).not_to_have_text("[*]:")
        assert agent.text(block) == ""


def test_the_debugger_stops_a_cell_shows_its_variables_and_lets_a_block_go_on(open_notebook, server):
    notebook = open_notebook("go_on, beats = False, 0", "inside = 20\noutside = inside + 1\nprint(outside)")
    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[1]:")
    page = notebook.page
    with server.beside(notebook.name) as agent:
        block = agent.block(
            "import time\nwhile not go_on:\n    beats += 1\n    time.sleep(0.01)", "a", lane="main"
        )
        agent.until("execute_input", of=block)
        notebook.panel.locator(".jp-DebuggerBugButton").click()
        variables = page.locator(".jp-DebuggerVariables")
        expect(variables).to_contain_text("beats")
        notebook.cell(1).locator(".cm-breakpoint-gutter .cm-gutterElement").nth(2).click()
        expect(page.locator(".jp-DebuggerBreakpoints")).to_contain_text("Cell")
        notebook.run(1)
        expect(page.locator(".jp-DebuggerCallstack")).to_contain_text("<module>")
        expect(variables).to_contain_text("inside")
        before = int(
            agent.run("print(beats)", subshell=agent.control("create_subshell_request")["subshell_id"])
        )
        subshell = agent.control("list_subshell_request")["subshell_id"][-1]
        agent.run(f"while beats <= {before}: time.sleep(0.01)", subshell=subshell)
        page.locator("[data-command='debugger:continue'] >> visible=true").first.click()
        expect(notebook.output(1)).to_have_text("21")
        agent.run("go_on = True")
        assert agent.text(block) == ""
        notebook.panel.locator(".jp-DebuggerBugButton").click()
