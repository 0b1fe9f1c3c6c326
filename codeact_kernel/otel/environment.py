"""Where spans go, by the standard variables.

Comes in: the environment. Goes out: an observer with a provider of its own.
"""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from codeact_kernel.errors import ConfigError
from codeact_kernel.otel.attributes import AGENT
from codeact_kernel.otel.spans import OpenTelemetry

_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURES = ("true", "span_only", "span_and_event")


def from_environment() -> OpenTelemetry:
    """An observer whose spans go where the standard variables say.

    `OTEL_TRACES_EXPORTER` names an exporter, `OTEL_EXPORTER_OTLP_ENDPOINT` and its kin the place. Without any they go
    over OTLP to a collector on this machine. `close` sends the last ones.

    Raises:
        ConfigError: If there is no such exporter.
    """
    named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    provider = TracerProvider(resource=Resource.create({} if named else {"service.name": AGENT}))
    for name in os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(","):
        if name.strip() != "none":
            provider.add_span_processor(BatchSpanProcessor(_exporter(name.strip())))
    content = os.environ.get(_CAPTURE, "").lower() in _CAPTURES
    return OpenTelemetry(capture_content=content, provider=provider)


def _exporter(name: str) -> Any:
    known = entry_points(group="opentelemetry_traces_exporter")
    wanted = "otlp_proto_http" if name == "otlp" else name
    if wanted not in known.names:
        raise ConfigError(
            f"OTEL_TRACES_EXPORTER: there is no exporter {name!r} here; there are {', '.join(sorted(known.names))}"
        )
    return known[wanted].load()()
