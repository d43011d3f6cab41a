"""Let the large model answer prompts and keep what the small model saw at every token.

Work is done in shards of a few prompts, each a function of the pair, the prompts and the settings
alone: a run that was stopped goes on with the first shard that is missing.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from trrouters.training.extra import TrainingExtraError

try:
    import torch
except ImportError as missing:
    raise TrainingExtraError("torch") from missing

from trrouters.algorithms.r_stitch import normalized_entropy
from trrouters.top_logits import top_logits
from trrouters.training.divergence import AnswerTrace, label_divergent
from trrouters.training.pair import PairError
from trrouters.training.rows import COLLECTED, Rows
from trrouters.training.stepping import Shown, step_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from trrouters.training.pair import TrainingPair


@dataclass(frozen=True)
class CollectSettings:
    """What is collected.

    Attributes:
        max_tokens: longest answer.
        horizon: tokens after the small model's token that must be what they were without it, for
            that token to count as neutral.
        top_k: logits kept a row.
    """

    max_tokens: int = 96
    horizon: int = 8
    top_k: int = 100


class SettingsChangedError(ValueError):
    """The directory holds work done with other settings."""


def collect(
    pair: TrainingPair,
    prompts: Sequence[str],
    directory: Path,
    settings: CollectSettings | None = None,
    *,
    progress: Callable[[int, str], None] = lambda _, __: None,
) -> list[Path]:
    """Write the shards that ``directory`` lacks, ``pair.sequences`` prompts each.

    Args:
        pair: the models.
        prompts: users' questions.
        directory: made when absent; remembers pair, prompts and settings.
        settings: what is collected.
        progress: called with the prompts just finished and words for people.

    Returns:
        Paths of all shards, in order.

    Raises:
        SettingsChangedError: when the directory was begun with another pair, prompts or settings.
        PairError: when an engine doesn't show what is kept, or a prompt is too long.
    """
    settings = settings or CollectSettings()
    for number, prompt in enumerate(prompts):  # before an hour's work is bound to these prompts
        _prompt_ids(pair, prompt, number)
    directory.mkdir(parents=True, exist_ok=True)
    _record(pair, prompts, settings, directory / COLLECTED)
    paths = []
    for first in range(0, len(prompts), pair.sequences):
        path = directory / f"rows-{first // pair.sequences:05d}.safetensors"
        chosen = prompts[first : first + pair.sequences]
        if not path.exists():
            collect_shard(pair, chosen, first, settings).save(path)
        progress(len(chosen), path.name)
        paths.append(path)
    return paths


def collect_shard(
    pair: TrainingPair, prompts: Sequence[str], first: int, settings: CollectSettings
) -> Rows:
    """Rows of some prompts, numbered from ``first``."""
    answers = [
        _Answer(pair, prompt, first + i, settings.max_tokens) for i, prompt in enumerate(prompts)
    ]
    while running := [answer for answer in answers if answer.running]:
        large = step_all(pair.large, [answer.large for answer in running])
        small = step_all(pair.small, [answer.small for answer in running])
        for answer in running:
            answer.hear(large[answer.large], small[answer.small], settings.top_k)
    traces = [answer.trace() for answer in answers]
    labels = label_divergent(pair.large, traces, horizon=settings.horizon, stop_ids=pair.stop_ids)
    for answer in answers:
        answer.release()
    seen = [row for answer in answers for row in answer.rows]
    return Rows(
        hidden_states=torch.stack([row["hidden_states"] for row in seen]).half(),
        token_embeddings=torch.stack([row["token_embeddings"] for row in seen]).half(),
        top_logits=torch.stack([row["top_logits"] for row in seen]).half(),
        small_tokens=torch.tensor([row["small_token"] for row in seen], dtype=torch.int32),
        tokens=torch.tensor([row["token"] for row in seen], dtype=torch.int32),
        small_logprob=torch.tensor([row["small_logprob"] for row in seen]),
        large_logprob=torch.tensor([row["large_logprob"] for row in seen]),
        entropy=torch.tensor([row["entropy"] for row in seen]),
        divergent=torch.tensor([label for line in labels for label in line], dtype=torch.int8),
        prompts=torch.tensor([row["prompt"] for row in seen], dtype=torch.int32),
    )


class _Answer:
    """One prompt in both engines, and the rows of its answer so far."""

    def __init__(self, pair: TrainingPair, prompt: str, number: int, max_tokens: int) -> None:
        self._pair = pair
        self._number = number
        self._prompt = _prompt_ids(pair, prompt, number)
        self._max_tokens = min(max_tokens, pair.context - len(self._prompt))
        self.small = pair.small.start(self._prompt, pair.greedy)
        self.large = pair.large.start(self._prompt, pair.greedy)
        self.rows: list[dict[str, Any]] = []
        self.running = True

    def hear(self, large: Shown, small: Shown, top_k: int) -> None:
        """Both models' views of the next position; the large one's greedy token stands."""
        if small.hidden_states is None or small.token_embeddings is None:
            raise PairError("the small model's engine shows no hidden states or token embeddings")
        token = int(large.logits.argmax())
        self.rows.append(
            {
                "hidden_states": small.hidden_states,
                "token_embeddings": small.token_embeddings,
                "top_logits": top_logits(small.logits[None], top_k)[0],
                "small_token": int(small.logits.argmax()),
                "token": token,
                "small_logprob": float(small.logits.log_softmax(-1)[token]),
                "large_logprob": float(large.logits.log_softmax(-1)[token]),
                "entropy": float(normalized_entropy(small.logits[None])[0]),
                "prompt": self._number,
            }
        )
        self.running = token not in self._pair.stop_ids and len(self.rows) < self._max_tokens
        if self.running:
            self._pair.small.append(self.small, [token])
            self._pair.large.append(self.large, [token])

    def trace(self) -> AnswerTrace:
        """For labelling."""
        tokens = [row["token"] for row in self.rows]
        small_tokens = [row["small_token"] for row in self.rows]
        ended = tokens[-1] in self._pair.stop_ids
        return AnswerTrace(self.large, len(self._prompt), tokens, small_tokens, ended)

    def release(self) -> None:
        """Free both sequences."""
        self._pair.small.release(self.small)
        self._pair.large.release(self.large)


def _prompt_ids(pair: TrainingPair, prompt: str, number: int) -> list[int]:
    ids = pair.prompt_ids(prompt)
    if len(ids) >= pair.context:
        raise PairError(f"prompt {number} has {len(ids)} tokens, room for none more")
    return ids


def _record(
    pair: TrainingPair, prompts: Sequence[str], settings: CollectSettings, path: Path
) -> None:
    digest = hashlib.sha256("\0".join(prompts).encode()).hexdigest()[:16]
    ours = {
        "pair": [{"name": m.name, "fingerprint": m.fingerprint} for m in pair.models],
        "prompts": {"count": len(prompts), "sha256": digest},
        "sequences": pair.sequences,
        "context": pair.context,
        **asdict(settings),
    }
    if path.exists():
        if (theirs := json.loads(path.read_text())) != ours:
            raise SettingsChangedError(f"{path.parent} was begun with {_difference(theirs, ours)}")
        return
    path.write_text(json.dumps(ours, indent=2) + "\n")


def _difference(theirs: Any, ours: dict[str, Any]) -> str:
    """The settings that differ, for people."""
    if not isinstance(theirs, dict):
        return "something else"
    names = [name for name in ours if theirs.get(name) != ours[name]]
    return "; ".join(f"{name} {theirs.get(name)}, not {ours[name]}" for name in names)
