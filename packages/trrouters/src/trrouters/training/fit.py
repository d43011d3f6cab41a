"""Fit a router's network to rows, and keep what is best on prompts it doesn't learn from."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trrouters.training.extra import TrainingExtraError

try:
    import torch
except ImportError as missing:
    raise TrainingExtraError("torch") from missing

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

    from trrouters.training.rows import Rows
    from trrouters.training.trained_algorithm import TrainedAlgorithm


@dataclass(frozen=True)
class FitSettings:
    """How a network is fitted.

    Attributes:
        epochs: most times the rows are read.
        patience: epochs without a better validation loss before it stops.
        batch: rows a step.
        learning_rate: AdamW's at its peak; falls as a cosine. None: the algorithm's own.
        weight_decay: AdamW's.
        seed: of the first weights and of the order of rows.
    """

    epochs: int = 12
    patience: int = 3
    batch: int = 256
    learning_rate: float | None = None
    weight_decay: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"epochs must be at least 1, not {self.epochs}")
        if self.learning_rate is not None and not 0 < self.learning_rate < math.inf:
            raise ValueError(f"learning rate must be above 0, not {self.learning_rate}")


def fit(
    algorithm: TrainedAlgorithm,
    architecture: dict[str, object],
    train: Rows,
    validation: Rows,
    settings: FitSettings,
    *,
    progress: Callable[[int, str], None] = lambda _, __: None,
) -> tuple[nn.Module, float]:
    """A network fitted to ``train``, and its loss on ``validation``.

    The same rows and settings give the same network on the same machine.

    Args:
        algorithm: what is learnt.
        architecture: the network's arguments.
        train: usable rows.
        validation: usable rows of other prompts.
        settings: how.
        progress: called after each epoch with 1 and words for people.

    Raises:
        ValueError: for an architecture that cannot be, or when no epoch has a finite loss.
    """
    torch.manual_seed(settings.seed)
    try:
        network = algorithm.network(**architecture)
    except (TypeError, RuntimeError) as error:  # RuntimeError: no memory for such widths
        said = str(error).partition("\n")[0]
        raise ValueError(f"{algorithm.name}: {said}") from error
    loss = float("inf")
    for stage in algorithm.losses:
        loss = _fit_stage(algorithm, network, stage, train, validation, settings, progress)
        if not math.isfinite(loss):
            raise ValueError("the loss is not finite: try a lower learning rate")
    return network.eval(), loss


def _fit_stage(
    algorithm: TrainedAlgorithm,
    network: nn.Module,
    loss_of: Callable[[Tensor, Rows], Tensor],
    train: Rows,
    validation: Rows,
    settings: FitSettings,
    progress: Callable[[int, str], None],
) -> float:
    optimizer = torch.optim.AdamW(
        network.parameters(),
        lr=settings.learning_rate or algorithm.learning_rate,
        weight_decay=settings.weight_decay,
    )
    steps = settings.epochs * -(-len(train) // settings.batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    generator = torch.Generator().manual_seed(settings.seed)
    best, best_state, bad = float("inf"), copy.deepcopy(network.state_dict()), 0
    for epoch in range(settings.epochs):
        network.train()
        for chosen in torch.split(torch.randperm(len(train), generator=generator), settings.batch):
            if len(chosen) == 1:  # BatchNorm wants more
                continue
            rows = train.where(chosen)
            optimizer.zero_grad()
            torch.autograd.backward(loss_of(network(*algorithm.inputs(rows)), rows))
            optimizer.step()
            schedule.step()
        found = _loss(algorithm, network, loss_of, validation)
        progress(1, f"epoch {epoch + 1}: validation loss {found:.4f}")
        if found < best:
            best, best_state, bad = found, copy.deepcopy(network.state_dict()), 0
        elif (bad := bad + 1) == settings.patience:
            break
    network.load_state_dict(best_state)
    return best


@torch.inference_mode()
def _loss(
    algorithm: TrainedAlgorithm,
    network: nn.Module,
    loss_of: Callable[[Tensor, Rows], Tensor],
    rows: Rows,
) -> float:
    network.eval()
    total = sum(
        float(loss_of(network(*algorithm.inputs(part)), part)) * len(part)
        for part in rows.chunks(8192)
    )
    return total / len(rows)
