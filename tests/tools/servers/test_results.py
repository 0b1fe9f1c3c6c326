"""Answers of servers as objects."""

from __future__ import annotations

import mcp.types as t
import pytest

from codeact_kernel.errors import ToolError
from codeact_kernel.inkernel import wire
from codeact_kernel.inkernel.wire import Picture
from codeact_kernel.tools.mcp.results import error_text, prompt_value, resource_value, tool_value

TEXT = {"type": "text", "text": '{"a": 1}'}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
LINK = {"type": "resource_link", "uri": "x://y", "name": "y", "mimeType": "text/plain"}


def value(*content, structured=None, wrapped=False, error=False):
    result = t.CallToolResult.model_validate(
        {"content": list(content), "structuredContent": structured, "isError": error}
    )
    found = tool_value(result, wrapped)
    assert wire.unpack(wire.pack(found)) is not None or found is None
    return found


def resource(**fields):
    return {"type": "resource", "resource": {"uri": "x://y", **fields}}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([], None),
        ([TEXT], '{"a": 1}'),
        ([TEXT, TEXT], ['{"a": 1}', '{"a": 1}']),
        ([IMAGE], Picture(b"hi", "image/png")),
        ([TEXT, IMAGE], ['{"a": 1}', Picture(b"hi", "image/png")]),
        ([{**IMAGE, "mimeType": "text/html"}], b"hi"),
        ([{"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}], b"hi"),
        ([resource(text="t")], "t"),
        ([resource(blob="aGk=")], b"hi"),
        ([resource(blob="aGk=", mimeType="image/gif")], Picture(b"hi", "image/gif")),
        ([LINK], {"uri": "x://y", "name": "y", "mimeType": "text/plain"}),
    ],
)
def test_content(content, expected):
    assert value(*content) == expected


def test_structured_content_is_the_value():
    assert value(TEXT, structured={"a": 1}) == {"a": 1}
    assert value(TEXT, structured={"result": [1]}) == {"result": [1]}
    assert value(TEXT, structured={"result": [1]}, wrapped=True) == [1]
    assert value(TEXT, structured={"other": 1}, wrapped=True) == {"other": 1}


def test_pictures_beside_structured_content_are_not_lost():
    picture = Picture(b"hi", "image/png")
    assert value(TEXT, IMAGE, structured={"a": 1}) == {"a": 1, "content": [picture]}
    assert value(TEXT, IMAGE, structured={"content": [IMAGE]}) == {"content": [picture]}
    assert value(TEXT, IMAGE, structured={"content": 1}) == [{"content": 1}, picture]
    assert value(IMAGE, structured={"result": 1}, wrapped=True) == [1, picture]


def test_broken_base64_is_an_error():
    with pytest.raises(ToolError, match="base64"):
        value({**IMAGE, "data": "?"})


def test_an_error_is_its_text():
    result = t.CallToolResult.model_validate(
        {"content": [TEXT, IMAGE, {"type": "text", "text": "b"}], "isError": True}
    )
    assert error_text(result) == '{"a": 1}\nb'


def test_resources_and_prompts():
    parts = {"contents": [{"uri": "x://y", "text": "t"}, {"uri": "x://z", "blob": "aGk="}]}
    assert resource_value(t.ReadResourceResult.model_validate(parts)) == ["t", b"hi"]
    prompt = {"messages": [{"role": "user", "content": TEXT}]}
    assert prompt_value(t.GetPromptResult.model_validate(prompt)) == [{"role": "user", "content": '{"a": 1}'}]
