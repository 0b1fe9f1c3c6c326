"""The model of an agent, those of its sub-agents, and the one that sees.

Comes in: what the caller and the settings name. Goes out: models, each opened once and shared by all who use it: a
local one is half a gigabyte, and an endpoint's connections are worth keeping.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from codeact_kernel.agent.discretion import DiscreetModel
from codeact_kernel.agent.fallback import PATIENCE, FallbackModel
from codeact_kernel.agent.limiting import patience_of
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
        named = self._given = options.model
        self.settings: ModelSettings | None
        if named is None or isinstance(named, str):
            self.settings = resolve(named, self._aliases, self._base_url, default=settings.model)
            self.model: Model = self._with_fallback(self.settings)
        else:
            self.settings = named.settings if isinstance(named, SharedModel) else None
            self.model = (
                named if isinstance(named, SharedModel) else self._stood_in_for(self._door(named, None))
            )
        self._forked: ForkedModel | None = None
        self._replayed = (
            Path(self.settings.model) if self.settings and self.settings.kind == "replay" else None
        )
        """The record whose sub-agents say again what they said."""
        if options.fork is not None:
            self._fork(*options.fork)

    def for_agent(self, alias: str | None, name: str) -> str | SharedModel:
        """The model of a sub-agent.

        Args:
            alias: What its block says; None for the parent's.
            name: The sub-agent's name. Where the parent replays a run, it replays what that agent said there.

        Raises:
            ConfigError: If something about it is wrong.
        """
        if alias is None and self._replayed is not None and not (self._forked and self._forked.is_live):
            place = self._replayed if self._replayed.is_dir() else self._replayed.parent
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

    def _fork(self, record: Path | str, turn: int) -> None:
        recorded = ReplayModel.load(Path(record).expanduser())
        if not 2 <= turn <= recorded.left + 1:
            raise ConfigError(f"{record} can be forked at turn 2 to {recorded.left + 1}, and not at {turn}")
        self._replayed = Path(record).expanduser()
        self.model = self._forked = ForkedModel(self._door(recorded, None), self.model, turn - 1)

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
