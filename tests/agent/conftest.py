"""What the tests of this room begin with."""

from __future__ import annotations

import json

import pytest
from play import Play
from schema import misfits


@pytest.fixture
def play(tmp_path):
    return Play(tmp_path)


@pytest.fixture(autouse=True)
def _every_record_is_as_the_documentation_says(request):
    """The notebooks of all runs of a test, those of sub-agents too, fit the schema of the record."""
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    for path in folder.rglob("run.ipynb") if folder else ():
        assert misfits(json.loads(path.read_text())) == [], path
