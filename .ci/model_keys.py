"""Keys of services that this project deals with, for detect-secrets, which does not know all of them.

Comes in: text. Goes out: what looks like such a key.
"""

from __future__ import annotations

import re

from detect_secrets.plugins.base import RegexBasedDetector


class ModelKeyDetector(RegexBasedDetector):
    """Keys of model services, of package indexes and of forges, and the first line of a private one."""

    secret_type = "Key of a service"
    denylist = (
        re.compile(r"\bsk-(?:proj-|svcacct-|admin-|ant-|or-v1-)?[A-Za-z0-9_-]{32,}"),
        re.compile(r"\bhf_[A-Za-z0-9]{30,}"),
        re.compile(r"\bAIza[A-Za-z0-9_-]{35}"),
        re.compile(r"\bgsk_[A-Za-z0-9]{40,}"),
        re.compile(r"\btvly-[A-Za-z0-9-]{20,}"),
        re.compile(r"\bpypi-AgE[A-Za-z0-9_-]{50,}"),
        re.compile(r"\bgh[pousr]_[A-Za-z0-9]{36}|\bgithub_pat_[A-Za-z0-9_]{60,}"),
        re.compile(r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY-----"),
        re.compile(r"\bglpat-[A-Za-z0-9_-]{20,}"),
    )
