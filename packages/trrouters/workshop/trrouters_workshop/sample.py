"""Let the large model write conversations by itself, and keep what the student learns from.

The model starts from an open user turn, so it invents the question, then answers it, and so on
until the rows are full. Kept are the tokens and the last hidden state of every position: with the
tied head, which both models share, that is the teacher's whole next-token distribution in 1,152
bytes instead of 49,152 numbers.

Work is done in shards, each a function of (seed, shard number) alone: a run that was stopped goes
on with the first shard that is missing, and ends with the same data.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from trrouters.training.collect import SettingsChangedError
from trrouters.training.extra import TrainingExtraError

try:
    import torch
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    raise TrainingExtraError(missing.name or "torch") from missing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor

    from trrouters_workshop.llama_torch import Llama
    from trrouters_workshop.turns import Turns

_CANDIDATES = 200  # tokens the nucleus is sought among


@dataclass(frozen=True)
class SampleSettings:
    """How much is sampled, and how.

    Attributes:
        tokens: positions wanted, rounded up to whole shards.
        rows: conversations written side by side, one shard.
        length: tokens of each, the system turn included.
        user_temperature: for user turns; 1 keeps them varied.
        answer_temperature: for answers; below 1 they stay near what a server gives.
        top_p: nucleus, for both.
        longest_user_turn: tokens after which the answer is started anyway.
        seed: of everything drawn here.
    """

    tokens: int = 200_000
    rows: int = 64
    length: int = 256
    user_temperature: float = 1.0
    answer_temperature: float = 0.65
    top_p: float = 0.93
    longest_user_turn: int = 60
    seed: int = 0

    @property
    def shards(self) -> int:
        """Number of shards."""
        return -(-self.tokens // (self.rows * self.length))


@dataclass(frozen=True)
class Shard:
    """Sampled conversations.

    Attributes:
        tokens: ``[rows, length]``, int32.
        hidden: ``[rows, length, hidden]``, bfloat16, after the teacher's final norm.
        answers: ``[rows, length]``, bool: the next token is the answer's (or ends it).
    """

    tokens: Tensor
    hidden: Tensor
    answers: Tensor


def sample_shards(
    teacher: Llama,
    turns: Turns,
    settings: SampleSettings,
    directory: Path,
    *,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Path]:
    """Write the shards that ``directory`` lacks.

    Args:
        teacher: the large model, in the dtype to sample with.
        turns: its turn markers.
        settings: as recorded in ``directory/settings.json`` by the first call.
        directory: made when absent.
        progress: called with the positions just written.

    Returns:
        Paths of all shards, in order.

    Raises:
        SettingsChangedError: when the directory was begun with other settings; only
            ``tokens`` may change.
    """
    directory.mkdir(parents=True, exist_ok=True)
    _record(settings, directory / "settings.json")
    paths = [directory / f"shard-{number:05d}.safetensors" for number in range(settings.shards)]
    for number, path in enumerate(paths):
        if path.exists():
            progress(settings.rows * settings.length)
            continue
        shard = _write(teacher, turns, settings, number, progress)
        temporary = path.with_suffix(".part")
        save_file(
            {"tokens": shard.tokens, "hidden": shard.hidden, "answers": shard.answers}, temporary
        )
        temporary.replace(path)
    return paths


def load_shards(paths: list[Path]) -> Shard:
    """All shards as one, in memory: 1,157 bytes a position for a hidden size of 576."""
    parts = [load_file(path) for path in paths]
    return Shard(
        tokens=torch.cat([part["tokens"] for part in parts]),
        hidden=torch.cat([part["hidden"] for part in parts]),
        answers=torch.cat([part["answers"] for part in parts]),
    )


def _record(settings: SampleSettings, path: Path) -> None:
    ours = {key: value for key, value in asdict(settings).items() if key != "tokens"}
    if path.exists():
        if (theirs := json.loads(path.read_text())) != ours:
            raise SettingsChangedError(f"{path.parent} was begun with {theirs}, not with {ours}")
        return
    path.write_text(json.dumps(ours))


@torch.inference_mode()
def _write(
    teacher: Llama,
    turns: Turns,
    settings: SampleSettings,
    number: int,
    progress: Callable[[int], None],
) -> Shard:
    generator = torch.Generator().manual_seed(settings.seed * 1_000_003 + number)
    rows, length = settings.rows, settings.length
    cache = teacher.new_cache(rows, length)
    writers = [_Row(turns, settings) for _ in range(rows)]
    tokens = torch.tensor(turns.opening[:length]).repeat(rows, 1)
    hidden = [teacher(tokens, cache)]
    answers = [torch.zeros(tokens.shape, dtype=torch.bool)]
    columns = [tokens]
    progress(tokens.numel())
    for position in range(tokens.shape[1], length):
        temperature = torch.tensor([row.temperature for row in writers])
        drawn = _draw(
            teacher.logits(hidden[-1][:, -1]).float(), temperature, settings.top_p, generator
        )
        chosen = [row.take(token) for row, token in zip(writers, drawn.tolist(), strict=True)]
        answers[-1][:, -1] = torch.tensor([is_answer for _, is_answer in chosen])
        column = torch.tensor([[token] for token, _ in chosen])
        columns.append(column)
        answers.append(torch.zeros(rows, 1, dtype=torch.bool))
        hidden.append(teacher(column, cache, position))
        progress(rows)
    return Shard(
        tokens=torch.cat(columns, 1).int(),
        hidden=torch.cat(hidden, 1).bfloat16(),
        answers=torch.cat(answers, 1),
    )


class _Row:
    """Whose turn it is in one conversation, and the marker tokens still to be written."""

    def __init__(self, turns: Turns, settings: SampleSettings) -> None:
        self._turns = turns
        self._settings = settings
        self._forced: list[int] = []
        self._answering = False
        self._turn_length = 0

    @property
    def temperature(self) -> float:
        settings = self._settings
        return settings.answer_temperature if self._answering else settings.user_temperature

    def take(self, sampled: int) -> tuple[int, bool]:
        """The token to write, given what the model sampled; and whether it is the answer's."""
        if self._forced:
            return self._forced.pop(0), False
        self._turn_length += 1
        if self._answering:
            if sampled not in self._turns.stops:
                return sampled, True
            self._hand_over(self._turns.to_user, answering=False)
            return self._turns.end, True
        too_long = self._turn_length >= self._settings.longest_user_turn
        if sampled not in self._turns.stops and not too_long:
            return sampled, False
        first, *rest = self._turns.to_answer
        self._hand_over(rest, answering=True)
        return first, False

    def _hand_over(self, markers: tuple[int, ...] | list[int], *, answering: bool) -> None:
        self._forced = list(markers)
        self._answering = answering
        self._turn_length = 0


def _draw(logits: Tensor, temperature: Tensor, top_p: float, generator: torch.Generator) -> Tensor:
    """One token a row, ``[rows]``, from the nucleus of ``logits`` ``[rows, vocabulary]``."""
    best, ids = (logits / temperature[:, None]).topk(min(_CANDIDATES, logits.shape[1]), dim=-1)
    chances = best.softmax(-1)
    before = chances.cumsum(-1) - chances  # mass of the likelier tokens
    kept = chances.masked_fill(before > top_p, 0.0)
    return ids.gather(1, torch.multinomial(kept, 1, generator=generator))[:, 0]
