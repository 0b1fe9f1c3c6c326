"""Blocks ask about images, and the agent's own model never sees one."""

from __future__ import annotations

import base64
import json
import sys

import pytest
from image_files import corners, pdf, quarters, saved, shown

from codeact_kernel import Agent
from codeact_kernel.agent import Options, Settings, plan, write_prompt
from codeact_kernel.agent.models import Models
from codeact_kernel.agent.seeing import blindness, open_vision
from codeact_kernel.errors import ConfigError
from codeact_kernel.events import ModelUsed
from codeact_kernel.masking import Mask
from codeact_kernel.messages import EndPiece, Usage
from codeact_kernel.policy import Budget
from codeact_kernel.testing import EndpointReply, ScriptedEndpoint, ScriptedModel

SEES = Settings(models={"vision": "seer"})


def block(code):
    return f"<run_code>\n{code}\n</run_code>"


class OurKernel:
    description = "Python"
    ours = True


def prompt(**fields):
    options = Options(**{"settings": Settings(), **fields})
    return write_prompt(options, plan(options), OurKernel())


# -- before anything is started ------------------------------------------------------------------------------


def test_the_prompt_tells_of_ask_vision_only_where_there_is_a_model_that_sees():
    line = "- await ask_vision(question: str, files: list) -> str: Ask a vision model about images and PDFs"
    assert "ask_vision" not in prompt()
    assert line in prompt(vision="seer")
    assert line in prompt(settings=SEES)
    assert line in prompt(vision=ScriptedModel([]))


def test_a_function_of_the_caller_may_be_called_ask_vision_where_ours_is_not():
    def ask_vision(path: str) -> str:
        """Mine."""

    assert "- ask_vision(path: str) -> str: Mine." in prompt(tools=[ask_vision])
    with pytest.raises(ConfigError, match="two tools are called ask_vision"):
        prompt(tools=[ask_vision], vision="seer")


