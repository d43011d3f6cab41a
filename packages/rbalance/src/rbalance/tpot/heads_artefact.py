"""Trained TPOT heads on disk: a folder with `tpot.json` and one `head-N.ubj` for each tier.

`tpot.json`::

    {
      "format": "rbalance-tpot-1",
      "features": ["running", …],
      "heads": [{"tier": "qwen2.5-7b/a30", "file": "head-0.ubj", "rows": 2000,
                 "error_s": 0.0009, "static_error_s": 0.0031, "static_s": 0.0206}, …]
    }

The `.ubj` files are XGBoost's own format of models. Nothing is ever unpickled.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from rbalance.artefact_header import ArtefactHeader, read_header
from rbalance.errors import ArtefactError
from rbalance.tpot.features import FEATURES
from rbalance.tpot.heads import HeadQuality, TpotHeads, xgboost_library

FORMAT = "rbalance-tpot-1"
HEADER_FILE = "tpot.json"


class _Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tier: str
    file: str
    rows: int
    error_s: float
    static_error_s: float
    static_s: float


class _Header(ArtefactHeader, frozen=True, forbid_unknown_fields=True):
    features: list[str]
    heads: list[_Head]


def save_heads(heads: TpotHeads, folder: Path) -> None:
    """Write the folder; the header comes last and names the files. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = []
    for number, (tier, booster) in enumerate(sorted(heads.boosters.items())):
        name = f"head-{number}.ubj"
        (folder / name).write_bytes(booster.save_raw("ubj"))
        judged = heads.quality[tier]
        listed.append(
            _Head(tier, name, judged.rows, judged.error_s, judged.static_error_s, judged.static_s)
        )
    header = _Header(FORMAT, _feature_names(), listed)
    text = json.dumps(msgspec.to_builtins(header), indent=2, allow_nan=False) + "\n"
    temporary = folder / f"{HEADER_FILE}.part"
    temporary.write_text(text)
    temporary.replace(folder / HEADER_FILE)


def load_heads(folder: Path) -> TpotHeads:
    """Read a folder. Raises ArtefactError naming the file and what is wrong with it."""
    xgboost = xgboost_library()
    header = _read_header(folder / HEADER_FILE)
    boosters = {}
    for head in header.heads:
        path = folder / Path(head.file).name  # never outside the folder
        try:
            booster = xgboost.Booster(params={"nthread": 1})
            booster.load_model(bytearray(path.read_bytes()))
        except OSError as error:
            raise ArtefactError(f"{path}: {error.strerror or error}") from error
        except xgboost.core.XGBoostError as error:
            raise ArtefactError(f"{path} is no XGBoost model") from error
        if booster.num_features() != len(FEATURES):
            raise ArtefactError(
                f"{path}: reads {booster.num_features()} features, not {len(FEATURES)}"
            )
        boosters[head.tier] = booster
    quality = {
        head.tier: HeadQuality(head.rows, head.error_s, head.static_error_s, head.static_s)
        for head in header.heads
    }
    return TpotHeads(boosters, quality)


def _read_header(path: Path) -> _Header:
    header = read_header(path, _Header, FORMAT)
    if header.features != _feature_names():
        raise ArtefactError(f"{path}: the heads read other features than this version has")
    for head in header.heads:
        if not head.static_s > 0.0:
            raise ArtefactError(f"{path}: tier {head.tier!r}: static_s must be above 0")
    return header


def _feature_names() -> list[str]:
    return [feature.name for feature in FEATURES]
