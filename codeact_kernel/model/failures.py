"""What went wrong with a call, from whatever an endpoint or the network did.

Comes in: an exception of the client library. Goes out: a `Failure`: the `ModelError` for it, and whether
another try, a request without some field, or a look at the endpoint's models makes sense. Keys never get
into a message, also where an endpoint sends the key back.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import openai

from codeact_kernel.blocks import format_duration
from codeact_kernel.errors import ContextOverflow, ModelError, ModelRefused, ModelUnreachable, RateLimited
from codeact_kernel.model.address import public_url
from codeact_kernel.model.settings import ModelSettings

_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|context_window_exceeded"  # OpenAI, llama.cpp, Anthropic
    r"|maximum (context|model|prompt|allowed input) length"  # OpenAI, vLLM, SGLang, DeepSeek, xAI
    r"|(available|maximum) context size|context size has been exceeded"  # llama.cpp
    r"|exceeds? (the |your )?(model'?s? )?context (window|limit|length)|context length exceeded"
    r"|(prompt|input|request) is too long|prompt too long"  # Anthropic, Bedrock
    r"|input token count.{0,40}exceeds"  # Gemini
    r"|longer than the model'?s context length|context the overflows"  # SGLang, LM Studio
    r"|too large for model with|reduce the length of the (messages|input|prompt)"  # Mistral, Groq
    r"|must have less than \d+ tokens|max_new_tokens` must be",  # TGI, Together
    re.IGNORECASE,
)
_WINDOW = re.compile(
    r"(?:context (?:length|size)|prompt length|tokens allowed|model length|allowed input length)"
    r"(?: is| of only| of)? ?\(?(\d{3,})|> (\d{3,}) maximum|(\d{3,}) maximum context",
    re.IGNORECASE,
)
_UNKNOWN_MODEL = re.compile(
    r"model_not_found|(unknown|invalid|no such|nonexistent) model"
    r"|model\b.{0,120}\b(not found|does not exist|not exist|not a valid model)",
    re.IGNORECASE,
)
_REJECTED = re.compile(
    r"support|recogni|unknown|unexpected|extra|permitted|allowed|invalid|forbidden|too (many|long)",
    re.IGNORECASE,
)
_TRANSIENT = {408, 409, 425, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529}
_LONGEST_DETAIL = 300


@dataclass(frozen=True, slots=True)
class Failure:
    """What a failed call comes to."""

    error: ModelError
    again: bool = False
    """Whether the same request may work later."""
    retry_after: float | None = None
    """Seconds that the endpoint asks to wait."""
    rejected: str | None = None
    """The optional field of the request that it does not take."""
    unknown_model: bool = False
    window: int | None = None
    """The window that the endpoint's words give away, in tokens."""


def judge(error: Exception, settings: ModelSettings, optional: Collection[str] = ()) -> Failure:
    """Judge a failed call.

    Args:
        error: What the client library raised.
        settings: Who was asked.
        optional: The fields of the request that may be left out.
    """
    endpoint = public_url(settings.base_url)
    if isinstance(error, openai.APITimeoutError):
        text = f"{endpoint} did not answer within {format_duration(settings.timeout)}"
        return Failure(ModelUnreachable(text, model=settings.model, endpoint=endpoint), again=True)
    if not isinstance(error, openai.APIError) or isinstance(error, openai.APIConnectionError):
        text = f"cannot reach {endpoint}: {_root(error)} (is it running, and is --base-url right?)"
        return Failure(ModelUnreachable(text, model=settings.model, endpoint=endpoint), again=True)
    return _judge_answer(error, settings, endpoint, optional)


