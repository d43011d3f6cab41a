"""Train the large model's first layers to give its next-token distribution.

The student starts as a copy of the teacher's first layers and keeps its embedding, which is also
the LM head. The loss, at a random subset of positions with answers preferred, is the KL divergence
from the teacher's whole distribution (recomputed from its hidden state) plus the cosine distance
of the last hidden states.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trrouters.training.extra import TrainingExtraError

try:
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    raise TrainingExtraError("torch") from missing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor

    from trrouters_workshop.llama_torch import Llama
    from trrouters_workshop.sample import Shard


@dataclass(frozen=True)
class DistillSettings:
    """How long and how the student is trained.

    Attributes:
        passes: times each training row is read.
        minutes: wall-clock limit; the learning rate falls to its end by whichever of ``passes``
            and ``minutes`` is reached first, so a run that ends by time depends on the machine.
        batch: rows a step.
        learning_rate: at its peak, after ``warm_up`` steps; it then falls as a cosine to 2 %.
        warm_up: steps.
        answer_share: share of answer positions the loss sees in a step.
        other_share: the same for user turns and markers.
        held_out: rows kept for the report, at most a quarter of all.
        checkpoint_every: steps between checkpoints.
        seed: of the order of rows and the choice of positions.
    """

    passes: float = 3.0
    minutes: float = 15.0
    batch: int = 8
    learning_rate: float = 8e-4
    warm_up: int = 50
    answer_share: float = 0.42
    other_share: float = 0.08
    held_out: int = 32
    checkpoint_every: int = 100
    seed: int = 0


@dataclass(frozen=True)
class DistillReport:
    """What training did.

    Attributes:
        steps: of the optimizer.
        positions: read, over all passes.
        seconds: spent on steps.
        agreement_before: share of the held-out answer positions where the student's argmax is the
            teacher's, before the first step.
        agreement_after: the same after the last.
        cross_entropy: of the last step, in nats.
    """

    steps: int
    positions: int
    seconds: float
    agreement_before: float
    agreement_after: float
    cross_entropy: float


def distill(
    student: Llama,
    data: Shard,
    settings: DistillSettings,
    checkpoint: Path | None = None,
    *,
    progress: Callable[[float, float], None] = lambda _share, _loss: None,
) -> DistillReport:
    """Train ``student`` in place.

    Args:
        student: float32; its embedding is frozen and must be the teacher's.
        data: sampled conversations with the teacher's hidden states.
        settings: how long and how.
        checkpoint: written now and then, and continued from when it exists; ``None`` keeps none.
        progress: called after each step with the share done (0 to 1) and the cross entropy.

    Raises:
        ValueError: when there are too few rows for one step.
    """
    held_out = min(settings.held_out, data.tokens.shape[0] // 4)
    test, train = _rows(data, slice(0, held_out)), _rows(data, slice(held_out, None))
    if held_out == 0 or train.tokens.shape[0] < settings.batch:
        raise ValueError(f"{data.tokens.shape[0]} sampled rows are too few to train on")
    steps = max(1, round(settings.passes * train.tokens.shape[0] / settings.batch))
    run = _Run(student, settings, steps)
    if checkpoint is not None and checkpoint.exists():
        run.restore(checkpoint)
    else:
        run.agreement_before = _agreement(student, test)
    while run.share_done < 1.0:
        loss = run.step(train)
        progress(run.share_done, loss)
        if checkpoint is not None and run.step_number % settings.checkpoint_every == 0:
            run.save(checkpoint)
    if checkpoint is not None:
        run.save(checkpoint)
    return DistillReport(
        steps=run.step_number,
        positions=run.step_number * settings.batch * train.tokens.shape[1],
        seconds=run.seconds,
        agreement_before=run.agreement_before,
        agreement_after=_agreement(student, test),
        cross_entropy=run.cross_entropy,
    )


class _Run:
    """A training run that can be put down and taken up again."""

    def __init__(self, student: Llama, settings: DistillSettings, steps: int) -> None:
        student.token_embd.weight.requires_grad_(False)
        self.student = student
        self.settings = settings
        self.steps = steps
        self.step_number = 0
        self.seconds = 0.0
        self.agreement_before = math.nan
        self.cross_entropy = math.nan
        self._head = student.token_embd.weight.detach().bfloat16()
        self._trained = [p for p in student.parameters() if p.requires_grad]
        self._optimizer = torch.optim.AdamW(
            self._trained, lr=settings.learning_rate, betas=(0.9, 0.95), weight_decay=0.01
        )

    @property
    def share_done(self) -> float:
        spent = self.seconds / (60 * self.settings.minutes)
        return min(1.0, max(self.step_number / self.steps, spent))

    def step(self, train: Shard) -> float:
        """One optimizer step; returns the cross entropy in nats."""
        began = time.monotonic()
        for group in self._optimizer.param_groups:
            group["lr"] = self._learning_rate()
        batch = _rows(train, self._choose(train.tokens.shape[0]))
        with torch.autocast("cpu", torch.bfloat16):
            hidden = self.student(batch.tokens.long())
            entropy, distance = self._losses(hidden, batch)
        (entropy + distance).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self._trained, 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self.step_number += 1
        self.seconds += time.monotonic() - began
        self.cross_entropy = float(entropy.detach())
        return self.cross_entropy

    def _losses(self, hidden: Tensor, batch: Shard) -> tuple[Tensor, Tensor]:
        chance = torch.rand(batch.answers.shape, generator=self._generator(1))
        shares = self.settings.answer_share, self.settings.other_share
        seen = chance < torch.where(batch.answers, *shares)
        seen[:, 0] |= ~seen.any()  # never an empty mean
        wanted = F.linear(batch.hidden[seen], self._head).float().softmax(-1)
        given = F.linear(hidden[seen].bfloat16(), self._head).float().log_softmax(-1)
        entropy = -(wanted * given).sum(-1).mean()
        where = batch.answers if bool(batch.answers.any()) else seen
        alike = F.cosine_similarity(hidden[where].float(), batch.hidden[where].float(), dim=-1)
        return entropy, 1 - alike.mean()

    def _learning_rate(self) -> float:
        settings = self.settings
        falling = 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * self.share_done))
        return (
            settings.learning_rate * min(1.0, (self.step_number + 1) / settings.warm_up) * falling
        )

    def _choose(self, rows: int) -> Tensor:
        """This step's rows: a pass reads every row once, in an order of its own."""
        per_pass = rows // self.settings.batch
        number, place = divmod(self.step_number, per_pass)
        generator = torch.Generator().manual_seed(self.settings.seed * 1_000_003 + number)
        order = torch.randperm(rows, generator=generator)
        return order[place * self.settings.batch : (place + 1) * self.settings.batch]

    def _generator(self, purpose: int) -> torch.Generator:
        """Draws depend on the step, not on the run's history, so a resumed run draws the same."""
        seed = (self.settings.seed * 1_000_003 + self.step_number) * 31 + purpose
        return torch.Generator().manual_seed(seed)

    def save(self, path: Path) -> None:
        temporary = path.with_suffix(".part")
        state = {
            "student": self.student.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "step_number": self.step_number,
            "seconds": self.seconds,
            "agreement_before": self.agreement_before,
            "cross_entropy": self.cross_entropy,
        }
        torch.save(state, temporary)
        temporary.replace(path)

    def restore(self, path: Path) -> None:
        state = torch.load(path, weights_only=True)
        self.student.load_state_dict(state["student"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.step_number = state["step_number"]
        self.seconds = state["seconds"]
        self.agreement_before = state["agreement_before"]
        self.cross_entropy = state["cross_entropy"]


def _rows(data: Shard, which: slice | Tensor) -> Shard:
    return type(data)(data.tokens[which], data.hidden[which], data.answers[which])


@torch.inference_mode()
def _agreement(student: Llama, data: Shard) -> float:
    """Share of answer positions where student and teacher have the same argmax."""
    head = student.token_embd.weight.bfloat16()
    same = total = 0
    for row in range(data.tokens.shape[0]):
        where = data.answers[row]
        with torch.autocast("cpu", torch.bfloat16):
            hidden = student(data.tokens[row : row + 1].long())[0][where]
            given = F.linear(hidden.bfloat16(), head).argmax(-1)
            wanted = F.linear(data.hidden[row][where], head).argmax(-1)
        same += int((given == wanted).sum())
        total += int(where.sum())
    return same / max(total, 1)
