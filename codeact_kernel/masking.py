"""Known secrets, masked wherever text is written.

Comes in: names and values of secrets; texts, or anything that holds texts. Goes out: the same with `[secret NAME]` in
place of each value, also where the value stands there as JSON, `repr`, a URL, hexadecimal or base64 has it.

It is a net under accidents: a key in a traceback, in the output of `env`, in an error of a server. Code that wants to
write a secret so that nobody finds it can do that.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote, quote_plus, urlsplit

SHORTEST = 8
"""Characters from which on a value is masked: a shorter one is found in any text."""
_WORDS = frozenset({
    "anonymous", "changeme", "database", "development", "disabled", "external", "internal", "localhost", "optional",
    "password", "postgres", "postgresql", "production", "required", "testtest", "undefined", "username",
})  # fmt: skip
"""Values that stand where no secret is set, or none worth the name: masked, they would be missing from any text."""
_SCHEME = re.compile(r"(?:basic|bearer|token|apikey|key)\s+(\S+)", re.IGNORECASE)
"""A header's value, of which the second word is the secret."""
_LINE = 20
"""Characters from which on a single line of a longer secret, such as a PEM file, is masked by itself."""

_PIECE = 2**18
"""Bytes of a file that are looked at together: other threads wait for a look. A file that is mapped instead, and that
somebody shortens meanwhile, would end the process."""

_NAMES = re.compile(
    r"(?:API_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE)$|(?:^|_)(?:KEY|ACCESS_KEY_ID|AUTH|PAT)$|_PWD$",
    re.IGNORECASE,
)
"""Names of variables whose values are secrets."""
_HEADER = re.compile(r"(?:[a-z]+-)*(?:auth\w*|cookie|key|token|secret)", re.IGNORECASE)

T = TypeVar("T")


def is_secret_name(name: str) -> bool:
    """Whether a variable or a header of this name holds a secret."""
    return bool(_NAMES.search(name) or _HEADER.fullmatch(name))


def environment_secrets(env: Mapping[str, str]) -> dict[str, str]:
    """The secrets of an environment, by name: what is named as one, and passwords in URLs.

    Args:
        env: The environment. What blocks may see of it (`--env`) counts, too: they can use it, and it is still not
            written anywhere.
    """
    found = {name: value for name, value in env.items() if _NAMES.search(name)}
    return found | {name: password for name, value in env.items() if (password := url_password(value))}


def url_password(text: str) -> str:
    """The password of a URL; empty where it has none, or is no URL."""
    if "://" not in text or "@" not in text:
        return ""
    try:
        return urlsplit(text).password or ""
    except ValueError:
        return ""


