"""Syntax trees that many threads want at once."""

from __future__ import annotations
import __future__

import ast
import gc
import subprocess
import sys
import threading

import pytest

from codeact_kernel.inkernel.syntax import BlockCompiler, adopt_parsing

CODE = ("f(" * 20 + "x" + ")" * 20 + "\n") * 5


class Litter:
    """Garbage that takes a while to collect, so that another thread gets its turn in the middle of a tree."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        for _ in range(50):
            pass


def failures():
    """Build trees in four threads at once; returns what failed."""
    failed = []

    def work():
        for _ in range(80):
            Litter()
            try:
                ast.parse(CODE)
            except SystemError as error:
                failed.append(str(error))

    sys.setswitchinterval(1e-6)
    gc.set_threshold(20)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def test_trees_built_in_many_threads_are_whole():
    # In a process of its own, because what it sets is for all of a process.
    subprocess.run([sys.executable, __file__], check=True, timeout=60)


def test_flags_for_one_piece_of_code_are_those_of_the_thread_that_compiles_it():
    compiler, opened, closed = BlockCompiler(), threading.Event(), threading.Event()

    def beside():
        with compiler.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
            opened.set()
            closed.wait()

    thread = threading.Thread(target=beside)
    thread.start()
    opened.wait()
    with compiler.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
        closed.set()
        thread.join()
        compiler("await f()", "<x>", "exec")
    with pytest.raises(SyntaxError):
        compiler("await f()", "<x>", "exec")


def test_a_future_statement_holds_for_the_code_after_it():
    compiler = BlockCompiler()
    with compiler.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
        compiler("from __future__ import annotations", "<x>", "exec")
    assert compiler.flags & __future__.annotations.compiler_flag


if __name__ == "__main__":
    adopt_parsing()
    sys.exit("; ".join(failures()) or 0)
