"""Routers by name, a third party's included, and what is said of wrong names and settings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from trrouters import (
    RouterConfigError,
    RouterContext,
    UnknownRouterError,
    create_router,
    router_class,
    router_names,
)
from trrouters.algorithms.fixed import Fixed

Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a distribution with one entry point and one module, `third_party_router`."""

    def install(entry_point: str, source: str) -> None:
        info = tmp_path / "third_party_router-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party-router\n")
        (info / "entry_points.txt").write_text(f"[trrouters.routers]\n{entry_point}\n")
        (tmp_path / "third_party_router.py").write_text(dedent(source))
        monkeypatch.syspath_prepend(tmp_path)

    yield install
    sys.modules.pop("third_party_router", None)


def context(n_models: int = 2, index: int = 0) -> RouterContext:
    return RouterContext(index, n_models, vocab_size=100)


def test_names_are_sorted_and_loadable() -> None:
    names = router_names()
    assert names == sorted(names)
    assert {"fixed", "bernoulli", "r_stitch", "me"} <= set(names)
    assert router_class("fixed") is Fixed


def test_unknown_router_lists_what_is_installed() -> None:
    with pytest.raises(UnknownRouterError, match="r_stich") as caught:
        router_class("r_stich")
    assert all(name in str(caught.value) for name in router_names())


def test_third_party_router(install: Install) -> None:
    install(
        "coin = third_party_router:Coin",
        """
        from __future__ import annotations
        from typing import TYPE_CHECKING
        from trrouters import BaseRouter

        if TYPE_CHECKING:
            from collections.abc import Sequence

        class Coin(BaseRouter):
            models = (2, 3)

            def __init__(self, context, *, sides: Sequence[str] = ()) -> None:
                super().__init__(context)
                self.sides = sides
        """,
    )
    assert "coin" in router_names()
    router = create_router("coin", context(3, index=1), {"sides": ["head", "tail"]})
    assert type(router).__name__ == "Coin"
    assert (router.index, router.n_models) == (1, 3)
    assert vars(router)["sides"] == ["head", "tail"]
    with pytest.raises(RouterConfigError, match="'coin' wants 2 to 3 models, the group has 4"):
        create_router("coin", context(4), {})


@pytest.mark.parametrize(
    ("entry_point", "source", "said"),
    [
        ("bad = no_such_module_anywhere:Router", "", "no_such_module_anywhere"),
        ("bad = third_party_router:Missing", "", "Missing"),
        ("bad = third_party_router:Router", "Router = 3", "not a subclass of BaseRouter"),
        ("bad = third_party_router:Router", "class Router: pass", "not a subclass of BaseRouter"),
        ("bad = third_party_router:Router", "raise OSError('no driver')", "no driver"),
        ("bad = third_party_router:Router", "def (", "invalid syntax"),
    ],
)
def test_bad_entry_point(install: Install, entry_point: str, source: str, said: str) -> None:
    install(entry_point, source)
    with pytest.raises(RouterConfigError, match="'bad'") as caught:
        router_class("bad")
    assert said in str(caught.value)


def test_where_torch_is_missing_the_extra_is_named(install: Install) -> None:
    install("bad = third_party_router:Router", "raise ModuleNotFoundError('no', name='torch')")
    with pytest.raises(RouterConfigError, match=r"pip install 'trrouters\[torch\]'"):
        router_class("bad")


@pytest.mark.parametrize(
    ("name", "n_models", "wanted"),
    [
        ("r_stitch", 1, "2 models"),
        ("r_stitch", 3, "2 models"),
        ("bernoulli", 3, "2 models"),
        ("me", 1, "2 or more models"),
        ("fixed", 0, "1 or more models"),
    ],
)
def test_wrong_number_of_models(name: str, n_models: int, wanted: str) -> None:
    with pytest.raises(RouterConfigError) as caught:
        create_router(name, context(n_models), {})
    assert f"{name!r} wants {wanted}, the group has {n_models}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("fixed", "model", 2),
        ("fixed", "model", -1),
        ("fixed", "model", "0"),
        ("fixed", "model", 0.5),
        ("bernoulli", "p", 1.1),
        ("bernoulli", "p", -0.1),
        ("bernoulli", "p", float("nan")),
        ("bernoulli", "p", "often"),
        ("bernoulli", "p", None),
        ("bernoulli", "q", 1.1),
        ("bernoulli", "q", float("nan")),
        ("bernoulli", "tokens_per_call", 0),
        ("bernoulli", "tokens_per_call", 1.5),
        ("r_stitch", "tau", float("inf")),
        ("r_stitch", "tau", "low"),
        ("r_stitch", "keep_return_token", "no"),
        ("r_stitch", "threshold", 0.03),
        ("me", "weights", [1.0]),
        ("me", "weights", [1.0, 2.0, 3.0]),
        ("me", "weights", [0.0, 0.0]),
        ("me", "weights", [1.0, -1.0]),
        ("me", "weights", [1.0, float("nan")]),
        ("me", "weights", [1.0, float("inf")]),
        ("me", "weights", 3),
        ("me", "weights", "ab"),
        ("me", "weights", [1.0, "b"]),
        ("me", "weights", {"0": 1.0, "1": 1.0}),
    ],
)
def test_bad_setting_is_named(name: str, setting: str, value: Any) -> None:
    with pytest.raises(RouterConfigError) as caught:
        create_router(name, context(), {setting: value})
    assert f"{name!r}" in str(caught.value)
    assert setting in str(caught.value)


def test_whole_numbers_are_good_enough_for_rates() -> None:
    create_router("bernoulli", context(), {"p": 1})
    create_router("me", context(), {"weights": [1, 3]})
