"""What is compared: a system takes requests and says when each token came, and from which model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One request.

    seed: of its sampling and of everything else that is drawn for it.
    """

    number: int
    prompt_ids: tuple[int, ...]
    max_tokens: int
    seed: int


@dataclass(slots=True)
class TimedResponse:
    """What a client saw of one request; times in seconds of `time.perf_counter`.

    times, tokens, models: of each token its arrival, its id and the index of the model that made it
        (-1 where the system does not say).
    """

    began: float
    times: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    models: list[int] = field(default_factory=list)


class System(Protocol):
    """Open until the context manager that made it ends."""

    name: str

    @property
    def configuration(self) -> dict[str, Any]:
        """Everything that decides how fast it is, printed with the result."""

    async def serve(self, item: WorkItem) -> TimedResponse:
        """One request, from its submission to its last token. Any number may run at once."""
