"""Runs tests and writes down how each ended. The file runs as a process of its own, in the tested project's Python.

Comes in: a descriptor to write to, "pytest" or "unittest", and its arguments. Goes out: one JSON object a test, as it
ends. Standard library only, besides pytest itself.
"""

from __future__ import annotations

import json
import os
import sys
import time
import unittest
from typing import Any, TextIO

MESSAGE = 4000
"""Characters of a failure's text that are kept: its end, where the error stands."""
MISSING = 97
"""The exit code where pytest is not installed; pytest's own end at 5."""


class Report:
    """Writes down how tests ended.

    Args:
        file: Where to.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def add(self, name: str, outcome: str, seconds: float, message: str = "") -> None:
        """Write down one test.

        Args:
            name: The test's.
            outcome: "passed", "failed", "error" or "skipped".
            seconds: How long it took.
            message: Why.
        """
        test = {"name": name, "outcome": outcome, "seconds": round(seconds, 4), "message": message[-MESSAGE:]}
        # What is no text (half a surrogate pair) could not travel on.
        text = json.dumps(test, ensure_ascii=False).encode("utf-8", "replace").decode()
        self._file.write(text + "\n")
        self._file.flush()


class PytestReporter:
    """A plugin of pytest.

    Args:
        report: Where to write.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._tests: dict[str, tuple[str, float, str]] = {}

    def pytest_collectreport(self, report: Any) -> None:
        """A file that cannot be imported, or that skips itself."""
        if report.outcome != "passed":
            outcome = "error" if report.failed else "skipped"
            self._report.add(report.nodeid, outcome, 0.0, report.longreprtext)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """One of a test's three phases has ended; the worst of them counts."""
        outcome, seconds, message = self._tests.pop(report.nodeid, ("passed", 0.0, ""))
        if report.failed:
            outcome = "failed" if report.when == "call" else "error"
            message = report.longreprtext
        elif report.skipped:
            outcome = "skipped"
            message = getattr(report, "wasxfail", "") or _skip_reason(report)
        if report.when == "teardown":
            self._report.add(report.nodeid, outcome, seconds + report.duration, message)
        else:
            self._tests[report.nodeid] = (outcome, seconds + report.duration, message)


def _skip_reason(report: Any) -> str:
    return str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else report.longreprtext


class UnittestResult(unittest.TextTestResult):
    """What unittest tells of each test."""

    report: Report

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's name
        """Begin to count the time."""
        self._begun = time.monotonic()
        self._outcome = ("passed", "")
        super().startTest(test)

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        """Write down how it ended."""
        super().stopTest(test)
        self.report.add(test.id(), self._outcome[0], time.monotonic() - self._begun, self._outcome[1])

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        """It raised; what is no test (a class's set-up) is written down at once."""
        super().addError(test, err)
        if isinstance(test, unittest.TestCase):
            self._outcome = ("error", self.errors[-1][1])
        else:
            self.report.add(test.id(), "error", 0.0, self.errors[-1][1])

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        """An assertion did not hold."""
        super().addFailure(test, err)
        self._outcome = ("failed", self.failures[-1][1])

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        """A part of it ended."""
        super().addSubTest(test, subtest, err)
        if err is not None:
            failed = issubclass(err[0], test.failureException)
            self._outcome = ("failed", self.failures[-1][1]) if failed else ("error", self.errors[-1][1])

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        """It was skipped; of a class that is skipped as a whole there is no more."""
        super().addSkip(test, reason)
        self._outcome = ("skipped", reason)
        if not isinstance(test, unittest.TestCase):
            self.report.add(test.id(), "skipped", 0.0, reason)

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
        """It passed and should not."""
        super().addUnexpectedSuccess(test)
        self._outcome = ("failed", "unexpected success")


def main(descriptor: int, runner: str, arguments: list[str]) -> int:
    """Run tests.

    Args:
        descriptor: What is written to; what the tests start does not inherit it.
        runner: "pytest" or "unittest".
        arguments: The runner's.

    Returns:
        The exit code.
    """
    sys.path[0] = ""  # As with `python -m`: the current folder, and not this one.
    os.set_inheritable(descriptor, False)
    with open(descriptor, "w", encoding="utf-8") as file:
        if runner == "unittest":
            UnittestResult.report = Report(file)
            tests = unittest.TextTestRunner(resultclass=UnittestResult)  # type: ignore[arg-type]  # generic in typeshed only
            program = unittest.main(None, argv=["unittest", *arguments], testRunner=tests, exit=False)
            return 0 if program.result.wasSuccessful() else 1
        try:
            import pytest
        except ImportError:
            return MISSING
        return int(pytest.main(arguments, plugins=[PytestReporter(Report(file))]))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
