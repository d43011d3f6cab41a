"""What the log says of a deployment before it is loaded, and once it is ready."""

from __future__ import annotations

import json
import shlex
import sys

from structlog.stdlib import BoundLogger

from trsched.errors import ConfigError
from trsched.models.model_path import resolve_model_path
from trsched.plan.config import LlamaCppModel
from trsched.plan.modes import in_mode
from trsched.plan.sglang_model import SglangModel
from trserve.server.byte_size import byte_size
from trserve.server.deployment import Deployment

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def log_deployment(log: BoundLogger, deployment: Deployment, url: str) -> None:
    """What is served, from which files, and where; the group itself reports how."""
    group, server = in_mode(deployment.group), deployment.server
    log.info("configuration", source=deployment.source, name=group.name, url=url)
    for i, model in enumerate(group.models):
        if isinstance(model, LlamaCppModel):
            log.info("model file", index=i, name=model.name, **_file(model, f"models[{i}].path"))
        elif isinstance(model, SglangModel):
            log.info("model", index=i, name=model.name, **_checkpoint(model))
    memory = "auto" if group.kv_bytes is None else byte_size(group.kv_bytes)
    log.info("limits", context=group.context, kv_memory=memory)
    if server.host not in _LOOPBACK and server.api_key is None:
        log.warning("anyone who reaches this address may use the server: set TRSERVE_API_KEY")


def _file(model: LlamaCppModel, field: str) -> dict[str, object]:
    try:
        path = resolve_model_path(model.path, field)
    except ConfigError:
        return {"file": model.path}  # loading will say what is wrong with it
    facts: dict[str, object] = {"file": path.name, "size": byte_size(path.stat().st_size)}
    return facts | ({"quantize": model.quantize} if model.quantize else {})


def _checkpoint(model: SglangModel) -> dict[str, object]:
    facts: dict[str, object] = {"path": model.path, "gpus": model.rank_gpus}
    return facts | ({} if model.load_format == "auto" else {"load_format": model.load_format})


def log_ready(log: BoundLogger, deployment: Deployment, url: str) -> None:
    """The ready line, and a request to try."""
    command = curl_example(deployment, url)
    if deployment.server.json_logs:
        log.info("ready", url=url, example=command)
        return
    log.info("ready", url=url)
    if log.isEnabledFor(20):
        hint = f"\nTry it in a browser, {url}/, or here:\n  {command}\n"
        print(hint, file=sys.stderr, flush=True)  # noqa: T201 - to be copied


def curl_example(deployment: Deployment, url: str) -> str:
    """A shell command that asks the server something."""
    server = deployment.server
    body = {
        "model": server.served_name or deployment.group.name,
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        "stream": True,
    }
    key = ' -H "Authorization: Bearer $TRSERVE_API_KEY"' if server.api_key else ""
    return (
        f"curl -N {url}/v1/chat/completions -H 'Content-Type: application/json'{key}"
        f" -d {shlex.quote(json.dumps(body))}"
    )
