"""Views in table update triggers: they are watched by the tables they read."""

from __future__ import annotations

import json

import pytest

from tests.local.triggers.site import FLIGHTS, WEATHER, Site, on_tables

VIEW = "main.gold.joined"


def make_view(site: Site, name: str, query: str, namespace: str = "silver") -> None:
    folder = site.layout.table_path("ops", name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    body = {"query": query, "catalog": "main", "namespace": [namespace]}
    folder.with_name(folder.name + ".view.json").write_text(json.dumps(body))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM main.silver.flights f JOIN silver.weather USING (n)",
        "select 1 from `main`.`silver`.`flights`, weather",
        "WITH w AS (SELECT * FROM Weather) SELECT 'from nowhere' FROM w -- FROM x\n LEFT JOIN flights ON /* JOIN y */ true",
        "SELECT * FROM (SELECT * FROM flights) WHERE n IN (SELECT n FROM weather)",
    ],
)
async def test_a_commit_of_any_of_its_tables_fires(site: Site, query: str) -> None:
    site.write(FLIGHTS, 1)
    site.write(WEATHER, 1)
    make_view(site, VIEW, query)
    site.jobs.put(1, on_tables(VIEW))
    await site.until(1)
    site.write(WEATHER, 2)
    await site.until(61)
    site.write(FLIGHTS, 2)
    await site.until(121)
    fired = [json.loads(run.context["table_update.updated_tables"]) for run in site.jobs.started]
    assert fired == [[WEATHER], [FLIGHTS]]
    shown = site.jobs.state(1)["api"]["table"]["last_seen_table_states"]
    assert sorted(state["table_name"] for state in shown) == [FLIGHTS, WEATHER]


async def test_a_view_of_a_view_is_followed_and_a_circle_is_not(site: Site) -> None:
    site.write(FLIGHTS, 1)
    make_view(site, VIEW, "SELECT * FROM main.gold.inner_view")
    make_view(site, "main.gold.inner_view", "SELECT * FROM flights")
    make_view(site, "main.gold.round", "SELECT * FROM gold.round")
    site.jobs.put(1, on_tables(VIEW))
    site.jobs.put(2, on_tables("main.gold.round"))
    await site.until(1)
    site.write(FLIGHTS, 2)
    await site.until(61)
    assert site.fired() == [1]
    assert "or on itself" in site.jobs.state(2)["history"]["last_failed"]["description"]


async def test_the_tables_of_views_count_against_the_limit(site: Site) -> None:
    names = [f"main.silver.t{number}" for number in range(11)]
    for name in names:
        site.write(name, 1)
    make_view(site, VIEW, "SELECT 1 FROM " + ", ".join(names))
    site.jobs.put(1, on_tables(VIEW))
    await site.until(1)
    said = site.jobs.state(1)["history"]["last_failed"]["description"]
    assert said == "with the tables of its views the trigger has 11 tables; at most 10"


async def test_a_view_of_nothing_that_is_here_cannot_be_watched(site: Site) -> None:
    make_view(site, VIEW, "SELECT * FROM read_files('/Volumes/a/b/c')")
    site.jobs.put(1, on_tables(VIEW))
    await site.until(1)
    assert "reads no table of this metastore" in site.jobs.state(1)["history"]["last_failed"]["description"]


@pytest.mark.parametrize("revoked", [VIEW, "main.gold.inner_view", FLIGHTS, WEATHER])
async def test_the_view_and_all_that_it_reads_must_be_readable(site: Site, revoked: str) -> None:
    site.write(FLIGHTS, 1)
    site.write(WEATHER, 1)
    make_view(site, VIEW, "SELECT * FROM main.gold.inner_view JOIN silver.weather USING (n)")
    make_view(site, "main.gold.inner_view", "SELECT * FROM silver.flights")
    site.jobs.put(1, on_tables(VIEW))
    await site.until(1)
    site.revoked.add(revoked)
    site.write(FLIGHTS, 2)
    await site.until(61)
    assert site.fired() == []
    said = site.jobs.state(1)["history"]["last_failed"]["description"]
    assert said == f"PERMISSION_DENIED: User does not have SELECT on {revoked}."
    site.revoked.clear()
    await site.until(121)
    assert site.fired() == [1]
