"""Token-level routing algorithms: the public interface and the registry.

The algorithms themselves live in `trrouters.algorithms`, one a module, each imported when a
configuration names it.
"""

from trrouters.base_router import BaseRouter, Need, RouterContext
from trrouters.errors import (
    CheckpointError,
    MissingCheckpointError,
    MissingTorchError,
    RouterConfigError,
    RouterError,
    RouterOutputError,
    UnknownRouterError,
)
from trrouters.model_identity import ModelIdentity
from trrouters.peer_req import PeerReq
from trrouters.registry import create_router, router_class, router_names
from trrouters.route_result import LogitsOutput, RouteResult
from trrouters.routed_request import RoutedRequest
from trrouters.threshold_setting import ThresholdSetting

__all__ = [
    "BaseRouter",
    "CheckpointError",
    "LogitsOutput",
    "MissingCheckpointError",
    "MissingTorchError",
    "ModelIdentity",
    "Need",
    "PeerReq",
    "RouteResult",
    "RoutedRequest",
    "RouterConfigError",
    "RouterContext",
    "RouterError",
    "RouterOutputError",
    "ThresholdSetting",
    "UnknownRouterError",
    "create_router",
    "router_class",
    "router_names",
]
