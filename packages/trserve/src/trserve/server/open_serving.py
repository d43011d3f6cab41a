"""A deployment's models, loaded, and what the HTTP side needs beside them."""

from __future__ import annotations

from collections.abc import Callable

from trsched.group import Group
from trserve.openai.limits import Limits
from trserve.server.bridge import Bridge
from trserve.server.deployment import Deployment
from trserve.server.serving import Serving


def open_serving(deployment: Deployment, report: Callable[[str], None]) -> tuple[Group, Serving]:
    """Load everything; takes seconds. Raises ConfigError.

    report: gets a line for whatever is worth logging. The group is the caller's to close.
    """
    server = deployment.server
    bridge = Bridge()
    group = Group.open(deployment.group, deliver=bridge.deliver, report=report)
    try:
        serving = Serving(
            group,
            bridge,
            served_name=server.served_name,
            api_key=None if server.api_key is None else server.api_key.get_secret_value(),
            limits=Limits(
                max_body_bytes=server.body_bytes,
                default_timeout_s=server.request_timeout,
                max_timeout_s=server.request_timeout,
            ),
        )
    except BaseException:
        group.close()
        raise
    return group, serving
