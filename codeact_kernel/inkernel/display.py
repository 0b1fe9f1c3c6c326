"""What a request displays: results of expressions, and rich displays.

Comes in: values and MIME bundles from code in any lane. Goes out: outputs of the request whose code they are
of, or, where it captures its output, what it captured.
"""

from __future__ import annotations

import threading
from typing import Any

from ipykernel.displayhook import ZMQShellDisplayHook
from ipykernel.jsonutil import encode_images, json_clean
from ipykernel.zmqshell import ZMQDisplayPublisher

from codeact_kernel.inkernel.capture import display_target
from codeact_kernel.inkernel.request import Request, current


class BlockDisplayHook(ZMQShellDisplayHook):  # type: ignore[misc]
    """Publishes the value of an expression as an output of the request that computed it."""

    _results = threading.Lock()

    @property
    def exec_result(self) -> Any:
        """IPython's result object of the current request."""
        request = current.get()
        return request.exec_result if request else self.__dict__.get("_stray_result")

    @exec_result.setter
    def exec_result(self, value: Any) -> None:
        request = current.get()
        if request:
            request.exec_result = value
        else:
            self.__dict__["_stray_result"] = value

    @property
    def prompt_count(self) -> int:
        """The execution count that a value is shown under."""
        request = current.get()
        return request.count if request else int(super().prompt_count)

    def quiet(self) -> bool:
        """Whether the request's own code ends in a semicolon."""
        request = current.get()
        if request is None:
            return bool(super().quiet())
        return bool(self.semicolon_at_end_of_expression(request.transformed))

    def __call__(self, result: Any = None) -> None:
        """Show a value.

        Args:
            result: The value of an expression; None shows nothing.
        """
        request = current.get()
        if request is None:
            super().__call__(result)
            return
        self.check_for_underscore()
        if result is None or self.quiet():
            return
        errors = request.error
        data, metadata = self.compute_format_data(result)
        captured = display_target(request)
        if captured is not None:
            captured.append({"data": data, "metadata": metadata})
            return
        if request.error is not errors:
            request.display_failed = True
        with self._results:
            self.update_user_ns(result)
            self.fill_exec_result(result)
            if data:
                self.log_output(data)
        if data:
            content = {"data": json_clean(encode_images(data)), "metadata": metadata}
            content["execution_count"] = request.count
            request.outbox.publish(request.outbox.make("execute_result", content), self.topic)


class BlockDisplayPublisher(ZMQDisplayPublisher):  # type: ignore[misc]
    """Publishes displays as outputs of the request whose code shows them."""

    def publish(
        self,
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        *,
        transient: dict[str, Any] | None = None,
        update: bool = False,
        **kwargs: Any,
    ) -> None:
        """Publish a MIME bundle.

        Args:
            data: The representations, keyed by MIME type.
            metadata: Metadata, keyed by MIME type.
            transient: What only matters live: a display_id.
            update: Whether it replaces what was shown under that display_id.
            **kwargs: What older IPython passes; ignored.
        """
        request = current.get()
        if request is None:
            super().publish(data, metadata, transient=transient, update=update, **kwargs)
            return
        self._validate_data(data, metadata or {})
        captured = display_target(request)
        if captured is not None:
            captured.append({"data": data, "metadata": metadata, "transient": transient, "update": update})
            return
        content = {"data": encode_images(data), "metadata": metadata or {}, "transient": transient or {}}
        self._send(request, "update_display_data" if update else "display_data", content)

    def clear_output(self, wait: bool = False) -> None:
        """Clear what the request has shown.

        Args:
            wait: Clear only when the next output comes.
        """
        request = current.get()
        if request is None:
            super().clear_output(wait)
            return
        captured = display_target(request)
        if captured is not None:
            captured.clear()
            return
        self._send(request, "clear_output", {"wait": wait})

    def _send(self, request: Request, msg_type: str, content: dict[str, Any]) -> None:
        message = request.outbox.make(msg_type, json_clean(content))
        for hook in self._hooks:
            message = hook(message)
            if message is None:
                return
        request.outbox.publish(message, self.topic)
