"""Counts: small ones unless CODEACT_STRESS is "full"."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def times():
    """Picks a count: `times(reduced, full)`."""
    full = os.environ.get("CODEACT_STRESS") == "full"
    return lambda reduced, stated: stated if full else reduced
