"""Sizes of memory and numbers of tokens, as people write and read them.

Comes in: a text such as "4GB" or "200k", or a number of bytes. Goes out: the other.
"""

from __future__ import annotations

import re

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?))?B?", re.IGNORECASE)
_COUNT = re.compile(r"(\d[\d_]*(?:\.\d+)?)\s*([KMG])?", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def parse_size(text: str) -> int:
    """Read `500MB`, `4GB`, `1.5GiB` or a bare number of bytes.

    Args:
        text: The size as it was written. MB and GB count by 1000, MiB and GiB by 1024.

    Returns:
        Bytes, above zero.

    Raises:
        ValueError: If it is no size, or not above zero.
    """
    match = _SIZE.fullmatch(text.strip())
    size = 0
    if match:
        power = _POWERS[(match[2] or "").upper()]
        size = int(float(match[1]) * (1024 if match[3] else 1000) ** power)
    if size <= 0:
        raise ValueError(f"{text!r} is no size: write 500MB, 4GB, 1.5GiB or a number of bytes above zero")
    return size


def format_size(size: float) -> str:
    """Write a size for a reader: `12 kB`, `370 MB`, `3.4 GB`.

    Args:
        size: Bytes.
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.1f} {unit}" if unit == "GB" and size < 99.95 else f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"


def parse_count(text: str) -> int:
    """Read a number of tokens: `200000`, `200_000`, `200k`, `1.5M`.

    Args:
        text: The number as it was written; k and M count by 1000.

    Returns:
        The number, above zero.

    Raises:
        ValueError: If it is none, or not above zero.
    """
    match = _COUNT.fullmatch(text.strip())
    count = (
        round(float(match[1].replace("_", "")) * 1000 ** _POWERS[(match[2] or "").upper()]) if match else 0
    )
    if count <= 0:
        raise ValueError(f"{text!r} is no number of tokens: write 200k, 2M or a whole number above zero")
    return count
