"""`GET /v1/models`."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter

from trserve.openai.documented_errors import documented_errors
from trserve.openai.schemas.server_responses import ModelCard, ModelList, Routing, RoutingThreshold
from trserve.server.endpoints.current_serving import CurrentServing, require_model
from trserve.server.serving import Serving

router = APIRouter(tags=["models"])


@router.get("/v1/models", summary="List the served names", responses=documented_errors(401))
async def list_models(serving: CurrentServing) -> ModelList:
    """One name: that of the group."""
    return ModelList(data=[_card(serving)])


@router.get(
    "/v1/models/{model:path}", summary="Describe a name", responses=documented_errors(401, 404)
)
async def get_model(model: str, serving: CurrentServing) -> ModelCard:
    """The same object as in the list."""
    require_model(serving, model)
    return _card(serving)


def _card(serving: Serving) -> ModelCard:
    config, router = serving.group.config, serving.group.router
    setting = router.threshold_setting
    threshold = None
    if setting is not None:
        threshold = RoutingThreshold(value=router.threshold_value, **asdict(setting))
    routing = Routing(models=serving.models, router=config.router.name, threshold=threshold)
    return ModelCard(id=serving.name, created=serving.created, tokenrouter=routing)
