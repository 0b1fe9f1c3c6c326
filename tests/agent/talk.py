"""What agents say in tests: blocks, scripts, and what they were told."""

from __future__ import annotations

from codeact_kernel import Agent
from codeact_kernel.events import NoteReceived
from codeact_kernel.testing import Cast


def block(code, **attributes):
    written = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"<run_code{written}>\n{code}\n</run_code>"


def delegate(task, **attributes):
    written = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"<run_agent{written}>\n{task}\n</run_agent>"


def when(first, *steps):
    """A script for a conversation whose order is not known: says each reply once its words, joined by &, were read."""

    def say(request):
        said = [message.content.strip() for message in request.messages if message.role == "assistant"]
        if not said:
            return first
        read = "".join(message.content for message in request.messages[1:] if message.role == "user")
        words, reply = next((words, reply) for words, reply in steps if reply.strip() not in said)
        return reply if all(word in read for word in words.split("&")) else "I wait."

    return say


def told(model, words):
    """All that was said in the conversation that began with these words, oldest first; the system prompt first."""
    asked = [r for r in model.requests if words in next(m.content for m in r.messages if m.role == "user")]
    return "\n".join(message.content for message in asked[-1].messages)


def heard(model, words):
    """As `told`, without what the agent itself said, and without the system prompt."""
    asked = [r for r in model.requests if words in next(m.content for m in r.messages if m.role == "user")]
    return "\n".join(message.content for message in asked[-1].messages if message.role == "user")


async def play(tmp_path, scripts, **options):
    """Have a root agent work on "ROOT"; returns the model, the run, and the notes that it got."""
    model, notes = Cast(scripts), []
    async with Agent(
        model,
        workspace=tmp_path,
        observers=[lambda event: notes.append(event) if isinstance(event, NoteReceived) else None],
        **options,
    ) as agent:
        run = await agent.run("ROOT")
    return model, run, notes
