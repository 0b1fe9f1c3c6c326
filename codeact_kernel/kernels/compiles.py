"""Whether code would compile in a kernel, judged here on the host.

Comes in: code as the model wrote it. Goes out: yes or no, after IPython's own transform (`!ls`, `%time`, `?`)
and with top-level await allowed.
"""

from __future__ import annotations

import ast
import warnings


def compiles(code: str) -> bool:
    """Tell whether code compiles after IPython's transform.

    Args:
        code: The code.
    """
    # All of IPython's shell comes with it, 40 ms at the start of a host, for replies that lack a closing tag.
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            transformed = TransformerManager().transform_cell(code)
            compile(transformed, "<block>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return False
    return True
