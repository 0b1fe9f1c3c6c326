"""`codeact install`: a kernelspec that Jupyter finds, and that starts our kernel."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import run_kernel

from codeact_kernel.kernels.install import find_spec, install_kernelspec


def test_the_spec_is_put_below_a_prefix_with_the_python_that_installs_it(codeact, tmp_path):
    said = codeact("install", "--prefix", tmp_path / "env")
    place = tmp_path / "env" / "share" / "jupyter" / "kernels" / "codeact"
    assert (said.code, said.out) == (0, f"{place}\n")
    assert "JUPYTER_PATH=" in said.line
    spec = json.loads((place / "kernel.json").read_text())
    module = ["-Xfrozen_modules=off", "-m", "codeact_kernel.inkernel"]
    assert spec["argv"] == [sys.executable, *module, "-f", "{connection_file}", "--CodeactApp.magic=True"]
    assert spec["interrupt_mode"] == "message"
    assert {path.name for path in place.iterdir()} == {
        "kernel.json", "logo-32x32.png", "logo-64x64.png", "logo-svg.svg",
    }  # fmt: skip


def test_it_goes_where_jupyter_looks_for_the_user_and_for_this_environment(codeact, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    said = codeact("install", "--user", "--name", "Mine")
    assert (said.code, said.err) == (0, "")
    assert said.out == f"{tmp_path / 'data' / 'kernels' / 'mine'}\n"
    assert KernelSpecManager().get_kernel_spec("mine").argv[0] == sys.executable
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    said = codeact("install", "--sys-prefix")
    assert said.out.startswith(str(tmp_path / "env"))


def test_an_older_one_is_replaced_even_by_itself(tmp_path, monkeypatch):
    place, _ = install_kernelspec(prefix=str(tmp_path))
    (place / "old").touch()
    monkeypatch.setattr("codeact_kernel.kernels.install.find_spec", lambda: place)
    again, _ = install_kernelspec(prefix=str(tmp_path))
    assert again == place
    assert (place / "kernel.json").exists()


def test_the_source_tree_has_the_spec_where_nothing_is_installed(monkeypatch):
    monkeypatch.setattr("codeact_kernel.kernels.install._DISTRIBUTION", "no-such-distribution")
    assert (find_spec() / "kernel.json").is_file()
    assert find_spec().name == "kernelspec"


@pytest.mark.kernel
def test_a_stock_client_runs_code_in_the_kernel_that_was_installed(codeact, tmp_path, monkeypatch):
    codeact("install", "--prefix", tmp_path / "env", "--name", "installed")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "env" / "share" / "jupyter"))
    outputs = []
    with run_kernel(kernel_name="installed", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as client:
        client.execute_interactive("print(6 * 7)", timeout=60, output_hook=outputs.append)
        info = client.kernel_info(reply=True, timeout=60)
    assert [m["content"]["text"] for m in outputs if m["msg_type"] == "stream"] == ["42\n"]
    assert info["content"]["implementation"] == "codeact-kernel"
