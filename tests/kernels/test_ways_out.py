"""Code that wants to leave, or to ask somebody: the block ends, the kernel and its names live."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.kernel

LEAVING = [
    "exit()",
    "quit()",
    "import sys; sys.exit()",
    "import sys; sys.exit('enough')",
    "raise SystemExit(3)",
]


@pytest.mark.parametrize("lane", ["main", "worker", "async"])
@pytest.mark.parametrize("code", LEAVING)
async def test_leaving_ends_the_block_and_nothing_else(bench, code, lane):
    await bench.run("kept = 41")
    wait = "import asyncio\nawait asyncio.sleep(0)\n" if lane == "async" else ""
    block = await bench.run(
        f"{wait}print('said')\n{code}\nprint('never')", lane=None if lane == "async" else lane
    )
    assert (block.status, block.text) == ("error", "said\n")
    assert "SystemExit" in block.error
    assert (await bench.run("print(kept + 1)")).text == "42\n"


async def test_input_fails_at_once_with_a_sentence_and_cat_alone_ends(bench):
    asked = await bench.run("name = input('who? ')")
    assert (asked.status, "nobody to ask" in asked.error) == ("error", True)
    secret = await bench.run("import getpass\ngetpass.getpass()")
    assert (secret.status, "nobody to ask" in secret.error) == ("error", True)
    for code in ("!cat", "%%bash\ncat", "import subprocess\nprint(subprocess.run('cat').returncode)"):
        assert (await bench.run(code)).status == "ok", code
