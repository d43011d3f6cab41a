"""Groups of models on SGLang, planned or refused before anything is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trsched.errors import ConfigError
from trsched.plan.check import Checked, GroupPlan, check, check_group
from trsched.plan.config import group_config


def model(name: str, path: Path | str, **changes: Any) -> dict[str, Any]:
    return {"engine": "sglang", "name": name, "path": str(path), **changes}


def data(*models: dict[str, Any], router: Any = None, **group: Any) -> dict[str, Any]:
    router = router or {"name": "fixed" if len(models) == 1 else "bernoulli"}
    return {"name": "test", "models": list(models), "router": router, "context": 64, **group}


def checked(*models: dict[str, Any], **group: Any) -> Checked:
    return check(group_config(data(*models, **group)))


def planned(*models: dict[str, Any], **group: Any) -> GroupPlan:
    return check_group(group_config(data(*models, **group)))


def refused(*models: dict[str, Any], **group: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        planned(*models, **group)
    assert str(caught.value).startswith(f"{caught.value.field}: ")
    return caught.value
