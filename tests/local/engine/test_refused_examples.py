"""The examples of the list of what is not served, for notebooks and Auto Loader, without a Spark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from databricks_bridge.core.errors import BridgeError
from databricks_bridge.local.engine.autoloader_options import parse_options
from databricks_bridge.local.engine.dbutils import DBUtils
from databricks_bridge.local.engine.paths import VolumePaths
from databricks_bridge.local.engine.source import parse_notebook
from databricks_bridge.local.refusals import ALL, Area, Refusal

_OPTION = re.compile(r"""\.option\((["'])(.+?)\1, (["'])(.*?)\3\)""")


def of(area: Area) -> list[Refusal]:
    return [entry for entry in ALL if entry.area is area]


@pytest.mark.parametrize("entry", of(Area.NOTEBOOK), ids=lambda entry: entry.name)
def test_a_utility_or_magic_is_refused_in_these_words(entry: Refusal, tmp_path: Path) -> None:
    with pytest.raises(BridgeError) as raised:
        exec(parse_notebook(entry.example)[0].text, {"dbutils": DBUtils({}, VolumePaths(tmp_path))})
    assert entry.words in str(raised.value)


@pytest.mark.parametrize("entry", of(Area.AUTOLOADER), ids=lambda entry: entry.name)
def test_an_option_is_refused_in_these_words(entry: Refusal) -> None:
    options = {match[1]: match[3] for match in (found.groups() for found in _OPTION.finditer(entry.example))}
    with pytest.raises(BridgeError) as raised:
        parse_options(options, has_schema=".schema(" in entry.example)
    assert entry.words in str(raised.value)
