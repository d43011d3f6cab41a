"""`GET /v1/models`."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter

from trserve.openai.documented_errors import documented_errors
from trserve.openai.schemas.model_list import ModelCard, ModelList, Routing, RoutingThreshold
from trserve.server.endpoints.dependencies import CurrentGroup, require_model
from trserve.server.group.served_group import ServedGroup

router = APIRouter(tags=["models"])


@router.get("/v1/models", summary="List the served names", responses=documented_errors(401))
async def list_models(served: CurrentGroup) -> ModelList:
    """One name: that of the group."""
    return ModelList(data=[_card(served)])


@router.get(
    "/v1/models/{model:path}", summary="Describe a name", responses=documented_errors(401, 404)
)
async def get_model(model: str, served: CurrentGroup) -> ModelCard:
    """The same object as in the list."""
    require_model(served, model)
    return _card(served)


def _card(served: ServedGroup) -> ModelCard:
    config, router = served.group.config, served.group.router
    setting = router.threshold_setting
    threshold = None
    if setting is not None:
        threshold = RoutingThreshold(value=router.threshold_value, **asdict(setting))
    routing = Routing(models=served.models, router=config.router.name, threshold=threshold)
    return ModelCard(id=served.name, created=served.created, tokenrouter=routing)
