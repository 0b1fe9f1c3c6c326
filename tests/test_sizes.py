"""Sizes of memory."""

import pytest

from codeact_kernel.sizes import format_size, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4GB", 4_000_000_000),
        ("1.5GiB", 3 * 2**29),
        ("500 mb", 500_000_000),
        ("12k", 12_000),
        ("2T", 2_000_000_000_000),
        ("7B", 7),
        (" 123456 ", 123_456),
    ],
)
def test_a_size_is_read(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "4 giraffes", "-1GB", "0", "0.1", "GB", "1e9", "4GB!", "true"])
def test_what_is_no_size_is_said_so_and_what_to_write(text):
    with pytest.raises(ValueError, match="is no size: write 500MB, 4GB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (12_345, "12 kB"),
        (999_600, "1 MB"),
        (370e6, "370 MB"),
        (3.44e9, "3.4 GB"),
        (128e9, "128 GB"),
        (1.5e12, "1.5 TB"),
    ],
)
def test_a_size_is_written(size, text):
    assert format_size(size) == text
