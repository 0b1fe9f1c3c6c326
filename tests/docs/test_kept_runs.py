"""The runs that are kept with the examples, as strangers have them: shown, executed and said again."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys

import pytest
from doc_pages import DOCS, ROOT, fences_of
from schema import misfits

from codeact_kernel import Run
from codeact_kernel.cli import main
from codeact_kernel.testing import ScriptedEndpoint

RUNS = sorted((ROOT / "notebooks" / "runs").glob("*/run.ipynb"))
every_run = pytest.mark.parametrize("path", RUNS, ids=lambda path: path.parent.name)


@every_run
def test_a_kept_run_is_shown_again(path, capsys):
    assert misfits(json.loads(path.read_text("utf-8"))) == []
    assert main(["replay", str(path), "--speed", "0"]) == 0
    assert Run.load(path).answer in capsys.readouterr().out


@every_run
def test_as_a_program_it_runs_alone_and_gives_what_was_answered(path, tmp_path):
    program = tmp_path / "run.py"
    assert main(["export", str(path), "--format", "script", "--output", str(program)]) == 0
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 0, done.stderr
    assert Run.load(path).answer.rstrip(".").split()[-1] in done.stdout


@pytest.mark.kernel
def test_its_blocks_come_out_the_same_again(tmp_path, monkeypatch, capsys):
    (path,) = (run for run in RUNS if run.parent.name == "squares")  # the page executes the other one
    monkeypatch.chdir(tmp_path)
    assert main(["replay", str(path), "--execute"]) == 2
    assert main(["replay", str(path), "--execute", "--trust-record"]) == 0
    assert capsys.readouterr().out == "1 the same\n"


@pytest.mark.kernel
def test_a_newcomer_forks_a_stranger_s_run_and_sees_both_side_by_side_by_the_page_alone(
    tmp_path, monkeypatch, capsys
):
    """Types what stands at the top of docs/replay.md, with a model that has another opinion."""
    shutil.copytree(ROOT / "notebooks" / "runs", tmp_path / "notebooks" / "runs")
    monkeypatch.chdir(tmp_path)
    page = next(fence for fence in fences_of(DOCS / "replay.md") if fence.language == "sh")
    shown, executed, forked, compared = (shlex.split(line)[1:] for line in page.text.splitlines())
    with ScriptedEndpoint(["Apple has most letters."]) as endpoint:
        monkeypatch.setenv("LLM_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("LLM_API_KEY", "any")
        said = []
        for command, code in ((shown, 0), (executed, 0), (forked, 0), (compared, 1)):
            assert main(command) == code
            said.append(capsys.readouterr().out)
        (asked,) = endpoint.requests  # the first reply was the stranger's
    answer = Run.load(RUNS[-1]).answer
    assert answer in said[0]
    assert said[1:3] == ["1 the same\n", "Apple has most letters.\n"]
    assert "apple: 5" in asked.body["messages"][-1]["content"]
    one, other = (
        next(line for line in said[3].splitlines() if line.strip().startswith(mark)) for mark in ("=", "≠")
    )
    assert "turn 1" in one
    assert "turn 2" in other
    assert answer in other
    assert "Apple has most letters." in other


@pytest.mark.kernel
@every_run
def test_its_model_says_again_what_it_said(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--model", f"replay:{path}", "--run-dir", "again"]) == 0
    assert capsys.readouterr().out.strip() == Run.load(path).answer
    assert main(["diff", str(path), "again"]) == 0
