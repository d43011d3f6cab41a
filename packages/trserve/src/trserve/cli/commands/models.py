"""`trserve models`: presets, whether their files are here, and routers."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass

import typer

from trrouters.package_path import locate
from trrouters.registry import router_names
from trsched.engines.open_sglang import require_sglang
from trsched.errors import ConfigError, NotInstalledError
from trsched.models.hf_files import find_hf_files
from trsched.models.model_path import resolve_model_path
from trsched.plan.config import LlamaCppModel, ModelConfig
from trsched.plan.require import require_llamacpp, require_router
from trsched.plan.sglang_model import SglangModel
from trserve.cli.install_hint import told
from trserve.presets import preset_names
from trserve.server.byte_size import byte_size
from trserve.server.deployment import Deployment, load_deployment


@dataclass(frozen=True, slots=True)
class ModelListing:
    """A preset's model.

    file: None where there is none, as on the engine `profile`.
    bytes: the file's size, None if it is missing or not needed.
    available: it can be loaded now.
    missing: what to do about it where not.
    """

    name: str
    engine: str
    file: str | None
    bytes: int | None
    available: bool
    missing: str | None


@dataclass(frozen=True, slots=True)
class PresetListing:
    """A preset.

    router: its name, with its settings.
    router_missing: what to install for it, or how to get its checkpoint; None: nothing is missing.
    available: it can be served now.
    """

    name: str
    description: str
    router: str
    router_missing: str | None
    models: list[ModelListing]
    available: bool


def list_models(*, as_json: bool) -> int:
    """Print what there is; the exit status is 0 whatever is missing."""
    presets = [_preset(load_deployment(preset=name), name) for name in preset_names()]
    routers = router_names()
    if as_json:
        document = {"presets": [asdict(preset) for preset in presets], "routers": routers}
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        _print_table(presets)
        typer.echo(f"Routers: {', '.join(routers) or 'none installed'}")
    return 0


def _preset(deployment: Deployment, name: str) -> PresetListing:
    group = deployment.group
    models = [_model(model, f"models[{i}].path") for i, model in enumerate(group.models)]
    router_missing = _router_missing(deployment)
    return PresetListing(
        name=name,
        description=deployment.description,
        router=_router(deployment),
        router_missing=router_missing,
        models=models,
        available=all(model.available for model in models) and router_missing is None,
    )


def _router(deployment: Deployment) -> str:
    router = deployment.group.router
    settings = ", ".join(f"{name}={value}" for name, value in router.settings.items())
    return f"{router.name} ({settings})" if settings else router.name


def _router_missing(deployment: Deployment) -> str | None:
    router = deployment.group.router
    try:
        require_router(router.name)
    except NotInstalledError as error:
        return told(error).removeprefix(f"{error.field}: ")
    if router.obtain is None:
        return None
    try:
        locate(str(router.settings.get("checkpoint")))
    except (FileNotFoundError, ValueError):
        return router.obtain
    return None


def _model(model: ModelConfig, field: str) -> ModelListing:
    if isinstance(model, SglangModel):
        return _checkpoint(model, field)
    if not isinstance(model, LlamaCppModel):
        return ModelListing(model.name, "profile", None, None, True, None)
    try:
        require_llamacpp(field)
        path = resolve_model_path(model.path, field)
    except ConfigError as error:
        reason = told(error).removeprefix(f"{field}: ")
        return ModelListing(model.name, "llamacpp", model.path, None, False, reason)
    return ModelListing(model.name, "llamacpp", str(path), path.stat().st_size, True, None)


def _checkpoint(model: SglangModel, field: str) -> ModelListing:
    """A model on the hub counts as available once it is on this machine."""
    try:
        require_sglang(field)
        files = find_hf_files(model.path, model.revision, field)
    except ConfigError as error:
        reason = told(error).removeprefix(f"{error.field}: ")
        return ModelListing(model.name, "sglang", model.path, None, False, reason)
    ready = bool(files.weights) or (model.load_format == "dummy" and files.config is not None)
    size = sum(file.stat().st_size for file in files.weights)
    missing = None if ready else "launching it fetches the model from the hub"
    return ModelListing(model.name, "sglang", model.path, size or None, ready, missing)


def _print_table(presets: list[PresetListing]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(show_lines=True)
    for heading in ("Preset", "Models", "Router", "Ready"):
        table.add_column(heading)
    for preset in presets:
        table.add_row(
            f"{preset.name}\n{preset.description}",
            "\n".join(_model_line(model) for model in preset.models),
            preset.router,
            "yes" if preset.available else "no: " + _what_to_do(preset),
        )
    width = None if sys.stdout.isatty() else 120
    Console(width=width, highlight=False, markup=False).print(table)


def _model_line(model: ModelListing) -> str:
    size = "simulated" if model.file is None else byte_size(model.bytes) if model.bytes else "?"
    return f"{model.name} ({size})"


def _what_to_do(preset: PresetListing) -> str:
    missing = [model.missing for model in preset.models]
    if preset.router_missing:
        missing.append(f"its router, see: trserve check -p {preset.name}")
    return "; ".join(dict.fromkeys(reason for reason in missing if reason))
