"""Runs as OpenTelemetry traces.

Comes in: events. Goes out: spans. The only room that imports opentelemetry; what sends them (its SDK) is needed by
`environment` alone.
"""

from codeact_kernel.otel.spans import OpenTelemetry

__all__ = ["OpenTelemetry"]
