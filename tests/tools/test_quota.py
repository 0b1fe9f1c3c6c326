"""How many calls code may make."""

from __future__ import annotations

import pytest

from codeact_kernel.errors import ToolError
from codeact_kernel.tools import CallCount, CallLimits, Quota


def test_a_block_an_agent_and_a_run_have_limits_of_their_own():
    run = CallCount()
    first, second = (Quota(CallLimits(block=2, agent=3, run=5), run) for _ in range(2))
    first.take("f", "", None, "m1", "a")
    first.take("f", "", None, "m1", "a")
    with pytest.raises(ToolError, match="the 2 tool calls of block a that are allowed"):
        first.take("f", "", None, "m1", "a")
    first.take("f", "", None, "m2", "a")
    with pytest.raises(ToolError, match="the 3 tool calls of this agent"):
        first.take("f", "", None, None, None)
    second.take("f", "", None, "m3", "a")
    second.take("f", "", None, "m3", "a")
    with pytest.raises(ToolError, match="the 5 tool calls of the run"):
        second.take("f", "", None, "m4", "b")


def test_single_tools_and_groups_have_limits_and_the_settings_count_over_the_tool_s_own():
    quota = Quota(CallLimits(tools={"mcp.github": 2, "fetch": 1}))
    quota.take("mcp:github:a", "mcp.github", None, None, None)
    quota.take("mcp:github:b", "mcp.github", 1, None, None)
    with pytest.raises(ToolError, match=r"2 tool calls of mcp\.github in the run"):
        quota.take("mcp:github:a", "mcp.github", None, None, None)
    quota.take("fetch", "", 9, None, None)
    with pytest.raises(ToolError, match="1 tool calls of fetch in the run"):
        quota.take("fetch", "", 9, None, None)


def test_a_call_that_was_refused_is_not_counted():
    quota = Quota(CallLimits(agent=1, tools={"f": 0}))
    for _ in range(3):
        with pytest.raises(ToolError, match="of f in the run"):
            quota.take("f", "", None, None, None)
    quota.take("g", "", None, None, None)


def test_no_limit_is_none():
    quota = Quota(CallLimits())
    for n in range(5000):
        quota.take("f", "", None, f"m{n}", "a")
