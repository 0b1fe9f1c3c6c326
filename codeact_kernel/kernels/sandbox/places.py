"""Which folders a kernel needs, whatever its sandbox.

Comes in: an interpreter. Goes out: the folders that it reads: its own, its packages', and ours.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import cloudpickle

from codeact_kernel.errors import ConfigError

PACKAGE = Path(__file__).resolve().parents[2]
"""Our package: the kernel's code lies in it."""
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/opt/conda")
ETC = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "fonts", "ld.so.cache", "ld.so.conf",
    "ld.so.conf.d", "localtime", "magic", "mime.types", "pki", "protocols", "services", "ssl", "timezone",
)  # fmt: skip
"""What programs read of /etc, and that tells nothing of the machine's people."""
NETWORK = ("host.conf", "hosts", "nsswitch.conf", "resolv.conf")
"""What of /etc they read besides to find a host."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
PROTECTED = (".codeact", ".git/config", ".git/hooks", "codeact.toml")
"""What of a workspace others run or trust later: the kernel may read it and not change it."""

_ASK = r"""
import json, os, site, sys
from importlib.metadata import distributions
from urllib.parse import unquote, urlparse
found = [sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path, site.getusersitepackages()]
link = sys.executable
for _ in range(20):
    found.append(os.path.dirname(link))
    if not os.path.islink(link):
        break
    link = os.path.join(os.path.dirname(link), os.readlink(link))
for finder in sys.meta_path:
    mapping = getattr(sys.modules.get(getattr(finder, "__module__", "")), "MAPPING", {})
    found += [os.path.dirname(path) if os.path.isfile(path) else path for path in mapping.values()]
for distribution in distributions():
    try:
        about = json.loads(distribution.read_text("direct_url.json") or "{}")
    except Exception:
        continue
    if about.get("dir_info", {}).get("editable"):
        found.append(unquote(urlparse(about["url"]).path))
found = [os.path.realpath(path) for path in dict.fromkeys(found) if os.path.isabs(path)]
print(json.dumps([path for path in found if os.path.exists(path)]))
"""
_TIMEOUT = 30.0
_known: dict[str, tuple[Path, ...]] = {}


async def roots(python: str) -> tuple[Path, ...]:
    """The folders that an interpreter needs, none of them inside another one.

    Args:
        python: The interpreter's path. It is asked itself, without what lies in the current folder.

    Raises:
        ConfigError: If it does not answer.
    """
    if python not in _known:
        try:
            # Not isolated as a whole: packages of the user's own folder are his interpreter's, too.
            process = await asyncio.create_subprocess_exec(
                python,
                "-I",
                "-c",
                _ASK,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=-1,
                stderr=asyncio.subprocess.DEVNULL,
            )
            async with asyncio.timeout(_TIMEOUT):
                out, _ = await process.communicate()
            found = [Path(path) for path in json.loads(out)]
        except (OSError, ValueError, TimeoutError):
            raise ConfigError(f"{python} does not tell where its packages lie") from None
        _known[python] = _outermost([*found, Path(python).parent, PACKAGE, Path(cloudpickle.__file__).parent])
    return _known[python]


def given(env: dict[str, str]) -> tuple[Path, ...]:
    """The folders that variables of a kernel name for its interpreter."""
    listed = f"{env.get('PYTHONPATH', '')}{os.pathsep}{env.get('LD_LIBRARY_PATH', '')}".split(os.pathsep)
    return _outermost([Path(path).resolve() for path in listed if path and Path(path).is_absolute()])


def _outermost(paths: list[Path]) -> tuple[Path, ...]:
    """Folders that hold the others. What would open a whole home is left out: it holds more than packages."""
    home = Path.home().resolve()
    kept: list[Path] = []
    for path in sorted({path for path in paths if path.exists() and not home.is_relative_to(path)}):
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return tuple(kept)