class Mask:
    """Masks secrets. It may learn of more at any time.

    Args:
        secrets: By name the values. Those of fewer than eight characters, and some words, are left alone.
    """

    def __init__(self, secrets: Mapping[str, str] | None = None) -> None:
        self._values: dict[str, str] = {}
        self._forms: dict[str, str] = {}
        self._compile()
        self.learn(secrets or {})

    def learn(self, secrets: Mapping[str, str]) -> None:
        """Take more secrets.

        Args:
            secrets: As for the class. Of a value that is known already the first name stays.
        """
        before = len(self._forms)
        for name, value in secrets.items():
            for part in _parts(value):
                for form in _forms(part):
                    self._forms.setdefault(form, f"[secret {name}]")
        if len(self._forms) != before:
            self._compile()

    def __bool__(self) -> bool:
        return bool(self._forms)

    def text(self, text: str) -> str:
        """A text without the secrets."""
        if self._scan is None or len(text) < SHORTEST:
            return text
        pieces: list[str] = []
        end = 0
        for at, form in self._found(text):
            pieces += text[end:at], self._forms[form]
            end = at + len(form)
        return "".join((*pieces, text[end:])) if pieces else text

    def of(self, value: T) -> T:
        """Anything that holds texts, without the secrets: what holds none is given back as it is.

        Args:
            value: A text, a list, a tuple, a dict, a dataclass, or anything else (bytes, say), which stays.
        """
        return self._of(value) if self._forms else value

    def is_in(self, file: BinaryIO) -> bool:
        """Whether a file of any bytes holds a secret, from where it stands.

        Args:
            file: The file.

        Raises:
            OSError: If it cannot be read.
        """
        forms = [form.encode("utf-8", "surrogatepass") for form in self._forms]
        data, most = b"", max(map(len, forms), default=0)
        while forms and (piece := file.read(_PIECE)):
            data = data[-most:] + piece
            if any(form in data for form in forms):
                return True
        return False

    def error(self, error: BaseException) -> None:
        """Take the secrets out of an exception's own words, in place."""
        error.args = self.of(error.args)
        if isinstance(message := getattr(error, "message", None), str):
            error.message = self.text(message)  # type: ignore[attr-defined]

    def held(self, text: str) -> int:
        """How many characters at a text's end may be the beginning of a secret that goes on in the next piece."""
        if self._scan is None or not text or text[-1] not in self._alphabet:
            return 0
        longest = min(len(text), self._longest - 1)
        start = len(text)
        for at in range(len(text) - 1, len(text) - longest - 1, -1):
            if text[at] not in self._alphabet:
                break
            forms = self._by_first.get(text[at])
            if forms and any(form.startswith(text[at:]) for form in forms):
                start = at
        return len(text) - start

    def _found(self, text: str) -> Iterator[tuple[int, str]]:
        """Where secrets are, and which; the longest where several begin."""
        assert self._scan is not None
        end = 0
        for match in self._scan.finditer(text):
            at = match.start()
            if at < end:
                continue
            for form in self._by_start.get(text[at : at + SHORTEST], ()):
                if text.startswith(form, at):
                    end = at + len(form)
                    yield at, form
                    break

    def _compile(self) -> None:
        """Make what finds the forms.

        A regex that only compares sets of characters finds the places whose next eight may begin one, and a dict has
        the forms that begin so. With an alternative for each form it would be many times slower.
        """
        forms = sorted(self._forms, key=len, reverse=True)
        self._by_start: dict[str, list[str]] = defaultdict(list)
        self._by_first: dict[str, list[str]] = defaultdict(list)
        for form in forms:
            self._by_start[form[:SHORTEST]].append(form)
            self._by_first[form[0]].append(form)
        self._alphabet = frozenset("".join(forms))
        self._longest = len(forms[0]) if forms else 0
        sets = [{form[place] for form in forms} for place in range(SHORTEST)]
        first, *rest = ["[" + "".join(map(re.escape, sorted(chars))) + "]" for chars in sets]
        self._scan = re.compile(f"{first}(?={''.join(rest)})") if forms else None

    def _of(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case None | bool() | int() | float():
                return value
            case dict():
                return {self._of(key): self._of(item) for key, item in value.items()}
            case list():
                return [self._of(item) for item in value]
            case tuple():
                masked_items = [self._of(item) for item in value]
                same = all(new is old for new, old in zip(masked_items, value, strict=True))
                return value if same else tuple(masked_items)
        names = _fields_of(type(value))
        changed = {}
        for name in names:
            old = getattr(value, name)
            if (new := self._of(old)) is not old and new != old:
                changed[name] = new
        return dataclasses.replace(value, **changed) if changed else value


class StreamMask:
    """Masks a text that comes in pieces, wherever it was cut.

    Args:
        mask: Knows the secrets.
    """

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._kept = ""

    def feed(self, piece: str) -> str:
        """Take a piece; gives what can be written of all that has come: an end that may begin a secret is kept."""
        if not self._mask:
            return piece
        masked = self._mask.text(self._kept + piece)
        held = self._mask.held(masked)
        self._kept = masked[len(masked) - held :]
        return masked[: len(masked) - held]

    def rest(self) -> str:
        """What is kept; nothing goes on."""
        kept, self._kept = self._kept, ""
        return kept


_known: dict[type, tuple[str, ...]] = {}


def _fields_of(kind: type) -> tuple[str, ...]:
    """The names of a dataclass's fields; of anything else none."""
    names = _known.get(kind)
    if names is None:
        fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
        names = _known[kind] = tuple(field.name for field in fields if field.init)
    return names


def _parts(value: str) -> Iterator[str]:
    """A secret, and what of it may stand somewhere alone: the word behind "Bearer", the lines of a key in a file."""
    value = value.strip()
    if len(value) >= SHORTEST and value.lower() not in _WORDS:
        yield value
    lines = value.splitlines()
    if len(lines) > 1:
        yield from (line.strip() for line in lines if len(line) >= _LINE and not line.startswith("-----"))
    elif (header := _SCHEME.fullmatch(value)) is not None and len(header[1]) >= SHORTEST:
        yield header[1]


def _forms(value: str) -> Iterator[str]:
    """How a value may be written."""
    raw = value.encode("utf-8", "surrogatepass")
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    yield quote(raw, safe="")
    yield quote(raw)
    yield quote_plus(raw)
    yield raw.hex()
    for shift in range(3):
        # Inside a longer text that is encoded the same bytes give one of three texts; what their neighbours
        # have a part in is left out.
        encoded = base64.b64encode(bytes(shift) + raw)
        core = encoded[-(-8 * shift // 6) : 8 * (shift + len(raw)) // 6].decode()
        yield core
        yield core.replace("+", "-").replace("/", "_")
