"""What kernels that are forked from one process have in common, made before the fork.

Comes in: the command line that they have in common. Goes out: the application and IPython's shell, made once, and in
each kernel made its own: what a shell keeps of the process, folder and configuration in which it was made is set anew.
"""

from __future__ import annotations

import atexit
import os
import sys
from copy import deepcopy
from typing import Any

from IPython.core.profiledir import ProfileDir
from traitlets.config import Config

from codeact_kernel.inkernel.app import CodeactApp
from codeact_kernel.inkernel.debugging import CodeactDebugger
from codeact_kernel.inkernel.shell import CodeactShell
from codeact_kernel.inkernel.syntax import BlockCompiler


class Before:
    """What is there before the fork.

    Args:
        options: The kernels' command line, but for the connection file.
    """

    def __init__(self, options: list[str]) -> None:
        self._app: CodeactApp = CodeactApp.instance()
        self._app.parse_command_line(options)
        self._app.before = self
        self._config = deepcopy(self._app.config)
        files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        CodeactDebugger.listed = [file for file in files if file]

    def make_shell(self) -> None:
        """Make the shell. Comes last: from here on `__main__` is the namespace of blocks."""
        self._main = sys.modules["__main__"]
        self._shell: CodeactShell = CodeactShell.instance(
            config=deepcopy(self._config),
            ipython_dir=os.getcwd(),  # noqa: PTH109
            profile_dir=ProfileDir(),
            compiler_class=BlockCompiler,
        )

    def run(self, connection_file: str, life: int) -> None:
        """In a kernel: run it until it is shut down.

        Args:
            connection_file: Its connection file.
            life: The descriptor by which it sees that its host is gone.
        """
        own = Config({CodeactApp.__name__: {"connection_file": connection_file}})
        self._app.update_config(own)
        self._config.merge(own)
        self._app.life = life
        self._app.parent_handle = int(os.environ["JPY_PARENT_PID"])
        self._app.initialize()
        self._app.start()

    def check_shell(self) -> None:
        """Forget the shell where files of a configuration have changed what it would be."""
        atexit.unregister(self._shell.atexit_operations)
        if self._app.config != self._config:
            sys.modules["__main__"] = self._main
            CodeactShell.clear_instance()

    def move_in(self, kernel: Any) -> None:
        """Make the shell a kernel's own, as if it had been made for it.

        Args:
            kernel: The kernel.
        """
        shell = self._shell
        if kernel.shell is not shell:
            return
        shell.parent = shell.kernel = kernel
        # ipykernel's shell notes things there while it is made.
        kernel.config.merge(shell.config)
        shell.config = kernel.config
        shell.init_ipython_dir(None)
        shell.init_profile_dir(kernel.profile_dir)
        shell.history_manager.hist_file = shell.history_manager._get_hist_file_name()
        if "db" in vars(shell):
            # An older IPython opens it while the shell is made, and not when it is needed.
            shell.db = type(shell.db)(os.path.join(kernel.profile_dir.location, "db"))  # noqa: PTH118
        shell.init_environment()
        shell.init_pushd_popd_magic()
        shell.save_sys_module_state()
        shell._orig_sys_modules_main_mod = self._main
        shell.sys_excepthook = sys.excepthook
        atexit.register(shell.atexit_operations)
