"""A group's routers, built from their settings, and whether the engines show what they read."""

from __future__ import annotations

from dataclasses import dataclass

from trrouters import (
    BaseRouter,
    MissingCheckpointError,
    MissingTorchError,
    ModelIdentity,
    RouterConfigError,
    RouterContext,
    UnknownRouterError,
    create_router,
)
from trsched.errors import ConfigError
from trsched.plan.config import GroupConfig
from trsched.plan.require import no_torch, require_torch

_ANY_SIZE = 1 << 31  # where no model's vocabulary is known: no router asks for more


@dataclass(frozen=True, slots=True)
class Unchecked:
    """Something that is not on this machine, so that it could not be checked.

    on_hub: starting the group fetches it.
    """

    field: str
    message: str
    on_hub: bool = False


def open_routers(
    config: GroupConfig, vocab_size: int, models: tuple[ModelIdentity, ...]
) -> tuple[tuple[BaseRouter, ...], list[Unchecked]]:
    """Build the routers; vocab_size: 0 if not known.

    A checkpoint that is not here is Unchecked if the configuration says how to get it. Raises
    ConfigError naming the field for all else.
    """
    count = len(models)
    try:
        routers = tuple(
            create_router(
                config.router.name,
                RouterContext(i, count, vocab_size or _ANY_SIZE, models),
                config.router.settings,
            )
            for i in range(count)
        )
    except MissingTorchError as error:
        raise no_torch(config.router.name) from error
    except UnknownRouterError as error:
        raise ConfigError("router.name", str(error)) from error
    except MissingCheckpointError as error:
        if config.router.obtain is None:
            raise ConfigError("router.settings", str(error)) from error
        message = f"{error}; to get it: {config.router.obtain}"
        return (), [Unchecked("router.settings", message)]
    except RouterConfigError as error:
        raise ConfigError("router.settings", str(error)) from error
    _check_outputs(config, routers)
    return routers, []


def _check_outputs(config: GroupConfig, routers: tuple[BaseRouter, ...]) -> None:
    if config.on_router_error == "continue" and not routers[0].degradable:
        raise ConfigError(
            "on_router_error",
            f"responses of {config.router.name!r} cannot go on without it: only 'fail' is possible",
        )
    for model, router in zip(config.models, routers, strict=True):
        missing = sorted(router.needs - model.provides)
        if missing:
            raise ConfigError(
                "router.name",
                f"{config.router.name!r} needs {', '.join(missing)}, "
                f"which the {model.engine_name} engine of {model.name!r} does not have",
            )
        require_torch(config.router.name, router.needs)
