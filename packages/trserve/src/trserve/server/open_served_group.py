"""A deployment's models, loaded, and what the HTTP side needs beside them."""

from __future__ import annotations

from collections.abc import Callable

from trsched.group import Group
from trserve.openai.request_limits import RequestLimits
from trserve.server.deployment import Deployment
from trserve.server.group.event_delivery import EventDelivery
from trserve.server.group.served_group import ServedGroup


def open_served_group(
    deployment: Deployment, report: Callable[[str], None]
) -> tuple[Group, ServedGroup]:
    """Load everything; takes seconds. The group is the caller's to close. Raises ConfigError.

    report: gets a line for whatever is worth logging.
    """
    server = deployment.server
    delivery = EventDelivery()
    group = Group.open(deployment.group, deliver=delivery.deliver, report=report)
    try:
        served = ServedGroup(
            group,
            delivery,
            served_name=server.served_name,
            api_key=None if server.api_key is None else server.api_key.get_secret_value(),
            limits=RequestLimits(
                max_body_bytes=server.body_bytes,
                default_timeout_s=server.request_timeout,
                max_timeout_s=server.request_timeout,
            ),
        )
    except BaseException:
        group.close()
        raise
    return group, served
