"""One spelling of each host."""

from __future__ import annotations

import pytest

from codeact_kernel.policy.hosts import host_of, matches, read_pattern


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Example.COM/x", "example.com"),
        ("https://example.com./x", "example.com"),
        ("https://good.org@evil.com/", "evil.com"),
        ("https://good.org:secret@evil.com:8443/", "evil.com"),
        ("https://b\u00fccher.example/", "xn--bcher-kva.example"),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example"),
        ("http://127.0.0.1/", "127.0.0.1"),
        ("http://127.1/", "127.0.0.1"),
        ("http://2130706433/", "127.0.0.1"),
        ("http://0x7f.0.0.1/", "127.0.0.1"),
        ("http://[::1]/", "::1"),
        ("http://[0:0:0:0:0:0:0:1]:80/", "::1"),
        ("http://[::ffff:169.254.169.254]/", "169.254.169.254"),
        ("169.254.169.254/latest", "169.254.169.254"),
        ("//example.com/x", "example.com"),
        ("file:///etc/passwd", ""),
        ("cats 0", ""),
        ("mailto:a@example.com", ""),
    ],
)
def test_however_it_is_spelt_a_host_is_one(url, host):
    assert host_of(url) == host


@pytest.mark.parametrize(
    "url",
    [
        "http://[bad/",
        "http://exa mple.com/",
        "http://a\x00b/",
        "https://\uff45xample.com/",
        "http://0177.0.0.1/",
    ],
)
def test_what_cannot_be_read_is_an_error(url):
    with pytest.raises(ValueError, match="is no address"):
        host_of(url)


@pytest.mark.parametrize(
    ("pattern", "url", "meant"),
    [
        ("example.com", "https://example.com", True),
        ("EXAMPLE.com.", "https://example.com", True),
        ("example.com", "https://www.example.com", False),
        ("example.com", "https://example.com.evil.org", False),
        ("example.com", "https://notexample.com", False),
        ("*.example.com", "https://a.b.example.com", True),
        ("*.example.com", "https://example.com", False),
        ("*.example.com", "https://evilexample.com", False),
        ("b\u00fccher.example", "https://xn--bcher-kva.example", True),
        ("10.0.0.0/8", "http://10.1.2.3", True),
        ("10.0.0.0/8", "http://0xa010203", True),
        ("10.0.0.0/8", "http://10.example.com", False),
        ("127.0.0.1", "http://2130706433", True),
        ("fd00:ec2::254", "http://[fd00:0ec2:0:0::254]", True),
        ("*", "http://anything", True),
    ],
)
def test_a_pattern_means_a_host_those_below_it_or_a_network(pattern, url, meant):
    assert matches(read_pattern(pattern), host_of(url)) is meant


@pytest.mark.parametrize("pattern", ["*.", "a*b.com", "http://x", "x y", "user@x", "10.0.0.0/99", ""])
def test_what_is_no_pattern_is_said(pattern):
    with pytest.raises(ValueError):
        read_pattern(pattern)
