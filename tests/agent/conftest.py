"""What the tests of this room begin with."""

from __future__ import annotations

import pytest
from play import Play


@pytest.fixture
def play(tmp_path):
    return Play(tmp_path)
