"""The model of an agent, those of its sub-agents, and the one that sees.

Comes in: what the caller and the settings name. Goes out: models, each opened once and shared by all who use it: a
local one is half a gigabyte, and an endpoint's connections are worth keeping.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from codeact_kernel.agent.discretion import DiscreetModel
from codeact_kernel.agent.fallback import PATIENCE, FallbackModel
from codeact_kernel.agent.limiting import patience_of
from codeact_kernel.agent.options import REPLAY
from codeact_kernel.agent.spending import SpendingModel
from codeact_kernel.errors import ConfigError
from codeact_kernel.events import Event, ModelRetry
from codeact_kernel.masking import Mask, url_password
from codeact_kernel.messages import ModelRequest, Piece
from codeact_kernel.model import (
    ModelSettings,
    RetryPolicy,
    open_model,
    resolve,
    resolve_for_agent,
    resolve_vision,
)
from codeact_kernel.model.replay import ForkedModel, ReplayModel
from codeact_kernel.policy import Budget
from codeact_kernel.protocols import Model
from codeact_kernel.record import AGENTS, slug

if TYPE_CHECKING:
    from codeact_kernel.agent.config import Settings
    from codeact_kernel.agent.options import Options


@dataclass(frozen=True, slots=True)
class Replay:
    """What an agent says again."""

    record: Path
    before: int | None
    """The turn before which it ends; None for all of it."""
    where_it_parts: Literal["stop", "live", "told", "as recorded"]
    """What happens where the conversation is no longer as recorded: the run ends, another model goes on, or the replay
    does, and somebody is told of it or nobody."""


class SharedModel:
    """A `Model` that somebody else has opened, and closes.

    Args:
        model: The model.
        settings: What is known of it; None for a caller's own.
    """

    def __init__(self, model: Model, settings: ModelSettings | None) -> None:
        self._model = model
        self.settings = settings

    @property
    def name(self) -> str:
        """As in `Model`."""
        return self._model.name

    @property
    def window(self) -> int | None:
        """As in `Model`."""
        return self._model.window

    def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """As in `Model`."""
        return self._model.stream(request)

    async def aclose(self) -> None:
        """Nothing: it is not ours."""


class Models:
    """What an agent asks, and what its sub-agents ask.

    Args:
        options: What the caller wants.
        settings: What the settings say.
        emit: Told of retries.
        mask: Knows the secrets that no model is sent.
        budget: Gives the budget that pays for their calls.

    Raises:
        ConfigError: If no model is named, or something about it is wrong.
        RecordError: If the replies of a replay cannot be read.
    """

    def __init__(
        self,
        options: Options,
        settings: Settings,
        emit: Callable[[Event], None],
        mask: Mask,
        budget: Callable[[], Budget],
    ) -> None:
        self._mask = mask
        self._budget = budget
        self._aliases = settings.models
        self._base_url = options.base_url
        self._emit = emit
        self._patience = patience_of(options, settings)
        self._named_fallback = options.fallback or settings.fallback
        self._fallback: Model | None = None
        self._opened: dict[str, SharedModel] = {}
        self._own: list[Model] = []
        """What was opened here, or given to us, and is closed here."""
        named, then = options.model, options.then
        fork: tuple[Path | str, int | None] | None = options.fork
        self.settings: ModelSettings | None = None
        if named is None or isinstance(named, str):
            self.settings = self._resolved(named, settings.model)
        record = _record_of(self.settings)
        if record is not None and then not in (None, REPLAY):
            named, fork = then, (record, None)
            self.settings = self._resolved(named, None) if isinstance(named, str) else None
        elif record is None and then is not None:
            raise ConfigError("what goes on after a replay (--then) goes with a replay: --model replay:FILE")
        self._given = named
        self.model: Model = self._held(named) if self.settings is None else self._with_fallback(self.settings)
        self._forked: ForkedModel | None = None
        self._place = _record_of(self.settings)
        """The record whose sub-agents say again what they said."""
        self.replay: Replay | None = None
        """What is said again; None where nothing is, or only replies are known."""
        self.then: str | SharedModel | None = REPLAY if then == REPLAY else None
        """What sub-agents do that say again what they said."""
        if fork is not None:
            self._fork(*fork)
        elif record is not None and record.suffix != ".jsonl":
            self.replay = Replay(record, None, "stop" if then is None else "as recorded")

    def for_agent(self, alias: str | None, name: str) -> str | SharedModel:
        """The model of a sub-agent.

        Args:
            alias: What its block says; None for the parent's.
            name: The sub-agent's name. Where the parent replays a run, it replays what that agent said there.

        Raises:
            ConfigError: If something about it is wrong.
        """
        if alias is None and self._place is not None and not (self._forked and self._forked.is_live):
            place = self._place if self._place.is_dir() else self._place.parent
            recorded = place / AGENTS / slug(name)
            if recorded.is_dir():
                return f"replay:{recorded}"
        if alias is None:
            return SharedModel(self.model, self.settings)
        if alias not in self._opened:
            if self.settings is None:
                wanted = resolve(alias, self._aliases, self._base_url)
            else:
                wanted = resolve_for_agent(alias, self.settings, self._aliases)
            same = wanted == self.settings
            self._opened[alias] = SharedModel(self.model if same else self._with_fallback(wanted), wanted)
        return self._opened[alias]

    def seer(self, named: str | Model | None) -> SharedModel | None:
        """The model that sees.

        Args:
            named: What the caller says of it; None for the alias `vision`.

        Returns:
            The model; None where none is set.

        Raises:
            ConfigError: If something about it is wrong.
            RecordError: If the replies of a replay cannot be read.
        """
        if isinstance(named, SharedModel):
            return named
        if named is not None and not isinstance(named, str):
            # One that answers for itself, too, is one model, and closed once.
            return SharedModel(self.model if named is self._given else self._door(named, None), None)
        wanted = resolve_vision(named, self.settings, self._aliases, self._base_url)
        return None if wanted is None else SharedModel(self._open(wanted), wanted)

    async def aclose(self) -> None:
        """Let go of what was opened here."""
        for model in self._own:
            await model.aclose()

    def go_live(self) -> None:
        """Say nothing again any more; the model that goes on after a replay does."""
        if self._forked is not None:
            self._forked.go_live()

    def _fork(self, record: Path | str, turn: int | None) -> None:
        """Say again what was said before a turn; None for all of it, as long as the conversation is as recorded."""
        place = self._place = Path(record).expanduser()
        recorded = ReplayModel.load(place)
        last = recorded.left + 1
        if turn is not None and not 2 <= turn <= last:
            raise ConfigError(f"{record} can be forked at turn 2 to {last}, and not at {turn}")
        self.then = REPLAY if turn else SharedModel(self.model, self.settings)
        self.model = self._forked = ForkedModel(self._door(recorded, None), self.model, (turn or last) - 1)
        if place.suffix != ".jsonl":
            self.replay = Replay(place, turn, "told" if turn else "live")

    def _held(self, model: str | Model | None) -> Model:
        """A caller's own model."""
        assert model is not None
        assert not isinstance(model, str)
        if isinstance(model, SharedModel):
            self.settings = model.settings
            return model
        return self._stood_in_for(self._door(model, None))

    def _resolved(self, named: str | None, default: str | None) -> ModelSettings:
        return resolve(named, self._aliases, self._base_url, default=default)

    def _with_fallback(self, settings: ModelSettings) -> Model:
        """Open a model that another one stands in for, where one is named."""
        return self._stood_in_for(self._open(settings, stood_in_for=self._named_fallback is not None))

    def _stood_in_for(self, first: Model) -> Model:
        named = self._named_fallback
        if named is None:
            return first
        if self._fallback is None:
            if not isinstance(named, str):
                self._fallback = self._door(named, None)
            elif self.settings is None:
                self._fallback = self._open(resolve(named, self._aliases, self._base_url))
            else:
                self._fallback = self._open(resolve_for_agent(named, self.settings, self._aliases))
        return FallbackModel(first, self._fallback, self._emit)

    def _open(self, settings: ModelSettings, *, stood_in_for: bool = False) -> Model:
        if settings.key is not None:
            self._mask.learn({settings.key_from: settings.key.reveal()})
        if password := url_password(settings.base_url):
            self._mask.learn({"of the endpoint": password})
        policy = RetryPolicy(min(self._patience, PATIENCE) if stood_in_for else self._patience)
        model = open_model(settings, lambda reason, wait: self._emit(ModelRetry(0, reason, wait)), policy)
        return self._door(model, settings)

    def _door(self, model: Model, settings: ModelSettings | None) -> Model:
        """What a model is asked through, whoever asks: it is sent no secret, and the budget pays."""
        self._own.append(model)
        return DiscreetModel(SpendingModel(model, settings, self._budget), self._mask)


def _record_of(settings: ModelSettings | None) -> Path | None:
    return Path(settings.model) if settings is not None and settings.kind == "replay" else None
