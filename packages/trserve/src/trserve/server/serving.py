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
from trserve.openai.limits import Limits
from trserve.server.bridge import Bridge
from trserve.server.metrics.http_metrics import Metrics
from trserve.server.text.tokenizer import Tokenizer


class ServedGroup(Protocol):
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


class Serving:
    """Built once the group is open, whose events `bridge.deliver` must receive.

        bridge = Bridge()
        group = Group.open(config, deliver=bridge.deliver)
        app = create_app(Serving(group, bridge, api_key=...))

    served_name: the model's name for clients (default: the group's). api_key: what clients must
    send as bearer token; None lets everyone in. The group is closed by whoever opened it.
    """

    def __init__(
        self,
        group: ServedGroup,
        bridge: Bridge,
        *,
        served_name: str | None = None,
        api_key: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.group = group
        self.bridge = bridge
        self.name = served_name or group.config.name
        self.api_key = api_key
        self.limits = limits or Limits()
        self.created = int(time.time())
        self.models = [model.name for model in group.config.models]
        self.tokenizer = Tokenizer(group.vocabulary)
        self.context = min(group.config.context, group.vocabulary.context_length)
        self.metrics = Metrics(group.status, self.models)
        digest = hashlib.sha256(repr((group.vocabulary.fingerprint, group.config)).encode())
        self.fingerprint = "fp_" + digest.hexdigest()[:12]
