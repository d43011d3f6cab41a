"""Our own server with one model each, for std-serving: for engines no other server has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from benchmarks.systems.trserve_server import TrserveServer, trserve_server


class SingleModelGroup:
    """One model of the profile engine behind `trserve launch`; implements `SingleModelServer`."""

    path = "/v1/completions"

    def __init__(self, server: TrserveServer) -> None:
        self.port = server.port
        self.server = server
        self._head = f'{{"model":"{server.name}","temperature":0,"seed":0,"prompt":['.encode()

    @property
    def configuration(self) -> dict[str, Any]:
        """Everything that decides how fast it is."""
        return self.server.configuration

    def body(self, prompt: bytes, count: int, slot: int) -> bytes:
        """A request for `count` tokens, not streamed: a reply of one token is shorter whole."""
        del slot  # nothing is kept between requests, and nothing need be: see `single_model_group`
        return b'%b%b],"max_tokens":%d}' % (self._head, prompt, count)


def single_model_group(
    model: Mapping[str, Any], *, concurrency: int, context: int
) -> dict[str, Any]:
    """The configuration of a group that serves `model`, of the profile engine, alone.

    Prompt tokens cost nothing, as with a prompt cache that never misses. A response ends only by
    its length: where it ends is in the recorded path.
    """
    return {
        "name": model["name"],
        "models": [{**model, "extend_token_ms": 0.0, "eos_rate": 0.0}],
        "router": {"name": "fixed"},
        "context": context,
        "kv_memory": concurrency * context * model.get("kv_bytes_per_token", 1024),
        "max_active": concurrency,
    }


@contextmanager
def single_model_groups(
    models: Sequence[Mapping[str, Any]], *, concurrency: int, context: int
) -> Iterator[list[SingleModelGroup]]:
    """A server for each of `models` (profile engine, as in a group's file) till the block ends."""
    with ExitStack() as stack:
        groups = [single_model_group(m, concurrency=concurrency, context=context) for m in models]
        yield [
            SingleModelGroup(stack.enter_context(trserve_server(group["name"], group)))
            for group in groups
        ]
