"""Traces go where the standard variables say."""

from __future__ import annotations

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

from codeact_kernel.errors import ConfigError
from codeact_kernel.otel.environment import from_environment


def test_an_exporter_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "carrier-pigeon")
    with pytest.raises(ConfigError, match="carrier-pigeon"):
        from_environment()


def test_content_is_captured_where_the_standard_variable_says_so(monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    for value, captured in (("", False), ("false", False), ("True", True), ("span_only", True)):
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", value)
        observer = from_environment()
        assert observer._content is captured
        observer.close()
