"""Confines a process from inside, by system calls alone, with no helper program.

Comes in: a description of what the process may still do. Goes out: a process that can do no more, and neither can
its children. Needs the standard library only and knows its own files by relative names: started by its path, this
folder works without the package around it, before anything else can be imported.
"""

from .confining import confine, enter
from .filtering import seal
from .holding import holds
from .joining import join
from .landlock import abi as landlock_abi
from .linux import CannotConfine

__all__ = ["CannotConfine", "confine", "enter", "holds", "join", "landlock_abi", "seal"]
