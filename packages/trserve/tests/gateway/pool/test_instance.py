"""What an entry of a local group makes of a request's `tokenrouter`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trserve.gateway.config.config import InstanceSpec
from trserve.gateway.http.body_parser import parse_body
from trserve.gateway.pool.circuit_breaker import CircuitBreaker
from trserve.gateway.pool.instance import Instance


def sent(entry: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The body that the group gets."""
    spec = InstanceSpec(name="a", model="small", group="pair", **entry)
    made = Instance(0, spec, "http://127.0.0.1:9", None, CircuitBreaker(), 0, 1024)
    body = {"model": "auto", "messages": [{"role": "user", "content": "Hi"}], **fields}
    parsed = parse_body(json.dumps(body).encode(), "chat")
    told = json.loads(made.body(parsed.fields))
    assert isinstance(told, dict)
    assert told["model"] == "pair"
    return told


@pytest.mark.parametrize(
    ("entry", "own", "told"),
    [
        ({"only": "small"}, {"only": "large"}, {"only": "small"}),
        ({"only": "small"}, {"threshold": 0.9}, {"only": "small"}),
        ({"only": "small"}, {"timeout_s": 3}, {"only": "small", "timeout_s": 3}),
        ({"threshold": 0.3}, {"only": "large"}, {"threshold": 0.3}),
        ({"threshold": 0.3}, {"threshold": 0.9}, {"threshold": 0.9}),
        ({"threshold": 0.3}, {"only": "large", "threshold": 0.9}, {"threshold": 0.9}),
        (
            {"threshold": 0.3},
            {"model_per_token": True},
            {"threshold": 0.3, "model_per_token": True},
        ),
        ({"threshold": 0.3}, {}, {"threshold": 0.3}),
        ({"threshold": 0.3}, None, {"threshold": 0.3}),
        ({"only": "small"}, None, {"only": "small"}),
        ({}, {"only": "large"}, {"only": "large"}),
    ],
)
def test_the_entry_says_which_model_writes(
    entry: dict[str, Any], own: Any, told: dict[str, Any]
) -> None:
    assert sent(entry, tokenrouter=own)["tokenrouter"] == told


def test_without_one_of_the_clients_it_is_the_entrys() -> None:
    assert sent({"threshold": 0.3})["tokenrouter"] == {"threshold": 0.3}
    assert "tokenrouter" not in sent({})
    assert "tokenrouter" not in sent({}, tokenrouter=None)
