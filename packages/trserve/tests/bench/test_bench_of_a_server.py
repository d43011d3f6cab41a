"""`trserve bench` on a `trserve launch`: both count the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.trserve.server_process import running_server
from trserve.cli.main import main


def counter(page: str, name: str) -> float:
    """The sum over all labels."""
    found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE)
    return sum(map(float, found))


@pytest.mark.parametrize(
    "shape",
    [
        ["--rate", "40", "--endpoint", "completions"],
        ["--clients", "4", "--no-stream"],
        ["--rate", "40", "--burstiness", "5", "--max-in-flight", "3"],
    ],
)
def test_tokens_are_those_of_the_servers_counter(
    capsys: pytest.CaptureFixture[str], served: str, shape: list[str]
) -> None:
    names = ("trserve_completion_tokens_total", "trserve_prompt_tokens_total")
    before = httpx.get(f"{served}/metrics").text
    lengths = ["--requests", "20", "--input-tokens", "2:20", "--output-tokens", "1:30"]
    assert main(["bench", served, *shape, *lengths, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    after = httpx.get(f"{served}/metrics").text
    assert document["counts"]["completed"] == 20
    assert document["configuration"]["requests"]["model"] == "profile-demo"
    counted = [counter(after, name) - counter(before, name) for name in names]
    assert [document[way]["total"] for way in ("output", "input")] == counted
    assert document["output"]["by_usage"] == document["input"]["by_usage"] == 20
    answers = "trserve_choices_finished_total"
    assert counter(after, answers) - counter(before, answers) == 20


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with running_server(Path(tmp_path_factory.mktemp("served"))) as (_, url):
        yield url
