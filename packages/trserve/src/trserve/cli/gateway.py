"""The command line of the gateway. Only declarations, like trserve.cli.main."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from trserve.cli.options import Changes
from trserve.cli.setting_flags import takes_settings
from trserve.settings.server_settings import GatewaySettings


@takes_settings(GatewaySettings)
def gateway(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="The gateway's configuration."),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="The demo pair in one pool, alone and together.")
    ] = False,
    changes: Changes = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check the configuration and start nothing.")
    ] = False,
    *,
    flags: dict[str, Any],
) -> int:
    """Stand in front of servers until stopped."""
    from trserve.gateway.config.deployment import config_file, load_gateway
    from trserve.gateway.launch import check_gateway, launch_gateway

    deployment = load_gateway(config_file(config, demo=demo), flags, changes or ())
    with deployment.origin.locating():
        return check_gateway(deployment) if check else launch_gateway(deployment)


def key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is.")],
) -> int:
    """Make one up; it is kept nowhere."""
    from trserve.gateway.access.keys_file import new_key

    made, line = new_key(name)
    typer.echo(f"Key, shown this once:\n  {made}\nLine for the keys file:\n  {line}")
    return 0
