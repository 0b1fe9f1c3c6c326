"""The environment of a kernel and of commands: an allow-list, so that no key of ours is ever in it.

Comes in: the host's environment and what the user lets through. Goes out: the environment of what blocks run.
"""

from __future__ import annotations

from collections.abc import Mapping

_NAMES = {
    "HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
    "CONDA_DEFAULT_ENV", "CONDA_PREFIX", "VIRTUAL_ENV", "PYENV_ROOT", "PYTHONPATH", "PYTHONHASHSEED", "JUPYTER_PATH",
    "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
    "CUDA_VISIBLE_DEVICES", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE",
    "OPENBLAS_NUM_THREADS", "MPLBACKEND", "MPLCONFIGDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
    "SYSTEMROOT", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
}  # fmt: skip
_PREFIXES = ("LC_",)


def kernel_environment(
    host: Mapping[str, str], allowed: tuple[str, ...] = (), extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Build a kernel's environment.

    Args:
        host: The host's own environment.
        allowed: Names of variables that blocks may see besides the plain ones (`--env NAME`).
        extra: Variables to set.

    Returns:
        The variables of the allow-list that the host has, and the extra ones.
    """
    names = _NAMES | set(allowed)
    kept = {name: value for name, value in host.items() if name in names or name.startswith(_PREFIXES)}
    return {**kept, **(extra or {})}


_AT_START = (
    "LD_",
    "DYLD_",
    "GLIBC_",
    "MALLOC_",
    "PYTHON",
    "LC_",
    "LANG",
    "IPYTHON_",
    "JUPYTER_",
    "PYDEVD_",
    "DEBUGPY_",
)


def parent_environment(host: Mapping[str, str], env: Mapping[str, str], preload: bool) -> dict[str, str]:
    """Build the environment of a warm parent. Kernels with the same one can be forked from the same parent.

    What is only read at the start of an interpreter has to be there before the fork; everything else a kernel gets
    when it is forked, and no other kernel can find it in what the parent was started with.

    Args:
        host: The host's own environment.
        env: The kernel's.
        preload: Whether modules are preloaded: any variable may count for them.
    """
    if preload:
        return dict(env)
    started = {name: value for name, value in env.items() if name.startswith(_AT_START)}
    plain = kernel_environment(host)
    return {**{name: value for name, value in plain.items() if not name.startswith(_AT_START)}, **started}
