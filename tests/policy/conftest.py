"""Audits that lie in a folder of the test's own."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from codeact_kernel.policy import Audit, Head
from codeact_kernel.runfiles import Folder
from codeact_kernel.signing import Signer

SIGNER = Signer(b"k" * 32)


@pytest.fixture
def stage(tmp_path):
    """Opens audits in one folder, with a clock that counts."""
    folder = Folder.make(tmp_path / "run")
    opened = []

    def open_audit(name="audit.jsonl", signer=SIGNER, ledger=None, **options):
        count = itertools.count(1)
        audit = Audit(wall=lambda: float(next(count)), **options)
        audit.open(folder, name, signer, ledger)
        opened.append(audit)
        return audit

    yield SimpleNamespace(
        open=open_audit,
        path=folder.path / "audit.jsonl",
        folder=folder,
        signer=SIGNER,
        head=lambda audit, witness="the journal": Head(audit.lines, audit.head, witness),
    )
    for audit in opened:
        audit.close()
    folder.close()
