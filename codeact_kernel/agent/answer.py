"""Answers of a type: the answer's text as JSON, validated.

Comes in: a type and the text of an answer. Goes out: the value, or what was wrong, in words for the model.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import TypeAdapter, ValidationError

TRIES = 3
"""How often the model is asked again for an answer that validates."""
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL)


class AnswerType:
    """What an answer has to be.

    Args:
        kind: A type that pydantic knows: a model, a dataclass, `list[int]`, …
    """

    def __init__(self, kind: Any) -> None:
        self._adapter: TypeAdapter[Any] = TypeAdapter(kind)

    @property
    def instruction(self) -> str:
        """What the system prompt says of it."""
        schema = json.dumps(self._adapter.json_schema(), ensure_ascii=False)
        return f"Your answer, the reply that ends the run, must be JSON and nothing else, of this schema:\n{schema}"

    def read(self, text: str) -> Any:
        """Read an answer.

        Args:
            text: The answer; JSON, also inside one fence.

        Returns:
            The validated value.

        Raises:
            ValueError: If it is no such JSON; the text says what is wrong, for the model.
        """
        fenced = _FENCE.search(text)
        try:
            return self._adapter.validate_json(fenced[1] if fenced else text)
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, e['loc'])) or 'the answer'}: {e['msg']}" for e in error.errors()[:5]
            )
            raise ValueError(problems) from None
