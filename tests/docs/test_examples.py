"""The documentation's examples run, and print what the pages say that they print."""

from __future__ import annotations

import os

import pytest
from doc_examples import Reader, check, read_back, same
from doc_pages import DOCS, ROOT, examples_of, exchanges_of, fences_of

pytestmark = pytest.mark.kernel

PAGES = sorted(DOCS.rglob("*.md"))


def pages_with(what):
    pages = [page for page in PAGES if what(fences_of(page))]
    return pytest.mark.parametrize("page", pages, ids=[str(page.relative_to(ROOT)) for page in pages])


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder to run in, and none of the user's own settings, models and keys."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    before = dict(os.environ)
    for name in ("CODEACT_MODEL", "LLM_API_KEY", "OPENAI_API_KEY", "LLM_BASE_URL", "OPENAI_BASE_URL"):
        os.environ.pop(name, None)
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    yield workspace
    os.environ.clear()
    os.environ.update(before)


@pages_with(examples_of)
def test_the_examples_of_a_page_run_and_print_what_it_shows(page, place):
    if "from mcp import" in page.read_text("utf-8"):
        pytest.importorskip("mcp", reason="the extra mcp is not installed")
    if "codeact_kernel.otel" in page.read_text("utf-8"):
        pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
    reader = Reader(page)
    try:
        for example, shown in examples_of(fences_of(page)):
            check(example, shown, reader.run(example))
    finally:
        reader.close()


def test_the_example_of_the_readme_runs_with_functions_and_data_of_a_reader(place):
    def search(text):
        """Search."""
        return [text]

    def read_file(path):
        """Read a file."""
        return path

    ((example, _),) = examples_of(fences_of(ROOT / "README.md"))
    block = "<run_code>\nprint(search('May'), read_file('a.txt'), sum(df))\n</run_code>"
    reader = Reader(example.page, search=search, read_file=read_file, df=[1, 2])
    try:
        printed = reader.run(example, [block, "Page 7 has changed."])
    finally:
        reader.close()
    assert printed.startswith("Page 7 has changed. Usage(")


@pages_with(exchanges_of)
async def test_what_the_model_writes_and_reads_on_a_page_is_what_happens(page, place):
    for number, (reply, reading) in enumerate(exchanges_of(fences_of(page))):
        folder = place / str(number)
        folder.mkdir()
        read = await read_back(reply.text, folder)
        where = f"{page.name}, line {reading.line}"
        assert same(read) == same(reading.text), f"{where}: the model reads\n{read}"
