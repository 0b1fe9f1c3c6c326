"""A pickle is code. The host reads none, and a kernel only at the places that know whom it is from."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import codeact_kernel

ROOT = Path(codeact_kernel.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
READERS = {"cloudpickle", "dill", "joblib", "marshal", "shelve", "torch", "copyreg", "pickletools"}
"""What unpickles in ways of its own; `pickle` itself is looked at name by name."""
NAMES = {"load", "loads", "Unpickler", "_Unpickler", "read_pickle", "_loads", "_load"}
POOLS = {"ProcessPoolExecutor", "Pool", "Manager", "Listener", "Client", "Pipe"}
"""What unpickles whatever the process at the other end sends."""
KERNEL = {
    "inkernel/namespace.py": {"loads"},  # what the host has seeded
    "inkernel/parcels.py": {"Unpickler"},  # what a kernel has sent that may do no less
    "inkernel/checkpoint/restoring.py": {"Unpickler"},  # what a kernel has saved that might do no less
}


def reads(tree):
    """Where a module reads pickles, as names."""
    aliases = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                top = name.name.partition(".")[0]
                if top == "pickle":
                    aliases.add(name.asname or top)
                elif top in READERS - {"cloudpickle"}:
                    yield top
        elif isinstance(node, ast.ImportFrom) and node.module:
            top = node.module.partition(".")[0]
            if top in {"pickle", *READERS}:
                yield from (f"{top}.{name.name}" for name in node.names)
            if top in ("multiprocessing", "concurrent"):
                yield from (name.name for name in node.names if name.name in POOLS)
        elif isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if (owner in aliases and node.attr in NAMES) or (owner == "cloudpickle" and node.attr in NAMES):
                yield node.attr
            if node.attr in ("read_pickle", "allow_pickle"):
                yield node.attr
        elif isinstance(node, ast.Call):
            for word in node.keywords:
                off = isinstance(word.value, ast.Constant) and word.value.value is False
                if word.arg in ("allow_pickle", "weights_only") and off is (word.arg == "weights_only"):
                    yield word.arg
            named = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            told = any(word.arg == "allow_pickle" for word in node.keywords)
            if named == "load" and "numpy" in ast.unparse(node.func) and not told:
                yield "numpy.load"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_pickles_are_read_at_three_places_in_the_kernel_and_nowhere_on_the_host(file):
    found = set(reads(ast.parse(file.read_text("utf-8"))))
    assert found == KERNEL.get(file.relative_to(ROOT).as_posix(), set())


@pytest.mark.parametrize(
    "code",
    [
        "import pickle\npickle.loads(b'')",
        "import pickle as p\np.Unpickler(f)",
        "from pickle import loads",
        "from cloudpickle import load",
        "import cloudpickle\ncloudpickle.loads(b'')",
        "import joblib",
        "import dill",
        "import shelve",
        "import marshal",
        "import numpy\nnumpy.load(f)",
        "import numpy\nnumpy.load(f, allow_pickle=True)",
        "pandas.read_pickle(f)",
        "from concurrent.futures import ProcessPoolExecutor",
        "import torch",
    ],
)
def test_the_search_finds_what_it_looks_for(code):
    assert list(reads(ast.parse(code)))
