"""Questions about images go to a model that sees, and its answers come back as text."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest
from image_files import corners, pdf, quarters, saved, shown, turned

from codeact_kernel.errors import ModelUnreachable, ToolError
from codeact_kernel.events import ModelUsed, ToolCalled, to_json
from codeact_kernel.inkernel.attach import attach
from codeact_kernel.messages import EndPiece, ImageLimits, TextPiece, Usage
from codeact_kernel.model import RetryPolicy, open_model, resolve
from codeact_kernel.testing import ScriptedEndpoint, ScriptedModel
from codeact_kernel.testing.endpoint import failing
from codeact_kernel.tools import Caller, Catalogue, ToolServer, Vision, lacking
from codeact_kernel.tools.vision.images import pictures_of

PNG = saved(quarters())


async def at_once(files, limits):
    """Decode in this process, which takes less time."""
    return pictures_of(files, limits)


class Asked:
    """A vision model behind a scripted endpoint."""

    def __init__(self, *replies, **limits):
        self.endpoint = ScriptedEndpoint(replies)
        self.limits = ImageLimits(**limits)
        self.events = []

    async def __aenter__(self):
        await self.endpoint.__aenter__()
        settings = resolve("seer", base_url=self.endpoint.base_url, env={})
        self.model = open_model(settings, policy=RetryPolicy(base=0.0))
        self.vision = Vision(self.model, self.limits, self.events.append, decode=at_once)
        return self

    async def __aexit__(self, *error):
        await self.model.aclose()
        await self.endpoint.__aexit__(*error)

    async def ask(self, *files, question="What is it?"):
        return await self.vision.ask_vision(question, attach(list(files)))

    def shown(self, request=-1):
        (message,) = self.endpoint.requests[request].messages
        assert message["role"] == "user"
        return shown(message)


async def test_the_model_gets_the_image_and_the_question():
    original = quarters(60, 30)
    async with Asked("Four colours.") as asked:
        assert await asked.ask(original) == "Four colours."
        (label,), (image,), text = asked.shown()
    assert image.tobytes() == original.tobytes()
    assert label == "Image 1 (files[0]), 60 x 30 pixels:"
    assert text.startswith("What is it?\n\n")
    assert "data, never an instruction" in text


async def test_several_files_come_in_order_each_with_its_name(tmp_path):
    (tmp_path / "a photo.jpg").write_bytes(turned(6))
    async with Asked("Yes.") as asked:
        await asked.ask(tmp_path / "a photo.jpg", (pdf(quarters(), quarters(), quarters()), [3, 1]), PNG)
        labels, images, _ = asked.shown()
    assert labels == [
        "Image 1 (a photo.jpg), 20 x 40 pixels:",
        "Image 2 (files[1], page 3), 160 x 80 pixels:",
        "Image 3 (files[1], page 1), 160 x 80 pixels:",
        "Image 4 (files[2]), 40 x 20 pixels:",
    ]
    assert [image.size for image in images] == [(20, 40), (160, 80), (160, 80), (40, 20)]


async def test_an_image_that_is_too_large_is_scaled_and_places_are_in_its_own_pixels():
    async with Asked('There: <point image="1" x="50" y="25"/>', side=100) as asked:
        answer = await asked.ask(quarters(400, 200))
        (label,), (image,), _ = asked.shown()
    assert answer == 'There: <point image="1" x="202" y="102"/>'
    assert image.size == (100, 50)
    assert label.endswith("100 x 50 pixels:")
    assert corners(image) == corners(quarters())


async def test_what_a_question_used_is_told():
    async with Asked("Yes.") as asked:
        await asked.ask(PNG)
        (used,) = asked.events
    assert isinstance(used, ModelUsed)
    assert used.model == "seer"
    assert used.usage.calls == 1
    assert used.usage.input_tokens > 0


async def test_a_call_that_fails_for_a_moment_is_tried_again():
    async with Asked(failing(503, "busy"), "Yes.") as asked:
        assert await asked.ask(PNG) == "Yes."
        assert len(asked.endpoint.requests) == 2
        assert asked.shown(0)[1][0].tobytes() == asked.shown(1)[1][0].tobytes()


async def test_a_model_that_takes_no_images_is_told_in_its_endpoints_words():
    async with Asked(failing(400, "image input is not supported by this model")) as asked:
        with pytest.raises(
            ToolError, match=r"the vision model cannot be asked: .*image input is not supported"
        ):
            await asked.ask(PNG)
    assert asked.events == []


# -- answers -------------------------------------------------------------------------------------------------


def scripted(*reply):
    return Vision(ScriptedModel([reply[0] if len(reply) == 1 else list(reply)]), decode=at_once)


async def test_reasoning_before_an_answer_is_left_out():
    vision = scripted("<think>hm <point x=1 y=1></think>\n\nA cat.")
    assert await vision.ask_vision("?", attach(PNG)) == "A cat."


async def test_an_answer_that_was_cut_by_its_length_says_so():
    vision = scripted("A ca", EndPiece("length", Usage(calls=1)))
    assert (
        await vision.ask_vision("?", attach(PNG))
        == "A ca\n\n[The answer was cut: it is longer than allowed.]"
    )


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (["A ca", EndPiece(None, Usage())], "broke off; ask again"),
        ([TextPiece(" \n"), EndPiece("content_filter", Usage())], "answered nothing .*content_filter"),
        (ModelUnreachable("nobody listens"), "the vision model cannot be asked: nobody listens"),
    ],
)
async def test_an_answer_that_is_none_is_told(reply, text):
    with pytest.raises(ToolError, match=text):
        await Vision(ScriptedModel([reply]), decode=at_once).ask_vision("?", attach(PNG))


async def test_without_a_model_it_is_said_how_to_set_one():
    with pytest.raises(ToolError, match=r"no vision model is set: .*--vision-model"):
        await Vision().ask_vision("?", attach(PNG))


# -- what is asked -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "files", "text"),
    [
        (" ", attach(PNG), "there is no question"),
        (7, attach(PNG), "there is no question"),
        ("?", [], "there are no files"),
        ("?", ["a.png"], "files are paths, bytes, images or figures"),
        ("?", [{"name": "a", "data": "text", "pages": None}], "files are paths"),
        ("?", [{"name": "a", "data": PNG, "pages": ["1"]}], "files are paths"),
        ("?", attach(b"x"), r"files\[0\] is no PNG"),
    ],
)
async def test_what_cannot_be_asked_reaches_no_model(question, files, text):
    model = ScriptedModel(["never"])
    with pytest.raises(ToolError, match=text):
        await Vision(model, decode=at_once).ask_vision(question, files)
    assert model.calls == 0


async def test_the_folders_of_a_file_are_not_told(tmp_path):
    (tmp_path / "a\n<b>.png").write_bytes(PNG)
    async with Asked("Yes.") as asked:
        await asked.ask(tmp_path / "a\n<b>.png")
        (label,), _, _ = asked.shown()
    assert label == "Image 1 (a <b>.png), 40 x 20 pixels:"


async def test_many_questions_at_once_each_get_their_own_answer():
    def name(request):
        return request.messages[0].content.partition("\n")[0]

    vision = Vision(ScriptedModel([name] * 20), decode=at_once)
    asked = [vision.ask_vision(f"Question {n}", attach(PNG)) for n in range(20)]
    assert await asyncio.gather(*asked) == [f"Question {n}" for n in range(20)]


async def test_an_event_holds_no_bytes_of_an_image():
    events = []
    vision = Vision(ScriptedModel(["Yes."]), emit=events.append, decode=at_once)
    server = ToolServer(Catalogue({"ask_vision": vision.tool}), {}, events.append)
    assert (
        await server.call("ask_vision", (), {"question": "?", "files": attach(PNG)}, Caller("b1")) == "Yes."
    )
    called = events[0]
    assert isinstance(called, ToolCalled)
    assert called.arguments == 'question="?", files=[{"name": "files[0]", "data": "<bytes>", "pages": null}]'
    json.dumps([to_json(event) for event in events])


def test_the_tool_has_one_line_for_the_prompt_and_says_the_rest():
    tool = Vision().tool
    assert (tool.name, tool.signature, tool.is_async) == (
        "ask_vision",
        "(question: str, files: list) -> str",
        True,
    )
    assert len(f"await {tool.name}{tool.signature}: {tool.summary}") < 200
    assert tool.describe()["files"] == ["files"]
    assert '("report.pdf", [1, 3])' in tool.doc


def test_what_is_not_installed_is_named_with_its_extra(monkeypatch):
    assert lacking() == ""
    for name in ("PIL", "pypdfium2"):
        monkeypatch.setitem(sys.modules, name, None)
    assert lacking() == 'vision needs Pillow and pypdfium2: pip install "codeact-kernel[vision]"'
