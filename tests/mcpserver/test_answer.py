"""Which pictures an answer holds."""

from __future__ import annotations

import base64
import struct

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")
from codeact_kernel.blocks import DisplayOutput, ResultOutput, StreamOutput
from codeact_kernel.mcpserver.answer import PICTURE_DATA, PICTURES, Picture, Pictures


def png(width=640, height=480, padding=0):
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)
    return base64.b64encode(head + bytes(padding)).decode()


def shown(data, **more):
    return DisplayOutput({"image/png": data, "text/plain": "<Figure>"}, **more)


def test_a_picture_is_taken_and_its_place_in_the_text_is_kept():
    pictures = Pictures()
    outputs = pictures.take([StreamOutput("stdout", "a\n"), shown(png()), StreamOutput("stdout", "b\n")])
    assert pictures.taken == [Picture("image/png", png())]
    assert outputs[1] == DisplayOutput({"text/plain": "[image/png 640x480, 24 B: picture 1]"})
    assert [outputs[0], outputs[2]] == [StreamOutput("stdout", "a\n"), StreamOutput("stdout", "b\n")]


def test_a_value_that_is_a_picture_is_taken_too_and_line_ends_of_base64_go():
    pictures = Pictures()
    pictures.take([ResultOutput({"image/jpeg": "/9j/\nAAAA\n", "text/plain": "<Image>"})])
    assert pictures.taken == [Picture("image/jpeg", "/9j/AAAA")]


def test_of_a_display_that_is_updated_only_the_last_state_is_taken():
    pictures = Pictures()
    pictures.take([shown(png(1), display_id="d"), shown(png(2), display_id="d", update=True)])
    assert pictures.taken == [Picture("image/png", png(2))]


def test_pictures_that_are_too_many_stay_in_the_record():
    pictures = Pictures()
    outputs = [*pictures.take([shown(png())] * PICTURES), *pictures.take([shown(png())] * 2)]
    assert len(pictures.taken) == PICTURES
    assert outputs[-1] == shown(png())


def test_a_picture_that_is_too_large_does_not_keep_out_a_small_one():
    pictures = Pictures()
    large = png(padding=PICTURE_DATA)
    assert pictures.take([shown(large), shown(png())])[0] == shown(large)
    assert pictures.taken == [Picture("image/png", png())]


def test_what_no_model_sees_is_no_picture():
    pictures = Pictures()
    drawn = DisplayOutput({"image/svg+xml": "<svg/>", "text/plain": "<SVG>"})
    assert pictures.take([drawn]) == [drawn]
    assert pictures.taken == []
