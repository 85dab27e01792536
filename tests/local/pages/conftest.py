"""Deployments for the tests of the pages: one for a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from tests.local.local_kit import Notebooks
from tests.local.pages.pages_kit import Browser, signed_in

TIME_SCALE = 0.005


@pytest.fixture(scope="module")
def notebooks() -> Notebooks:
    return Notebooks()


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory, notebooks: Notebooks) -> Iterator[Deployment]:
    """ops and met, empty."""
    home = tmp_path_factory.mktemp("pages") / "home"
    engine = InstantEngine(notebooks.run)
    with deployment_in_thread(home, ["ops", "met"], engine=engine, time_scale=TIME_SCALE) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def ops(up: Deployment) -> Browser:
    """A browser that is signed in to ops."""
    return signed_in(up)
