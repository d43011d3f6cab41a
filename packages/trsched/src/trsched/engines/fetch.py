"""Models of the hub are downloaded before a group is opened, once it is clear that it can be."""

from __future__ import annotations

from collections.abc import Callable

from trsched.engines.open_sglang import require_sglang
from trsched.errors import ConfigError
from trsched.models.hf_files import fetch_hf_files
from trsched.plan.check import GroupPlan, check, check_group, plan_of
from trsched.plan.config import GroupConfig
from trsched.plan.modes import in_mode
from trsched.plan.sglang_model import SglangModel


def fetch_and_check(config: GroupConfig, report: Callable[[str], None]) -> GroupPlan:
    """The plan, with every model's files on this machine. Raises ConfigError naming the field.

    Anything that is wrong without them is said before the first download.
    """
    config = in_mode(config)
    checked = check(config)
    for missing in checked.unchecked:
        if not missing.on_hub:
            raise ConfigError(missing.field, missing.message)
    for i, (model, facts) in enumerate(zip(config.models, checked.models, strict=True)):
        if isinstance(model, SglangModel):
            require_sglang(f"models[{i}].engine")
        if facts.unchecked is not None and isinstance(model, SglangModel):
            report(f"model {i} {model.name}: fetching {model.path} from the hub")
            fetch_hf_files(model.path, model.revision, f"models[{i}].path")
    return check_group(config) if checked.unchecked else plan_of(checked)
