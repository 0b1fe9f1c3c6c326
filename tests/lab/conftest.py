"""A run, and a page that follows it."""

from __future__ import annotations

import pytest
from lab_page import Shown


@pytest.fixture
def shown():
    return Shown()