def test_what_is_not_installed_is_an_error_for_who_asks_for_it_and_a_sentence_for_who_only_could(monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    with pytest.raises(ConfigError, match=r"vision needs pypdfium2: pip install .codeact-kernel\[vision\]"):
        blindness(Options(vision="seer"), Settings())
    assert blindness(Options(), SEES).startswith("vision needs pypdfium2")
    assert "ask_vision" not in prompt(settings=SEES)


async def opened(model, **fields):
    options = Options(model, **{"settings": Settings(), **fields})
    models = Models(options, options.settings, print, Mask(), Budget)
    try:
        return open_vision(options, blindness(options, options.settings), models, print)[0]
    finally:
        await models.aclose()


@pytest.fixture
def keyless(monkeypatch):
    for name in ("LLM_API_KEY", "OPENAI_API_KEY", "LLM_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("keyless")
async def test_a_model_without_a_key_is_an_error_for_who_asks_for_it_and_a_sentence_for_who_only_could(
    tmp_path,
):
    (tmp_path / "replies.jsonl").write_text('{"text": "Done."}')
    model = f"replay:{tmp_path / 'replies.jsonl'}"
    assert (await opened(model, settings=SEES)).blind.startswith("no API key for https://api.openai.com/v1")
    with pytest.raises(ConfigError, match="no API key"):
        await opened(model, vision="seer")
    assert (await opened(model, vision="seer", base_url="http://127.0.0.1:9/v1")).blind == ""
    assert (await opened(model)).blind.startswith("no vision model is set")


# -- with a kernel -------------------------------------------------------------------------------------------

CODE = """
from PIL import Image
import io
import matplotlib.pyplot as plt
image = Image.open("quarters.png")
figure = plt.figure(figsize=(4, 2), dpi=50)
figure.add_axes((0, 0, 1, 1)).imshow(image, aspect="auto")
plt.close(figure)
data = open("quarters.png", "rb").read()
print(await ask_vision("What is it?", files=["quarters.png", data, image, figure, ("two.pdf", 2)]))
""".strip()


@pytest.mark.kernel
async def test_a_block_asks_about_paths_bytes_images_figures_and_pages(tmp_path):
    files = {"quarters.png": saved(quarters(60, 30)), "two.pdf": pdf(quarters(), quarters(50, 20))}
    reply = EndpointReply("Four colours.", usage=Usage(1000, 0, 5))
    async with ScriptedEndpoint([block(CODE), reply, "They are four colours."]) as endpoint:
        agent = Agent(
            "m",
            vision="seer",
            base_url=endpoint.base_url,
            workspace=tmp_path,
            files=files,
            settings=Settings(),
        )
        async with agent:
            run = await agent.run("What is in the files?")
        first, asked, second = endpoint.requests
    assert run.answer == "They are four colours."
    assert [r.body["model"] for r in (first, asked, second)] == ["m", "seer", "m"]
    (message,) = asked.messages
    labels, images, text = shown(message)
    assert [label.partition("(")[2].partition(")")[0] for label in labels] == [
        "quarters.png",
        "files[1]",
        "files[2]",
        "files[3]",
        "two.pdf, page 2",
    ]
    assert [image.size for image in images] == [(60, 30), (60, 30), (60, 30), (200, 100), (200, 80)]
    assert all(image.tobytes() == quarters(60, 30).tobytes() for image in images[:3])
    assert corners(images[3]) == corners(quarters())
    assert text.startswith("What is it?")
    assert "Four colours." in second.messages[-1]["content"]


@pytest.mark.kernel
async def test_no_byte_of_an_image_is_in_the_agents_context_or_its_record(tmp_path):
    data = saved(quarters(60, 30))
    (tmp_path / "a.png").write_bytes(data)
    seer = ScriptedModel(["A flag."])
    model = ScriptedModel([block('print(await ask_vision("?", files=["a.png"]))'), "A flag."])
    async with Agent(model, vision=seer, workspace=tmp_path, run_dir=tmp_path / "run") as agent:
        await agent.run("What is in a.png?")
    told = json.dumps([m.content for request in model.requests for m in request.messages])
    kept = "".join(path.read_text() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert "A flag." in told
    for text in (told, kept):
        assert base64.b64encode(data).decode()[:40] not in text
        assert "iVBOR" not in text
    assert all(message.images == () for request in model.requests for message in request.messages)
    assert len(seer.requests[0].messages[0].images) == 1


@pytest.mark.kernel
async def test_what_the_model_that_sees_used_counts_to_the_run(tmp_path):
    (tmp_path / "a.png").write_bytes(saved(quarters()))
    reply = EndpointReply("A flag.", usage=Usage(1000, 0, 5))
    scripted = [
        block('print(await ask_vision("?", files="a.png"))'),
        reply,
        EndpointReply("Done.", usage=Usage(10, 0, 1)),
    ]
    prices = {"input": 1.0, "output": 1.0}
    models = {
        "m": {"model": "m", "prices": prices},
        "vision": {"model": "seer", "prices": {"input": 1e6, "output": 0}},
    }
    heard = []
    async with ScriptedEndpoint(scripted) as endpoint:
        settings = Settings(models=models)
        agent = Agent(
            "m", base_url=endpoint.base_url, workspace=tmp_path, settings=settings, observers=[heard.append]
        )
        async with agent:
            run = await agent.run("What is in a.png?")
    (used,) = [event for event in heard if isinstance(event, ModelUsed)]
    assert used == ModelUsed("seer", Usage(1000, 0, 5, 1, 1000.0))
    assert run.usage.calls == 3
    assert run.usage.input_tokens > 1010
    assert run.usage.cost == pytest.approx(1000.0, abs=0.1)
    assert agent.transcript.usage == run.usage


@pytest.mark.kernel
async def test_without_a_model_that_sees_a_block_reads_how_to_set_one(tmp_path):
    model = ScriptedModel([block('await ask_vision("?", files=["a.png"])'), "I cannot see."])
    (tmp_path / "a.png").write_bytes(saved(quarters()))
    async with Agent(model, workspace=tmp_path, settings=Settings()) as agent:
        await agent.run("What is in a.png?")
    assert (
        "ToolError: no vision model is set: start the agent with --vision-model"
        in model.requests[1].messages[-1].content
    )


@pytest.mark.kernel
async def test_a_model_that_sees_and_answers_for_itself_is_closed_once(tmp_path):
    class Once(ScriptedModel):
        closed_times = 0

        async def aclose(self):
            self.closed_times += 1

    model, seer = Once([]), Once([])
    async with Agent(model, vision=model, workspace=tmp_path):
        pass
    async with Agent(model, vision=seer, workspace=tmp_path):
        pass
    assert (model.closed_times, seer.closed_times) == (2, 1)


@pytest.mark.kernel
async def test_the_same_image_is_asked_about_many_times_at_once_and_a_stopped_block_lets_go(tmp_path):
    seer = ScriptedModel([lambda request: request.messages[0].content.partition("\n")[0]] * 12 + [[60.0]])
    code = """
import asyncio
from PIL import Image
image = Image.new("RGB", (300, 200))
said = await asyncio.gather(*[ask_vision(f"Q{n}", files=[image]) for n in range(12)])
print(said == [f"Q{n}" for n in range(12)])
"""
    stuck = '<run_code timeout="1s">\nawait ask_vision("?", files=[image])\n</run_code>'
    model = ScriptedModel([block(code.strip()), stuck, "Done."])
    async with Agent(model, vision=seer, workspace=tmp_path) as agent:
        await agent.run("Ask.")
    assert model.requests[1].messages[-1].content.splitlines()[1] == "True"
    assert 'status="timeout"' in model.requests[2].messages[-1].content


@pytest.mark.kernel
async def test_a_sub_agent_asks_the_same_model_which_is_closed_with_the_root_and_counts_to_its_run(tmp_path):
    class Closed(ScriptedModel):
        async def aclose(self):
            assert agent.live == []
            await super().aclose()

    seer = Closed([["A flag.", EndPiece("stop", Usage(1000, 0, 5, 1))]] * 2)
    ask = block('print(await ask_vision("?", files=["a.png"]))')
    model = ScriptedModel(
        [
            '<run_agent name="scout">\nWhat is in a.png?\n</run_agent>',
            ask,
            "It has a flag.",
            ask,
            "A flag, twice.",
        ]
    )
    (tmp_path / "a.png").write_bytes(saved(quarters()))
    async with Agent(model, vision=seer, workspace=tmp_path, run_dir=False, settings=Settings()) as agent:
        run = await agent.run("Let a scout look at a.png.")
        assert not seer.closed
    assert seer.closed
    assert run.answer == "A flag, twice."
    assert "await ask_vision(" in model.requests[1].messages[0].content
    assert "It has a flag." in model.requests[3].messages[-1].content
    assert run.usage.calls == 5 + 2
    assert run.usage.input_tokens > 2000
