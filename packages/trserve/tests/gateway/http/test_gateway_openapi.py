"""Whatever is sent to what the gateway documents gets a documented answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.support.gateway.running_gateway import ADMIN

# the gateway's thread draws random numbers while Hypothesis looks on
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")

EXAMPLES = 30
FUZZED = [
    ("/v1/chat/completions", "POST"),
    ("/v1/completions", "POST"),
    ("/v1/route", "POST"),
    ("/v1/models", "GET"),
    ("/v1/models/{model}", "GET"),
    ("/health", "GET"),
    ("/metrics", "GET"),
    ("/admin/instances", "GET"),
    ("/admin/instances", "POST"),
    ("/admin/instances/{name}", "DELETE"),
    ("/admin/reload", "POST"),
]


def test_everything_is_described(upstreams, gateways) -> None:
    gateway = gateways(upstreams(count=1))
    paths = gateway.http.get("/openapi.json").json()["paths"]
    described = {(path, method.upper()) for path in paths for method in paths[path]}
    assert described == set(FUZZED)
    chat = paths["/v1/chat/completions"]["post"]
    assert set(chat["responses"]) >= {"200", "400", "401", "403", "404", "413", "429", "502", "503"}
    assert set(chat["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
    assert "422" not in str(sorted({*chat["responses"], *paths["/v1/route"]["post"]["responses"]}))


@pytest.mark.parametrize(("path", "method"), FUZZED)
def test_any_request_gets_a_documented_answer(upstreams, gateways, path: str, method: str) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    from schemathesis.specs.openapi import checks

    gateway = gateways(upstreams(count=2))
    schema = schemathesis.openapi.from_url(f"{gateway.url}/openapi.json")

    @given(case=schema[path][method].as_strategy())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        derandomize=True,
    )
    def check(case: Any) -> None:
        answer = case.call(headers=ADMIN)
        # 503: of a pool without instances, which a fuzzer of /admin may well make
        assert answer.status_code < 500 or answer.status_code in (502, 503), answer.text
        case.validate_response(
            answer,
            checks=[checks.status_code_conformance, checks.response_schema_conformance],
        )

    check()
    gateway.wait_until_idle()
