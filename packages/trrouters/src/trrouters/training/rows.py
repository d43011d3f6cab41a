"""What is learnt from: one row for every token of the large model's answers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import msgspec

from trrouters.model_identity import ModelIdentity
from trrouters.training.extra import TrainingExtraError

try:
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    raise TrainingExtraError(missing.name or "torch") from missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from torch import Tensor


COLLECTED = "collected.json"
"""Beside the rows: the pair, the prompts and the settings."""


@dataclass(frozen=True)
class Rows:
    """Positions of answers that the large model wrote greedily, as the small one saw them.

    Attributes:
        hidden_states: ``[n, hidden]`` float16, of the small model, what its LM head sees.
        token_embeddings: ``[n, hidden]`` float16, of the small model's greedy token.
        top_logits: ``[n, k]`` float16, the small model's largest logits, falling.
        small_tokens: ``[n]`` int32, the small model's greedy token.
        tokens: ``[n]`` int32, the large model's, which stands in the text.
        small_logprob: ``[n]`` float32, of ``tokens`` under the small model, nats.
        large_logprob: ``[n]`` float32, of ``tokens`` under the large model, nats.
        entropy: ``[n]`` float32, of the small model's distribution over its maximum, 0 to 1.
        divergent: ``[n]`` int8: 1 where the small model's token would change what the large one
            goes on to say, 0 where not, -1 where the answer was cut off before it showed.
        prompts: ``[n]`` int32, the prompt's number.
    """

    hidden_states: Tensor
    token_embeddings: Tensor
    top_logits: Tensor
    small_tokens: Tensor
    tokens: Tensor
    small_logprob: Tensor
    large_logprob: Tensor
    entropy: Tensor
    divergent: Tensor
    prompts: Tensor

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def agrees(self) -> Tensor:
        """``[n]`` bool: the two models' tokens are the same."""
        return self.small_tokens == self.tokens

    def where(self, mask: Tensor) -> Rows:
        """The rows where ``mask`` ``[n]`` is true."""
        return Rows(**{field.name: getattr(self, field.name)[mask] for field in fields(self)})

    def chunks(self, size: int) -> Iterator[Rows]:
        """Consecutive parts of at most ``size`` rows."""
        for first in range(0, len(self), size):
            part = slice(first, first + size)
            yield Rows(**{f.name: getattr(self, f.name)[part] for f in fields(self)})

    def split_prompts(self, share: float, seed: int = 0) -> tuple[Rows, Rows]:
        """Rows of ``1 - share`` of the prompts, and of the others: no prompt is in both."""
        prompts = torch.unique(self.prompts)
        order = torch.randperm(len(prompts), generator=torch.Generator().manual_seed(seed))
        chosen = torch.isin(self.prompts, prompts[order[: max(1, round(share * len(prompts)))]])
        return self.where(~chosen), self.where(chosen)

    def save(self, path: Path) -> None:
        """Write a shard; it is whole or not there."""
        temporary = path.with_suffix(".part")
        save_file({f.name: getattr(self, f.name).contiguous() for f in fields(self)}, temporary)
        temporary.replace(path)


def join(parts: Sequence[Rows]) -> Rows:
    """One after the other."""
    return Rows(
        **{f.name: torch.cat([getattr(part, f.name) for part in parts]) for f in fields(Rows)}
    )


class Collected(msgspec.Struct, frozen=True):
    """What ``trrouters collect`` remembers beside its rows.

    Attributes:
        pair: the models.
        prompts: ``count`` and ``sha256`` of the prompts.
        max_tokens: longest answer.
        horizon: tokens compared after a difference.
    """

    pair: list[ModelIdentity]
    prompts: dict[str, Any]
    max_tokens: int
    horizon: int


def load_collected(directory: Path) -> Collected:
    """What ``trrouters collect`` wrote to a directory beside its rows.

    Raises:
        OSError: when it wrote nothing.
        ValueError: naming the file when it is damaged.
    """
    path = directory / COLLECTED
    try:
        return msgspec.json.decode(path.read_bytes(), type=Collected)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path}: {error}") from error


def load_rows(directory: Path) -> Rows:
    """All shards that ``trrouters collect`` wrote to a directory.

    Raises:
        OSError: when there are none.
        ValueError: naming the shard that is damaged.
    """
    paths = sorted(directory.glob("rows-*.safetensors"))
    if not paths:
        raise OSError(f"{directory} has no collected rows: run `trrouters collect` first")
    return join([_load_shard(path) for path in paths])


def _load_shard(path: Path) -> Rows:
    try:
        rows = Rows(**load_file(path))
    except (SafetensorError, TypeError) as error:  # TypeError: other tensors than Rows has
        raise ValueError(f"{path} holds no collected rows: {error}") from error
    for field in fields(Rows):
        if (count := len(getattr(rows, field.name))) != len(rows):
            raise ValueError(f"{path}: {count} {field.name} for {len(rows)} tokens")
    return rows
