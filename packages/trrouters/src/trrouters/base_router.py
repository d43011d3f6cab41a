"""The whole interface that an algorithm author must know: route, send, receive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from trrouters.model_identity import ModelIdentity
from trrouters.peer_req import PeerReq
from trrouters.route_result import Destinations, RouteResult, Tensor
from trrouters.routed_request import RoutedRequest
from trrouters.threshold_setting import ThresholdSetting

Need = Literal["logits", "hidden_states", "token_embedding", "extra_logits"]


@dataclass(frozen=True, slots=True)
class RouterContext:
    """Where a router runs.

    Attributes:
        index: of its subserver in the group.
        n_models: how many the group has.
        vocab_size: tokens that each model knows.
        models: all models of the group in order; empty where they are not known (in tests).
    """

    index: int
    n_models: int
    vocab_size: int
    models: tuple[ModelIdentity, ...] = ()


class BaseRouter:
    """Routing of one request among the models of a group, seen from one subserver.

    Every subserver has its own instance. Peers are numbered from here: peer k (1 … M-1) is
    subserver `(index + k) mod M`, so in a pair the other model is always peer 1 and 0 always means
    "stay". Keyword parameters of `__init__` are the algorithm's settings in the configuration;
    raise ValueError with the parameter's name in the message for one that cannot be.

    Source: TokenRouter (arXiv 2610.12242), section 3.
    """

    needs: frozenset[Need] = frozenset()
    """Engine outputs that `route` reads; engines copy nothing that nobody reads.

    Set it on the class, or in `__init__` where it depends on the model's index or on a setting.
    """

    models: ClassVar[tuple[int, int | None]] = (2, 2)
    """Smallest and largest number of models of a group (None: no limit)."""

    degradable: ClassVar[bool] = True
    """Whether a response may go on, marked `degraded`, without a model of a pair or this router."""

    threshold_setting: ClassVar[ThresholdSetting | None] = None
    """The setting that a request may bring its own value for (None: such requests are refused).

    A router that names one keeps its value as attribute of that name, at model 0 at least, and
    compares with what `thresholds` returns.
    """

    def __init__(self, context: RouterContext) -> None:
        self.context = context
        self.index = context.index
        self.n_models = context.n_models

    def peer_of(self, subserver: int) -> int:
        """The number that `subserver` has as a peer of this one (0 if it is this one)."""
        return (subserver - self.index) % self.n_models

    def entry(self, seed: int) -> int:
        """Subserver that makes the first token of a request with this seed. Default: 0."""
        del seed
        return 0

    @property
    def threshold_value(self) -> float:
        """The value in force of the `threshold_setting`, which there must be."""
        assert self.threshold_setting is not None
        return float(getattr(self, self.threshold_setting.name))

    def thresholds(self, result: RouteResult, scores: Tensor) -> float | Tensor:
        """What to compare `scores` `[batch]` with: the value in force.

        `[batch]`, like `scores`, where a request of the step has its own.
        """
        own = self.threshold_value
        asked = [req.threshold for req in result.requests]
        if asked.count(None) == len(asked):
            return own
        return scores.new_tensor([own if each is None else each for each in asked])

    def route(self, result: RouteResult) -> Destinations:
        """Destination of each request of a finished step: 0 = stay, k = hand to peer k.

        A batch for which this fails is routed again, each request alone.
        """
        raise NotImplementedError

    def send(self, req: RoutedRequest) -> PeerReq:
        """The message for `req.peer`. Default: everything, the sampled token included."""
        return self.hand_off(req, keep_token=True)

    def receive(self, peer_req: PeerReq) -> Sequence[int]:
        """The transmitted tokens that are not yet known here, to be returned as they are.

        They are committed, whoever sent them has seen to that; this is where `extras` are read.
        """
        return peer_req.token_ids

    def hand_off(self, req: RoutedRequest, *, keep_token: bool) -> PeerReq:
        """The minimal suffix for `req.peer`, with or without the token just sampled."""
        output = req.output_ids if keep_token else req.output_ids[:-1]
        loc = len(req.origin_input_ids) + len(output)
        known = req.peer_locs[req.peer]
        skipped = known - len(req.origin_input_ids)
        suffix = output[skipped:] if skipped >= 0 else [*req.origin_input_ids[known:], *output]
        return PeerReq(req.rid, suffix, loc, finished=keep_token and req.finished())
