"""Files are decoded in a process of their own, which may go wrong as it likes."""

from __future__ import annotations

import asyncio
import os

import pytest
from image_files import huge_png, pdf, quarters, saved, turned

from codeact_kernel.errors import ToolError
from codeact_kernel.messages import ImageLimits
from codeact_kernel.tools.vision import decoder
from codeact_kernel.tools.vision.decoder import decode
from codeact_kernel.tools.vision.images import MOST_PIXELS, pictures_of
from codeact_kernel.tools.vision.pictures import Attached


async def test_it_gives_what_decoding_here_gives():
    files = [
        Attached("ä\n.png", saved(quarters(300, 100))),
        Attached("b.jpg", turned(6)),
        Attached("c.pdf", pdf(quarters(), quarters(), quarters()), (3, 1)),
    ]
    limits = ImageLimits(side=200, pixels=10_000, bytes=50_000)
    assert await decode(files, limits) == pictures_of(files, limits)


async def test_what_cannot_be_read_is_told_in_the_same_words():
    with pytest.raises(ToolError, match=r"^a is no PNG, JPEG, WebP, GIF or PDF$"):
        await decode([Attached("a", b"x")], ImageLimits())


async def test_what_takes_too_long_is_ended():
    with pytest.raises(ToolError, match=r"take longer than 0\.001 s to decode"):
        await decode([Attached("a", saved(quarters()))], ImageLimits(), seconds=0.001)


async def test_what_takes_too_much_memory_is_told():
    side = int(MOST_PIXELS**0.5)  # 358 MB in Pillow's memory
    with pytest.raises(ToolError, match=r"^a cannot be read: MemoryError$"):
        await decode([Attached("a", huge_png(side, side))], ImageLimits(), memory=2**28)


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("import os; os.abort()", r"one of them crashes its decoder \(SIGABRT\)"),
        ("import nothing_of_that_name", "cannot be decoded: ModuleNotFoundError: No module"),
        ("raise SystemExit(7)", "cannot be decoded: exit code 7"),
    ],
)
async def test_a_decoder_that_crashes_is_told(program, text):
    with pytest.raises(ToolError, match=text):
        await decode([Attached("a", bytes(2**20))], ImageLimits(), program=program)


async def test_a_question_that_is_cancelled_ends_its_process(tmp_path):
    program = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()) + chr(10)); time.sleep(60)"
    asking = asyncio.create_task(decode([Attached("a", b"x")], ImageLimits(), program=program))
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().endswith("\n"):
        await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_it_sees_no_key_and_imports_nothing_of_the_workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "json.py").write_text("raise SystemExit('the workspace was imported')")
    program = (
        "import os, sys, json; sys.stdin.buffer.read(); "
        "print(json.dumps({'error': ' '.join(sorted(os.environ)), 'sizes': []}))"
    )
    with pytest.raises(ToolError) as told:
        await decode([Attached("a", b"x")], ImageLimits(), program=program)
    assert "KEY" not in str(told.value)
    assert set(str(told.value).split()) <= {*decoder._ENVIRONMENT, "PYTHONPATH", "LC_CTYPE"}
