"""What this user's installation signs with: a secret of the host.

Comes in: bytes. Goes out: their signature (HMAC-SHA-256), which nobody can make who cannot read the secret. It is made
once per user, lies in the platform's folder for data, and no kernel's environment, record or run folder holds it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import platformdirs

from codeact_kernel.errors import ConfigError
from codeact_kernel.runfiles import Folder, write_all

FILE = "signing-key"
SIZE = 32
"""Bytes of the secret: as many as of the digest, RFC 2104's advice."""
VARIABLE = "CODEACT_DATA_DIR"
_BLOCK = 64
"""Bytes that SHA-256 takes at a time (FIPS 180-4)."""


class Signer:
    """Signs.

    Args:
        secret: The secret.
    """

    def __init__(self, secret: bytes) -> None:
        # HMAC (RFC 2104) of two digests that have read the secret already: half the time of the library's.
        block = (secret if len(secret) <= _BLOCK else hashlib.sha256(secret).digest()).ljust(_BLOCK, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))
        self.name = self.sign(b"name of this key")[:16]
        """Tells one secret from another, and nothing of it."""

    def sign(self, data: bytes) -> str:
        """The signature of bytes, as 64 hexadecimal digits."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(data)
        outer.update(inner.digest())
        return outer.hexdigest()

    def is_right(self, data: bytes, signature: str) -> bool:
        """Whether a signature is that of bytes."""
        return hmac.compare_digest(self.sign(data).encode(), signature.encode("utf-8", "replace"))

    def __repr__(self) -> str:
        return f"Signer({self.name})"


def data_dir(env: Mapping[str, str] | None = None) -> Path:
    """The folder of what is kept for this user: `CODEACT_DATA_DIR`, or `codeact-kernel` in the platform's place.

    Args:
        env: The environment; None takes that of the process.
    """
    chosen = (os.environ if env is None else env).get(VARIABLE)
    return Path(chosen).expanduser() if chosen else platformdirs.user_data_path("codeact-kernel")


def host_signer(folder: Path | None = None, *, make: bool = True) -> Signer:
    """The signer of this user's installation.

    Args:
        folder: Where its secret is; None takes `data_dir()`.
        make: Whether a secret is made where there is none.

    Raises:
        ConfigError: If there is none, it cannot be made or read, or others can read it.
    """
    folder = data_dir() if folder is None else folder
    try:
        if not make and not (folder / FILE).exists():
            raise ConfigError(f"there is no key in {folder}: nothing was ever signed there")
        place = Folder.make(folder)
        try:
            if not place.has(FILE):
                with suppress(FileExistsError):  # another process was first
                    _make(place)
            return Signer(_read(place))
        finally:
            place.close()
    except OSError as error:
        raise ConfigError(
            f"the key that audits and records are signed with cannot be kept in {folder}: {error.strerror or error}; "
            f"make that folder yours, or name another one in {VARIABLE}"
        ) from error


def _make(place: Folder) -> None:
    fd = place.create(FILE)
    try:
        write_all(fd, secrets.token_bytes(SIZE))
        os.fsync(fd)
    finally:
        os.close(fd)


def _read(place: Folder) -> bytes:
    path = place.path / FILE
    for _ in range(100):
        fd = place.read(FILE)
        try:
            about, secret = os.fstat(fd), os.read(fd, SIZE + 1)
        finally:
            os.close(fd)
        if os.name == "posix" and about.st_mode & 0o077:
            raise ConfigError(f"others can read {path}, so it is no secret: remove it, and a new one is made")
        if len(secret) == SIZE:
            return secret
        time.sleep(0.01)  # another process may be about to write it
    raise ConfigError(f"{path} is no key: remove it, and a new one is made")
