"""Whether code would compile in a kernel."""

from __future__ import annotations

import pytest

from codeact_kernel.kernels import compiles


@pytest.mark.parametrize(
    "code",
    ["print(2**20)", "await f()", "!ls", "%time x = 1", "len?", "x = !ls", "%%bash\nls (", "", "'\\d'"],
)
def test_what_a_kernel_takes_compiles(code):
    assert compiles(code)


@pytest.mark.parametrize("code", ["print(2**", "for i in range(3):", "x = (1,", "def f(:\n    pass", "\x00"])
def test_half_a_block_does_not_compile(code):
    assert not compiles(code)
