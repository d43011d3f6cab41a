"""`trserve check`: everything that can be said of a configuration without loading weights."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import typer

from trsched.plan.check import Checked, check
from trserve.http.listener import reserve
from trserve.server.byte_size import byte_size
from trserve.server.deployment import Deployment
from trserve.server.text.chat_template import ChatTemplate


def check_deployment(deployment: Deployment, *, as_json: bool) -> int:
    """Print the plan, and what is not here to be checked. Raises ConfigError for what is wrong."""
    server = deployment.server
    reserve(server.host, server.port).close()
    checked = check(deployment.group)
    if checked.models[0].vocabulary is not None:
        ChatTemplate.of(checked.models[0].vocabulary)
    if as_json:
        typer.echo(json.dumps(_document(deployment, checked), indent=2, ensure_ascii=False))
        return 0
    as_far = ", as far as it can be checked here" if checked.unchecked else ""
    typer.echo(f"{deployment.source}: all right{as_far}")
    typer.echo(f"address http://{server.host}:{server.port}")
    for line in checked.lines():
        typer.echo(line)
    for model in checked.models:
        if model.path is not None and model.file_bytes is not None:
            typer.echo(f"file {model.path} ({byte_size(model.file_bytes)})")
    for unchecked in checked.unchecked:
        typer.echo(f"not checked: {unchecked.field}: {unchecked.message}")
    return 0


def _document(deployment: Deployment, checked: Checked) -> dict[str, Any]:
    kv = checked.kv
    vocabularies = [model.vocabulary for model in checked.models if model.vocabulary is not None]
    return {
        "source": deployment.source,
        "server": deployment.server.model_dump(mode="json"),
        "group": msgspec.to_builtins(checked.config),
        "plan": {
            "context": checked.config.context,
            "max_active": checked.max_active,
            "kv_sequences": kv and kv.sequences,
            "kv_tokens_per_model": kv and kv.tokens,
            "kv_bytes": kv and sum(kv.bytes_per_model),
            "vocabulary": vocabularies[0].fingerprint if vocabularies else None,
            "models": [
                {
                    "name": model.name,
                    "file": None if facts.path is None else str(facts.path),
                    "file_bytes": facts.file_bytes,
                    "kv_bytes": kv and kv.bytes_per_model[i],
                    "threshold": model.threshold,
                }
                for i, (model, facts) in enumerate(
                    zip(checked.config.models, checked.models, strict=True)
                )
            ],
        },
        "unchecked": [
            {"field": unchecked.field, "message": unchecked.message}
            for unchecked in checked.unchecked
        ],
    }
