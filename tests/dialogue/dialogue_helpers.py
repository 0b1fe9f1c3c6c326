"""What the tests of this room share: reading a reply in pieces, and short forms of what came out."""

import ast

from codeact_kernel.blocks import Fault, Prose
from codeact_kernel.dialogue.tags import TagReader


def compiles(code):
    try:
        ast.parse(code)
    except (SyntaxError, ValueError):
        return False
    return True


def count(text):
    """Four characters a token, the usual estimate."""
    return (len(text) + 3) // 4


def pieces(reply, size=None):
    return [reply[at : at + size] for at in range(0, len(reply), size)] if size else [reply]


def read(reply, finish="stop", size=None, in_use=(), reader=None):
    """Read a whole reply; what is cut is given up."""
    reader = reader or TagReader(compiles, in_use)
    items = [item for piece in pieces(reply, size) for item in reader.feed(piece)]
    items += reader.finish(finish)
    if reader.cut:
        items += reader.give_up()
    return joined(items), reader


def joined(items):
    """The items, with each stretch of prose in one."""
    out = []
    for item in items:
        if isinstance(item, Prose) and out and isinstance(out[-1], Prose):
            out[-1] = Prose(out[-1].text + item.text)
        else:
            out.append(item)
    return out


def parts_of(items):
    return joined(item for item in items if not isinstance(item, Fault))


def faults_of(items):
    return [item for item in items if isinstance(item, Fault)]


def blocks_of(items):
    return [item for item in items if not isinstance(item, Fault | Prose)]


def prose_of(items):
    return "".join(item.text for item in items if isinstance(item, Prose))
