"""`%agent` in JupyterLab, with all that there is between a model and a page."""

from __future__ import annotations

import re

import pytest

from codeact_kernel.testing import ScriptedEndpoint

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore")]


def expect(locator):
    from playwright.sync_api import expect

    return expect(locator)


def block(code, name):
    return f"<run_code id={name}>\n{code}\n</run_code>"


SAYS = [
    "Let me *look*.\n" + block("print(df.x.sum())", "look"),
    block(
        "import pathlib, time\nprint('it waits', flush=True)\n"
        "while not pathlib.Path('go-on').exists(): time.sleep(0.02)\nprint('and goes on')",
        "wait",
    ),
    block("import time\ntime.sleep(600)", "long"),
    "**Six.**",
]


def reply(asked):
    return SAYS[sum(message["role"] == "assistant" for message in asked.body["messages"])]


def test_a_run_in_the_page_through_an_approval_a_reload_and_a_block_that_is_stopped(open_notebook, server):
    with ScriptedEndpoint(reply) as endpoint:
        environment = {
            "CODEACT_MODEL": "scripted",
            "LLM_BASE_URL": endpoint.base_url,
            "LLM_API_KEY": "k",
            "CODEACT_DATA_DIR": str(server.folder / "data"),
        }
        notebook = open_notebook(
            f"import os\nos.environ |= {environment!r}\nimport pandas as pd\ndf = pd.DataFrame(dict(x=[1, 2, 3]))",
            "%agent -n df --sandbox none --approve ask add up df.x",
            "mine",
        )
        notebook.run(0)
        expect(notebook.prompt(0)).to_have_text("[1]:")
        notebook.run(1)
        page, bar = notebook.page, notebook.panel.locator(".codeact-Bar")
        question = notebook.panel.locator(".codeact-Question")
        expect(notebook.cell(2)).to_contain_text("Let me look.")
        for name in ("look", "wait"):
            expect(question).to_contain_text(f"Run {name}?")
            expect(question).not_to_have_class(re.compile("codeact-mod-new"))
            if name == "look":
                page.keyboard.press("Control+Alt+q")
            expect(question).to_be_focused()
            page.keyboard.press("y")
        expect(notebook.output(4)).to_contain_text("it waits")
        expect(notebook.prompt(4)).to_have_text("[*]:")
        notebook.save()
        page.reload()
        expect(bar).to_contain_text("Working")
        (server.folder / "go-on").touch()
        expect(notebook.output(4)).to_contain_text("and goes on")
        expect(question).to_contain_text("Run long?")
        question.focus()
        expect(question).not_to_have_class(re.compile("codeact-mod-new"))
        page.keyboard.press("y")
        expect(notebook.prompt(5)).to_have_text("[*]:")
        bar.get_by_role("button", name="Stop block").click()
        expect(notebook.cell(6)).to_contain_text("Six.")
        expect(bar).to_contain_text("Answered")
        expect(notebook.cell(7)).to_contain_text("mine")
        cells = notebook.save().cells
        assert cells[3].source == "print(df.x.sum())"
        assert cells[3].outputs[0].text == "6\n"
        states = [cell.metadata.codeact.get("state") for cell in cells[2:7]]
        assert states == [None, "ok", "ok", "cancelled", None]
