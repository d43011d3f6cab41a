from __future__ import annotations

from typing import Any

import pytest

from tests.support.trserve.demo_server import Demo
from tests.support.trserve.scripted_group import Reply


def test_docs_name_fields_and_errors(demo: Demo) -> None:
    spec = demo.http.get("/openapi.json").json()
    chat = spec["paths"]["/v1/chat/completions"]["post"]
    assert set(chat["responses"]) >= {"200", "400", "401", "404", "413", "429", "503", "504"}
    assert chat["responses"]["400"]["content"]["application/json"]["schema"]["$ref"].endswith(
        "ErrorResponse"
    )
    fields = spec["components"]["schemas"]["ChatCompletionRequest"]["properties"]
    assert fields["temperature"]["default"] == 1.0
    assert fields["tools"]["enum"] == [None, []]
    assert "tokenrouter" in fields
    extension = spec["components"]["schemas"]["Extension"]["properties"]
    assert set(extension) == {"model_per_token", "timeout_s", "threshold", "only"}
    card = spec["components"]["schemas"]["ModelCard"]["properties"]
    assert card["tokenrouter"]["$ref"].endswith("Routing")
    assert "422" not in chat["responses"]
    assert set(chat["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
    assert demo.http.get("/docs").status_code == 200


def test_any_body_gets_a_documented_answer(demo: Demo) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, Phase, given, settings
    from schemathesis.specs.openapi import checks

    demo.group.reply = lambda request: Reply("ok")
    schema = schemathesis.openapi.from_url(f"{demo.url}/openapi.json")
    for path in ("/v1/chat/completions", "/v1/completions"):

        @given(case=schema[path]["POST"].as_strategy())
        @settings(
            max_examples=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
            derandomize=True,
        )
        def check(case: Any) -> None:
            answer = case.call()
            assert answer.status_code < 500, answer.text
            case.validate_response(
                answer,
                checks=[
                    checks.status_code_conformance,
                    checks.response_headers_conformance,
                ],
            )

        check()
