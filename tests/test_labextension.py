"""JupyterLab's extension as it is committed and packed. How it works is tested in tests/browser."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from codeact_kernel import __version__

ROOT = Path(__file__).parents[1]
BUILT = ROOT / "labextension" / "built"
SIZE = 200_000
"""Bytes that all of its scripts may have together."""


def test_the_built_extension_is_of_this_version_and_can_be_loaded():
    package = json.loads((BUILT / "package.json").read_text())
    assert package["version"] == __version__
    load = package["jupyterlab"]["_build"]["load"]
    assert (BUILT / load).is_file()


def test_the_bundle_stays_small():
    sizes = {file.name: file.stat().st_size for file in (BUILT / "static").glob("*.js")}
    assert sum(sizes.values()) < SIZE, sizes


def test_the_wheel_has_it_where_jupyterlab_looks_and_the_sdist_has_what_it_is_made_of():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    shared = build["wheel"]["shared-data"]
    assert shared["labextension/built"] == "share/jupyter/labextensions/codeact-kernel"
    assert shared["labextension/install.json"] == "share/jupyter/labextensions/codeact-kernel/install.json"
    assert "/labextension" in build["sdist"]["include"]


def test_no_setting_of_the_page_is_a_key():
    schema = json.loads((ROOT / "labextension" / "schema" / "plugin.json").read_text())
    assert not [name for name in schema["properties"] if "key" in name.lower()]
