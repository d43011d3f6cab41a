"""A group of the gateway's own, in the pool at several thresholds: one server, several entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.trserve.server_process import server_process
from trserve.gateway.config.config import GroupSpec
from trserve.gateway.pool.local_groups import LocalGroup

POOL: dict[str, Any] = {
    "models": [{"name": name} for name in ("slm", "llm", "often", "rarely")],
    "groups": [{"name": "pair", "preset": "profile-demo"}],
    "instances": [
        {"name": "slm-1", "model": "slm", "group": "pair", "only": "small"},
        {"name": "llm-1", "model": "llm", "group": "pair", "only": "large"},
        {"name": "often-1", "model": "often", "group": "pair", "threshold": 0.9},
        {"name": "rarely-1", "model": "rarely", "group": "pair", "threshold": 0.05},
    ],
}


def write(folder: Path, pool: dict[str, Any]) -> Path:
    file = folder / "pool.yaml"
    file.write_text(yaml.safe_dump(pool))
    return file


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("gateway")
    ready = folder / "ready.json"
    arguments = ["-m", "trserve", "gateway", "--config", str(write(folder, POOL))]
    with server_process([*arguments, "--port", "0", "--ready-file", str(ready)]) as server:
        line = server.wait_for("ready")
        url = line.split("url=")[1].split()[0]
        with httpx.Client(base_url=url, timeout=60) as http:
            yield http


def tokens(client: httpx.Client, model: str, **fields: Any) -> Counter[str]:
    """How many tokens of some answers each model made."""
    by_model: Counter[str] = Counter()
    for seed in range(8):
        body = {
            "model": model,
            "messages": [{"role": "user", "content": "Count"}],
            "max_tokens": 64,
            "seed": seed,
        } | fields
        answer = client.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-routebalance-model"] == model
        by_model.update(answer.json()["usage"]["tokenrouter"]["completion_tokens_by_model"])
    return by_model


def test_each_entry_routes_as_it_says(client: httpx.Client) -> None:
    assert tokens(client, "slm")["large"] == 0
    assert tokens(client, "llm")["small"] == 0
    often, rarely = tokens(client, "often"), tokens(client, "rarely")
    assert often["large"] > rarely["large"] > 0
    assert rarely["small"] > often["small"] > 0


def test_a_client_may_still_say_otherwise(client: httpx.Client) -> None:
    assert tokens(client, "rarely", tokenrouter={"threshold": 1.0})["small"] == 0


def test_a_group_takes_a_little_more_than_the_gateway() -> None:
    """For what an entry adds to a request of the largest size."""
    group = LocalGroup(
        GroupSpec(name="pair", preset="profile-demo"), max_body=5 << 20, debug=False, json_logs=True
    )
    command = group._command(0, Path("ready.json"))
    assert int(command[command.index("--max-body") + 1]) - (5 << 20) in range(1000, 10_000)


def test_a_names_card_says_which_threshold_holds(client: httpx.Client) -> None:
    cards = {card["id"]: card for card in client.get("/v1/models").json()["data"]}
    assert list(cards) == ["auto", "slm", "llm", "often", "rarely"]
    assert {name for name in cards if "tokenrouter" in cards[name]} == {"auto", "often", "rarely"}
    for name, value in (("auto", None), ("often", 0.9), ("rarely", 0.05)):
        routing = cards[name]["tokenrouter"]
        assert (routing["models"], routing["router"]) == (["small", "large"], "bernoulli")
        threshold = routing["threshold"]
        assert threshold.pop("meaning").endswith(".")
        assert threshold == {"name": "p", "value": value, "low": 0.0, "high": 1.0}


def test_one_score_decides_between_them(client: httpx.Client) -> None:
    body = {"model": "auto", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8}
    explained = client.post("/v1/route", json=body).json()
    assert {each["instance"] for each in explained["candidates"]} == {
        each["name"] for each in POOL["instances"]
    }


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"only": "tiny"}, "instances[0].only: 'tiny' is none of small, large"),
        ({"threshold": 7}, "instances[0].threshold: must be from 0 to 1, not 7"),
    ],
)
def test_an_entry_that_the_group_cannot_serve(
    tmp_path: Path, entry: dict[str, Any], said: str
) -> None:
    instance = {"name": "a", "model": "slm", "group": "pair"} | entry
    file = write(tmp_path, POOL | {"instances": [instance]})
    with server_process(
        ["-m", "trserve", "gateway", "--config", str(file), "--port", "0"]
    ) as server:
        status, _, lines = server.finish()
    assert status == 2
    assert lines[-1] == f"trserve: config {file} line 8 column 3: {said}\n"
