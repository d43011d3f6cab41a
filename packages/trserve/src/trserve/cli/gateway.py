"""The command line of the gateway. Only declarations, like trserve.cli.main."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trserve.cli.options import (
    AccessLog,
    ApiKey,
    Changes,
    DrainTimeout,
    Host,
    JsonLogs,
    LogLevel,
    MaxBody,
    Port,
    ReadyFile,
    RequestTimeout,
)


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
    host: Host = None,
    port: Port = None,
    api_key: ApiKey = None,
    admin_key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Opens /admin. Better: the variable TRSERVE_ADMIN_KEY."),
    ] = None,
    keys_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Clients' keys with their limits; see `trserve key`."),
    ] = None,
    request_timeout: RequestTimeout = None,
    max_body: MaxBody = None,
    drain_timeout: DrainTimeout = None,
    log_level: LogLevel = None,
    json_logs: JsonLogs = None,
    access_log: AccessLog = None,
    ready_file: ReadyFile = None,
) -> int:
    """Stand in front of servers until stopped."""
    from trsched.errors import ConfigError
    from trserve.gateway.config.deployment import config_file, load_gateway
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
    from trserve.gateway.access.keys_file import new_key

    made, line = new_key(name)
    typer.echo(f"Key, shown this once:\n  {made}\nLine for the keys file:\n  {line}")
    return 0
