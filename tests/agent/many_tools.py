"""Five hundred tools of twenty servers, with names such as well-known servers have."""

from __future__ import annotations

from codeact_kernel.tools import Tool

SERVERS = (
    "github",
    "gitlab",
    "slack",
    "jira",
    "confluence",
    "notion",
    "linear",
    "asana",
    "stripe",
    "shopify",
    "hubspot",
    "salesforce",
    "zendesk",
    "sentry",
    "datadog",
    "grafana",
    "postgres",
    "bigquery",
    "calendar",
    "drive",
)
VERBS = ("list", "get", "search", "create", "update")
THINGS = ("issues", "comments", "users", "projects", "attachments")


class Server:
    """A set of tools that is started when it is first needed."""

    def __init__(self, name, known=True):
        self.name = f"mcp.{name}"
        self.about = f"{name.title()} for your workspace."
        self.started = 0
        self.called = []
        self._known = known
        self._tools = {
            tool.name: tool for tool in (self._tool(name, verb, thing) for verb in VERBS for thing in THINGS)
        }

    def _tool(self, server, verb, thing):
        name = f"{verb}_{thing}"

        async def call(**arguments):
            self.called.append((name, arguments))
            return {"server": server, "tool": name, **arguments}

        signature = "(*, query: str, page: int = 1, per_page: int = 30) -> dict"
        doc = f"{verb.title()} {thing} in {server}.\n\nArgs:\n    query: What is looked for."
        return Tool(name, call, signature, doc, False, group=self.name, full_name=f"mcp:{server}:{name}")

    def known(self):
        return self._tools if self._known or self.started else None

    async def tools(self):
        self.started += 1
        return self._tools

    async def aclose(self):
        pass


def servers(known=True):
    """All twenty."""
    return [Server(name, known) for name in SERVERS]
