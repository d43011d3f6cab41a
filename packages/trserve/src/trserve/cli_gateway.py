"""The command line of the gateway. Only declarations, like trserve.cli."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trserve.cli_options import Changes


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
    host: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Listen on it; 0.0.0.0 for all. [default: 127.0.0.1]"),
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="PORT", help="0 picks a free one. [default: 8000]")
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="Clients must send it. Better: the variable TRSERVE_API_KEY."
        ),
    ] = None,
    admin_key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Opens /admin. Better: the variable TRSERVE_ADMIN_KEY."),
    ] = None,
    keys_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Clients' keys with their limits; see `trserve key`."),
    ] = None,
    request_timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="A request that takes longer ends. [default: never]"),
    ] = None,
    max_body: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Largest request body. [default: 4MiB]")
    ] = None,
    drain_timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="How long running requests may go on after Ctrl-C. [default: 30]",
        ),
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help="debug, info, warning or error. [default: info]"),
    ] = None,
    json_logs: Annotated[
        bool | None, typer.Option("--json-logs/--text-logs", help="How log lines look.")
    ] = None,
    access_log: Annotated[
        bool | None, typer.Option("--access-log/--no-access-log", help="Log every request.")
    ] = None,
    ready_file: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help='For scripts: {"url", "pid"} is written here once ready.'
        ),
    ] = None,
) -> int:
    """Stand in front of servers until stopped."""
    from trsched.errors import ConfigError
    from trserve.gateway.deployment import config_file, load_gateway
    from trserve.gateway.launch import check_gateway, launch_gateway

    flags = {
        "host": host,
        "port": port,
        "api_key": api_key,
        "admin_key": admin_key,
        "keys_file": keys_file,
        "request_timeout": request_timeout,
        "max_body": max_body,
        "drain_timeout": drain_timeout,
        "log_level": log_level,
        "json_logs": json_logs,
        "access_log": access_log,
        "ready_file": ready_file,
    }
    deployment = load_gateway(config_file(config, demo=demo), flags, changes or ())
    try:
        return check_gateway(deployment) if check else launch_gateway(deployment)
    except ConfigError as error:
        raise deployment.located(error) from error


def key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is.")],
) -> int:
    """Make one up; it is kept nowhere."""
    from trserve.gateway.keys_file import new_key

    made, line = new_key(name)
    typer.echo(f"Key, shown this once:\n  {made}\nLine for the keys file:\n  {line}")
    return 0
