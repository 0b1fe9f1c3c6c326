"""Decodes foreign files in a process of their own, one for each question.

Comes in: files, and what a picture may be. Goes out: pictures. A broken or hostile file can crash a decoder, fill the
memory or take for ever; here it ends a small process that holds no key and no connection. A question that is
cancelled ends its process. Both ends are in this file: `decode` is the host's, `main` the process's.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from codeact_kernel.errors import ToolError
from codeact_kernel.messages import ImageLimits, ImagePart
from codeact_kernel.tools.vision.pictures import Attached, Picture

SECONDS = 60.0
"""How long the files of one question may take; ours. Twenty scanned pages took 12 (measured)."""
MEMORY = 3 * 2**30
"""Bytes of address space; ours. The largest WebP that is taken needed 1.8 GB, other images half of that (measured)."""
_PROGRAM = "from codeact_kernel.tools.vision.decoder import main; main()"
_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT")
"""What of the host's environment a Python may need to start. No key is among it."""


async def decode(
    files: Sequence[Attached],
    limits: ImageLimits,
    seconds: float = SECONDS,
    memory: int = MEMORY,
    program: str = _PROGRAM,
) -> list[Picture]:
    """Make pictures of files.

    Args:
        files: The files.
        limits: What a picture may be.
        seconds: How long it may take.
        memory: Bytes that it may use.
        program: What the process runs.

    Raises:
        ToolError: If a file cannot be read, is too large, or takes too long.
    """
    about = {
        "files": [[file.name, file.pages] for file in files],
        "limits": asdict(limits),
        "bounds": [seconds, memory],
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-c",
        program,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=_environment(),
        start_new_session=True,  # a Ctrl-C at the terminal is for the host
    )
    try:
        said, complaints = await process.communicate(_written(about, [file.data for file in files]))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ToolError(_why(process.returncode, complaints, seconds))
    came, pieces = _parted(said)
    if "error" in came:
        raise ToolError(came["error"])
    return [
        Picture(ImagePart(label, kind, data, width, height), tuple(original), orientation)
        for data, (label, kind, width, height, original, orientation) in zip(
            pieces, came["pictures"], strict=True
        )
    ]


def main() -> None:
    """Decode the files on stdin, and write what came of them to stdout."""
    import resource

    about, pieces = _parted(sys.stdin.buffer.read())
    seconds, memory = about["bounds"]
    signal.setitimer(signal.ITIMER_REAL, seconds)  # its signal ends the process, also inside of a decoder
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    from codeact_kernel.tools.vision.images import pictures_of

    files = [
        Attached(name, data, None if pages is None else tuple(pages))
        for (name, pages), data in zip(about["files"], pieces, strict=True)
    ]
    try:
        pictures = pictures_of(files, ImageLimits(**about["limits"]))
    except ToolError as error:
        sys.stdout.buffer.write(_written({"error": error.message}, []))
        return
    told = [
        (one.part.label, one.part.media_type, one.part.width, one.part.height, one.original, one.orientation)
        for one in pictures
    ]
    sys.stdout.buffer.write(_written({"pictures": told}, [one.part.data for one in pictures]))


def _written(about: dict[str, Any], pieces: Sequence[bytes]) -> bytes:
    """A line of JSON, and then the pieces, of which it says the sizes."""
    return b"".join([json.dumps(about | {"sizes": [*map(len, pieces)]}).encode(), b"\n", *pieces])


def _parted(said: bytes) -> tuple[dict[str, Any], list[bytes]]:
    line, _, rest = said.partition(b"\n")
    about, pieces, at = json.loads(line), [], 0
    for size in about["sizes"]:
        pieces.append(rest[at : at + size])
        at += size
    return about, pieces


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    return {**kept, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _why(returncode: int, complaints: bytes, seconds: float) -> str:
    if returncode == -signal.SIGALRM:
        return f"the files take longer than {seconds:g} s to decode: ask about fewer"
    if returncode < 0:
        return f"the files cannot be decoded: one of them crashes its decoder ({signal.Signals(-returncode).name})"
    last = complaints.decode(errors="replace").strip().rpartition("\n")[2]
    return f"the files cannot be decoded: {last or f'exit code {returncode}'}"
