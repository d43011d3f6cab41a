"""The served name, listed and described."""

from __future__ import annotations

import openai
import pytest

from tests.support.trserve.demo_server import Demo, demo_server


def test_models(demo: Demo) -> None:
    (model,) = demo.client.models.list()
    assert model.id == "demo"
    assert demo.client.models.retrieve("demo") == model
    assert model.tokenrouter == {
        "models": ["small", "large"],
        "router": "bernoulli",
        "threshold": {
            "name": "p",
            "value": 0.1,
            "low": 0.0,
            "high": 1.0,
            "meaning": "The share of its tokens that the small model hands over, at random.",
        },
    }
    with pytest.raises(openai.NotFoundError) as error:
        demo.client.models.retrieve("org/other")
    assert error.value.code == "model_not_found"


def test_served_name_may_hold_a_slash() -> None:
    with demo_server(served_name="org/pair") as demo:
        assert demo.client.models.retrieve("org/pair").id == "org/pair"
        assert demo.chat(model="org/pair").json()["model"] == "org/pair"
        assert demo.chat().status_code == 404
