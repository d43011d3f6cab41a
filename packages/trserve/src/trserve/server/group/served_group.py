"""What an app serves: a group under a name, its tokenizer, limits, and its events' way back."""

from __future__ import annotations

import hashlib
import time
from typing import Protocol

from trrouters import BaseRouter
from trsched.loops.stream import Stream
from trsched.models.vocabulary import Vocabulary
from trsched.plan.config import GroupConfig
from trsched.request import FinishReason, GenerateRequest
from trsched.shared.counters import GroupStatus
from trserve.openai.request_limits import RequestLimits
from trserve.server.group.event_delivery import EventDelivery
from trserve.server.metrics.http_metrics import HttpMetrics
from trserve.server.text.tokenizer import Tokenizer


class RunningGroup(Protocol):
    """The part of `trsched.group.Group` that the HTTP side uses."""

    config: GroupConfig
    vocabulary: Vocabulary
    router: BaseRouter

    def submit(self, request: GenerateRequest) -> Stream:
        """Start a request; raises RequestError."""

    def abort(self, stream: Stream, reason: FinishReason = "abort") -> None:
        """End a request; its final event follows."""

    def status(self) -> GroupStatus:
        """A snapshot."""


class ServedGroup:
    """Built once the group is open, whose events `delivery.deliver` must receive.

        delivery = EventDelivery()
        group = Group.open(config, deliver=delivery.deliver)
        app = create_app(ServedGroup(group, delivery, api_key=...))

    The group is closed by whoever opened it.

    group: runs the models.
    delivery: where events of requests arrive.
    name: the model's for clients.
    api_key: what clients must send as bearer token; None lets everyone in.
    limits: what a client may ask for.
    created: when, in seconds since 1970.
    models: the group's, by name.
    tokenizer: of the vocabulary that they share.
    context: most tokens of a prompt and its output.
    metrics: of the HTTP side and the group.
    fingerprint: changes with the vocabulary and the group's configuration.
    """

    def __init__(
        self,
        group: RunningGroup,
        delivery: EventDelivery,
        *,
        served_name: str | None = None,
        api_key: str | None = None,
        limits: RequestLimits | None = None,
    ) -> None:
        """served_name: what clients call the model; the group's name by default."""
        self.group = group
        self.delivery = delivery
        self.name = served_name or group.config.name
        self.api_key = api_key
        self.limits = limits or RequestLimits()
        self.created = int(time.time())
        self.models = [model.name for model in group.config.models]
        self.tokenizer = Tokenizer(group.vocabulary)
        self.context = min(group.config.context, group.vocabulary.context_length)
        self.metrics = HttpMetrics(group.status, self.models)
        digest = hashlib.sha256(repr((group.vocabulary.fingerprint, group.config)).encode())
        self.fingerprint = "fp_" + digest.hexdigest()[:12]
