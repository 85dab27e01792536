from __future__ import annotations

from collections.abc import Iterator

import pytest

from .lab import Lab


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One warm Spark for all tests of this folder."""
    made = Lab(tmp_path_factory.mktemp("deployment"))
    made.call(made.engine.start())
    yield made
    made.close()
