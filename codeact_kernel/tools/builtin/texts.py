"""Text and bytes of files.

Comes in: bytes and the names of encodings. Goes out: text, and the other way, or a `ToolError`.
"""

from __future__ import annotations

from codeact_kernel.errors import ToolError

PEEK = 8000
"""Bytes in which a zero byte says that a file is no text; git's own rule (`buffer_is_binary`)."""
_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
"""Byte order marks, and the encodings that they say."""


def mark_of(data: bytes) -> tuple[bytes, str]:
    """What the beginning of a file says of its encoding.

    Args:
        data: The beginning.

    Returns:
        The byte order mark, or nothing, and the encoding of what follows it.
    """
    return next(((mark, codec) for mark, codec in _MARKS if data.startswith(mark)), (b"", "utf-8"))


def decoded(data: bytes, encoding: str, path: str) -> str:
    """Bytes as text.

    Args:
        data: The bytes, without a byte order mark.
        encoding: Their encoding.
        path: For errors.

    Raises:
        ToolError: If they are no text in it.
    """
    if encoding == "utf-8" and b"\0" in data[:PEEK]:
        raise ToolError(f"{path!r} is no text; write_file(path, bytes) replaces it as a whole")
    try:
        return data.decode(encoding)
    except UnicodeError as error:
        raise undecodable(path, encoding) from error


def encoded(text: str, encoding: str) -> bytes:
    """Text as bytes.

    Args:
        text: The text.
        encoding: What it is written in.

    Raises:
        ToolError: If it cannot be, or there is no such encoding.
    """
    try:
        return text.encode(encoding)
    except LookupError as error:
        raise no_encoding(encoding) from error
    except UnicodeError as error:
        raise ToolError(f"the text cannot be written as {encoding}: {error}") from error


def undecodable(path: str, encoding: str) -> ToolError:
    """What to say of bytes that are no text.

    Args:
        path: What the model called the file.
        encoding: The encoding that was tried.
    """
    return ToolError(
        f"{path!r} is no {encoding} text; read_file with encoding='latin-1' or another, or encoding=None for bytes"
    )


def no_encoding(encoding: str) -> ToolError:
    """What to say of an encoding that there is not.

    Args:
        encoding: Its name.
    """
    return ToolError(
        f"{encoding!r} is no encoding of text; use 'utf-8', 'latin-1' or another that Python knows"
    )
