"""What is learnt for each trained algorithm: network, inputs, loss, and what the output means."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from trrouters.training.extra import TrainingExtraError

try:
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    raise TrainingExtraError("torch") from missing

from trrouters.algorithms.citer import CiterNetwork
from trrouters.algorithms.co_llm import DeferralHead
from trrouters.algorithms.r2r_network import R2RNetwork
from trrouters.algorithms.r2r_scorer import R2RScorer
from trrouters.training.ranking import float32_beside

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from trrouters.training.rows import Rows


@dataclass(frozen=True)
class TrainedAlgorithm:
    """One trained algorithm.

    Attributes:
        name: as registered.
        network: class of the network.
        architecture: its default arguments for a pair's rows.
        inputs: what the network reads of rows, float32.
        usable: ``[n]`` bool, rows to learn from.
        losses: one after the other, each (output ``[n]``, rows) → mean loss; the network is fitted
            to every one in turn.
        learning_rate: that fits its network, at its peak.
        trusts_small: the score is confidence in the small model, not doubt.
        stays_at_threshold: a token of exactly this score is not handed over.
        serving: the network as the router runs it: its scores are rounded otherwise, and a
            threshold is one of them.
    """

    name: str
    network: type[nn.Module]
    architecture: Callable[[Rows], dict[str, Any]]
    inputs: Callable[[Rows], tuple[Tensor, ...]]
    usable: Callable[[Rows], Tensor]
    losses: tuple[Callable[[Tensor, Rows], Tensor], ...]
    learning_rate: float
    trusts_small: bool = False
    stays_at_threshold: bool = False
    serving: Callable[[nn.Module], nn.Module] = lambda network: network

    @torch.inference_mode()
    def scores(self, network: nn.Module, rows: Rows) -> NDArray[np.float32]:
        """``[n]``, 0 to 1: what the router computes of these rows."""
        served = self.serving(copy.deepcopy(network).eval())
        parts = [served(*self.inputs(part)) for part in rows.chunks(8192)]
        scores: NDArray[np.float32] = torch.cat(parts).sigmoid().numpy()
        return scores

    def doubts(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """``[n]``: the higher, the sooner a token goes to the large model."""
        return -scores if self.trusts_small else scores

    def threshold(self, doubt: float) -> float:
        """The router's own threshold, for handing over from this doubt on."""
        score = -doubt if self.trusts_small else doubt
        beyond = 1.0 if self.trusts_small else 0.0
        return float32_beside(score, beyond if self.stays_at_threshold else score)

    def hands_over(self, scores: NDArray[np.float32], threshold: float) -> NDArray[np.bool_]:
        """``[n]``: what the router does with these scores."""
        doubts, limit = self.doubts(scores), np.float32(threshold)
        limit = -limit if self.trusts_small else limit
        return doubts > limit if self.stays_at_threshold else doubts >= limit


def _hidden(rows: Rows) -> tuple[Tensor]:
    return (rows.hidden_states.float(),)


def _all_inputs(rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    return rows.hidden_states.float(), rows.token_embeddings.float(), rows.top_logits.float()


def _hidden_size(rows: Rows) -> dict[str, Any]:
    return {"hidden_size": rows.hidden_states.shape[1]}


def _r2r_architecture(rows: Rows) -> dict[str, Any]:
    # The paper's six blocks of 1024 are for models of 1.5B. This one takes a tenth of the step of a
    # small model of 100M, and wider or deeper ones found no more in the demo pair's rows.
    sizes = {"widths": [128], "expansion": 4, "dropout": 0.2, "normalize": True}
    return {**_hidden_size(rows), "top_k": rows.top_logits.shape[1], **sizes}


def _all_rows(rows: Rows) -> Tensor:
    return torch.ones(len(rows), dtype=torch.bool)


def _is_divergent(output: Tensor, rows: Rows) -> Tensor:
    """R2R: the token would change the answer."""
    return F.binary_cross_entropy_with_logits(output, (rows.divergent == 1).float())


def _small_is_right(output: Tensor, rows: Rows) -> Tensor:
    """CITER, section 3.2: the small model is preferred where its token is the reference's."""
    return F.binary_cross_entropy_with_logits(output, rows.agrees.float())


def _weak_deferral(output: Tensor, rows: Rows) -> Tensor:
    """Co-LLM, section 2.3: start from where the assistant alone predicts the text's token."""
    return F.binary_cross_entropy_with_logits(output, (~rows.agrees).float())


_DEFERRAL_PRICE = 1.0


def _marginal_likelihood(output: Tensor, rows: Rows) -> Tensor:
    """Co-LLM, section 2.2: -log of (1-σ) P_base(token) + σ P_assistant(token), plus a price for σ.

    In the paper the text is another's and each model is better at parts of it. Here it is the
    assistant's own, under which deferring always is likeliest: without a price (in nats) that is
    what is learnt (ROC AUC for divergent tokens 0.56 instead of 0.68 with the demo pair).
    """
    base = F.logsigmoid(-output) + rows.small_logprob
    assistant = F.logsigmoid(output) + rows.large_logprob
    return (_DEFERRAL_PRICE * output.sigmoid() - torch.logaddexp(base, assistant)).mean()


ALGORITHMS = {
    "r2r": TrainedAlgorithm(
        "r2r",
        R2RNetwork,
        _r2r_architecture,
        _all_inputs,
        lambda rows: rows.divergent >= 0,
        (_is_divergent,),
        learning_rate=3e-4,
        serving=lambda network: R2RScorer(cast("R2RNetwork", network)),
    ),
    "citer": TrainedAlgorithm(
        "citer",
        CiterNetwork,
        _hidden_size,
        _hidden,
        _all_rows,
        (_small_is_right,),
        learning_rate=2e-4,
        trusts_small=True,
        stays_at_threshold=True,
        serving=lambda network: cast("CiterNetwork", network).for_serving(),
    ),
    "co_llm": TrainedAlgorithm(
        "co_llm",
        DeferralHead,
        _hidden_size,
        _hidden,
        _all_rows,
        (_weak_deferral, _marginal_likelihood),
        learning_rate=3e-3,
        stays_at_threshold=True,
    ),
}
"""By registered name."""
