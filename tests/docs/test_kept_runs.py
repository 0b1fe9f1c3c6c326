"""The runs that are kept with the examples, as strangers have them: shown, executed and said again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from schema import misfits

from codeact_kernel import Run
from codeact_kernel.cli import main

RUNS = sorted((Path(__file__).resolve().parents[2] / "notebooks" / "runs").glob("*/run.ipynb"))
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
@every_run
def test_its_blocks_come_out_the_same_again(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["replay", str(path), "--execute"]) == 2
    assert main(["replay", str(path), "--execute", "--trust-record"]) == 0
    assert capsys.readouterr().out == "1 the same\n"


@pytest.mark.kernel
@every_run
def test_its_model_says_again_what_it_said(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--model", f"replay:{path}", "--run-dir", "again"]) == 0
    assert capsys.readouterr().out.strip() == Run.load(path).answer
    assert main(["diff", str(path), "again"]) == 0
