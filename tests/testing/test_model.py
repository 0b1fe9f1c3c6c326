"""The scripted model."""

import asyncio

import pytest

from codeact_kernel.errors import ModelUnreachable
from codeact_kernel.messages import EndPiece, Message, ModelRequest, TextPiece, Usage
from codeact_kernel.testing import ScriptedModel, jumping

REQUEST = ModelRequest((Message("user", "12345678"),))


async def read(model, request=REQUEST):
    return [piece async for piece in model.stream(request)]


@jumping
async def test_replies_come_in_order_and_requests_are_kept():
    model = ScriptedModel(["one", "two"])
    assert [piece.text for piece in await read(model) if isinstance(piece, TextPiece)] == ["one"]
    pieces = await read(model)
    assert pieces[0] == TextPiece("two")
    assert pieces[1] == EndPiece("stop", Usage(input_tokens=2, output_tokens=1, calls=1, estimated=True))
    assert model.calls == 2
    assert model.requests == [REQUEST, REQUEST]


@jumping
async def test_a_reply_streams_in_chunks_that_join_to_it():
    pieces = await read(ScriptedModel(["abcdefg"], chunk=3))
    assert [piece.text for piece in pieces[:-1]] == ["abc", "def", "g"]


@jumping
async def test_a_cut_reply_ends_as_the_script_says():
    cut = EndPiece(None, Usage(calls=1))
    assert await read(ScriptedModel([["half of i", cut]])) == [TextPiece("half of i"), cut]


@jumping
async def test_a_number_is_a_pause():
    await read(ScriptedModel([["a", 90, "b"]]))
    assert asyncio.get_running_loop().time() == pytest.approx(90)


@jumping
async def test_an_exception_comes_before_the_first_piece_and_still_counts_as_a_call():
    model = ScriptedModel([ModelUnreachable("down"), "up"])
    with pytest.raises(ModelUnreachable):
        await read(model)
    assert (await read(model))[0] == TextPiece("up")
    assert model.calls == 2


@jumping
async def test_a_reply_may_look_at_its_request():
    model = ScriptedModel([lambda request: request.messages[-1].content.upper()])
    assert (await read(model, ModelRequest((Message("user", "hi"),))))[0] == TextPiece("HI")


@jumping
async def test_asking_past_the_script_fails_the_test():
    model = ScriptedModel([])
    with pytest.raises(AssertionError, match="holds 0 replies"):
        await read(model)


@jumping
async def test_an_empty_reply_is_just_an_end():
    assert [type(piece) for piece in await read(ScriptedModel([""]))] == [EndPiece]
