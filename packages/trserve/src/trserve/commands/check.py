"""`trserve check`: everything that can be said of a configuration without loading weights."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import typer

from trsched.check import GroupPlan, check_group
from trserve.byte_size import byte_size
from trserve.deployment import Deployment
from trserve.listener import reserve


def check_deployment(deployment: Deployment, *, as_json: bool) -> int:
    """Print the plan. Raises ConfigError naming what is wrong."""
    server = deployment.server
    reserve(server.host, server.port).close()
    plan = check_group(deployment.group)
    if as_json:
        typer.echo(json.dumps(_document(deployment, plan), indent=2, ensure_ascii=False))
        return 0
    typer.echo(f"{deployment.source}: all right")
    typer.echo(f"address http://{server.host}:{server.port}")
    for line in plan.lines():
        typer.echo(line)
    for path in filter(None, plan.paths):
        typer.echo(f"file {path} ({byte_size(path.stat().st_size)})")
    return 0


def _document(deployment: Deployment, plan: GroupPlan) -> dict[str, Any]:
    return {
        "source": deployment.source,
        "server": deployment.server.model_dump(mode="json"),
        "group": msgspec.to_builtins(plan.config),
        "plan": {
            "context": plan.kv.context,
            "max_active": plan.max_active,
            "kv_sequences": plan.kv.sequences,
            "kv_tokens_per_model": plan.kv.tokens,
            "kv_bytes": sum(plan.kv.bytes_per_model),
            "vocabulary": plan.vocabularies[0].fingerprint,
            "models": [
                {
                    "name": model.name,
                    "file": None if path is None else str(path),
                    "file_bytes": None if path is None else path.stat().st_size,
                    "kv_bytes": kv_bytes,
                    "threshold": model.threshold,
                }
                for model, path, kv_bytes in zip(
                    plan.config.models, plan.paths, plan.kv.bytes_per_model, strict=True
                )
            ],
        },
    }