def _judge_answer(
    error: openai.APIError, settings: ModelSettings, endpoint: str, optional: Collection[str]
) -> Failure:
    status = _status(error)
    detail = _detail(error, settings)
    words = f"{error.code} {error.type} {detail}"
    who: dict[str, Any] = {"model": settings.model, "endpoint": endpoint, "status": status}
    response = getattr(error, "response", None)
    wait = retry_after(response.headers) if response is not None else None
    if status != 429 and (status == 413 or _OVERFLOW.search(words)):
        text = f"the prompt does not fit the window of {settings.model}: {detail}"
        return Failure(ContextOverflow(text, **who), window=_window(error, detail))
    if status == 429 and "insufficient_quota" in words:
        return Failure(ModelRefused(f"{endpoint} says that the quota is used up: {detail}", **who))
    if status == 429 or "rate_limit" in words:
        text = f"{endpoint} limits the rate: {detail}"
        return Failure(RateLimited(text, retry_after=wait, **who), again=True, retry_after=wait)
    if status in (401, 403):
        return Failure(ModelRefused(_about_key(settings, endpoint, status, detail), **who))
    if status in _TRANSIENT or status is None:
        text = f"{endpoint} failed{f' with {status}' if status else ''}: {detail}"
        return Failure(ModelUnreachable(text, **who), again=True, retry_after=wait)
    refused = ModelRefused(f"{endpoint} refused the request ({status}): {detail}", **who)
    if status in (400, 422) and (rejected := _rejected(error, detail, optional)):
        return Failure(refused, rejected=rejected)
    return Failure(refused, unknown_model=status == 404 or bool(_UNKNOWN_MODEL.search(words)))


def _about_key(settings: ModelSettings, endpoint: str, status: int, detail: str) -> str:
    if settings.key is None:
        return f"{endpoint} wants a key ({status}): set {settings.key_from}"
    return f"{endpoint} does not take the key in {settings.key_from} ({status}): {detail}"


def _status(error: openai.APIError) -> int | None:
    """The HTTP status, or the one that an error inside a stream names."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status
    return int(code) if re.fullmatch(r"[45]\d\d", code := str(error.code)) else None


def _detail(error: openai.APIError, settings: ModelSettings) -> str:
    """What the endpoint said, as one short line without the key."""
    text = (
        _text_of(error.body)
        or getattr(getattr(error, "response", None), "reason_phrase", "")
        or "no reason given"
    )
    if settings.key is not None:
        text = text.replace(settings.key.reveal(), "…")
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_DETAIL else text[:_LONGEST_DETAIL] + "…"


def _text_of(body: object) -> str:
    """The message in an error's body; the shapes are OpenAI's, FastAPI's, Ollama's and plain text."""
    if isinstance(body, str):
        return "" if "<html" in body.lower() else body
    if isinstance(body, list):
        return "; ".join(filter(None, map(_text_of, body)))
    if not isinstance(body, Mapping):
        return ""
    place = ".".join(map(str, body["loc"])) + ": " if isinstance(body.get("loc"), list) else ""
    for key in ("message", "msg", "detail", "error"):
        if text := _text_of(body.get(key)):
            return place + text
    return ""


def _rejected(error: openai.APIError, detail: str, optional: Collection[str]) -> str | None:
    named = re.split(r"[.\[]", error.param)[0] if isinstance(error.param, str) else ""
    if named in optional:
        return named
    if not _REJECTED.search(detail):
        return None
    return next((name for name in optional if re.search(rf"\b{re.escape(name)}\b", detail)), None)


def _window(error: openai.APIError, detail: str) -> int | None:
    if isinstance(error.body, Mapping) and isinstance(error.body.get("n_ctx"), int):
        return int(error.body["n_ctx"])
    found = _WINDOW.search(detail.replace(",", ""))
    return int(next(filter(None, found.groups()))) if found else None


def _root(error: BaseException) -> str:
    """The operating system's words for a failed connection, or the innermost ones there are."""
    text = ""
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.strerror:
            # Above zero it is the system's own number; asyncio puts other words beside it.
            return os.strerror(cause.errno) if cause.errno and cause.errno > 0 else cause.strerror
        text = str(cause) or text
    return text or type(error).__name__


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Read how long an endpoint asks to wait.

    Args:
        headers: The response's headers.
        now: Seconds since the epoch; None takes the response's own Date, else the clock.

    Returns:
        Seconds, not below zero; None where it does not say or what it says makes no sense.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d+(\.\d+)?", value):
            return float(value) * unit
    until = _date(headers.get("retry-after", ""))
    if until is None:
        return None
    since = _date(headers.get("date", "")) if now is None else now
    return max(0.0, until - (time.time() if since is None else since))


def _date(value: str) -> float | None:
    try:
        return parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None
