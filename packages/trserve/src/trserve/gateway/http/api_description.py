"""OpenAPI of the two paths that are served without FastAPI."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from trserve.openai.schemas.error_response import ErrorResponse

_ANSWERS = {
    200: "The instance's answer, whatever it is",
    400: "The request is wrong; `param` names the field",
    401: "The API key is missing or wrong",
    403: "The API key is not for this model",
    404: "No such model",
    408: "The body did not come in time",
    413: "The body is too large",
    415: "The body is not declared as JSON",
    429: "Too many requests; `Retry-After` says when to try again",
    502: "No instance gave a usable answer",
    503: "No instance may take the request now",
    504: "The answer took too long",
}

_OPTIONS: dict[str, Any] = {
    "type": ["object", "null"],
    "additionalProperties": False,
    "description": "For the gateway alone; no instance sees it.",
    "properties": {
        "weights": {
            "description": "A preset, or shares that sum to 1; instead of the gateway's.",
            "anyOf": [
                {"enum": ["quality", "balanced", "latency", "cost", "uniform"]},
                {
                    "type": "object",
                    "required": ["quality", "cost", "latency"],
                    "additionalProperties": False,
                    "properties": {
                        name: {"type": "number", "minimum": 0, "maximum": 1}
                        for name in ("quality", "cost", "latency")
                    },
                },
                {"type": "null"},
            ],
        },
        "models": {"type": ["array", "null"], "items": {"type": "string"}},
        "max_usd": {"type": ["number", "null"], "minimum": 0},
        "max_seconds": {"type": ["number", "null"], "minimum": 0},
        "explain": {"type": "boolean"},
    },
}
_COMMON: dict[str, Any] = {
    "model": {"type": "string", "minLength": 1, "description": "`auto`, an alias or a model"},
    "stream": {"type": ["boolean", "null"]},
    "max_tokens": {"type": ["integer", "null"], "minimum": 1},
    "max_completion_tokens": {"type": ["integer", "null"], "minimum": 1},
    "routebalance": _OPTIONS,
}
_MESSAGES = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "required": ["role", "content"],
        "properties": {"role": {"type": "string"}, "content": {"type": "string"}},
    },
}
_PATHS: dict[str, tuple[str, dict[str, Any]]] = {
    "/v1/chat/completions": ("Continue a conversation", {"messages": _MESSAGES}),
    "/v1/completions": ("Continue a text", {"prompt": {"type": "string"}}),
}


def describe(app: FastAPI) -> None:
    """Let `app.openapi()` tell of them, too."""
    without = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = without()
            parts = schema.setdefault("components", {}).setdefault("schemas", {})
            parts.setdefault(
                "ErrorResponse",
                ErrorResponse.model_json_schema(ref_template="#/components/schemas/{model}"),
            )
            for path, (summary, fields) in _PATHS.items():
                schema["paths"][path] = {"post": _operation(summary, fields)}
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to extend it


def _operation(summary: str, fields: dict[str, Any]) -> dict[str, Any]:
    body = {
        "type": "object",
        "required": ["model", *fields],
        "properties": {**_COMMON, **fields},
        "additionalProperties": True,
    }
    error = {"schema": {"$ref": "#/components/schemas/ErrorResponse"}}
    return {
        "tags": ["generation"],
        "summary": summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {
            str(status): {
                "description": text,
                "content": {"application/json": {} if status == 200 else error}
                | ({"text/event-stream": {}} if status == 200 else {}),
            }
            for status, text in _ANSWERS.items()
        },
    }
