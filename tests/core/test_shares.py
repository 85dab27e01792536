"""What speaks against following a table under its reader's name, by the answers of both ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from databricks_bridge.core.pending import TableFinding, changes_of, ranges_of
from databricks_bridge.core.policy import decide
from databricks_bridge.core.positions import BEFORE_FIRST, TablePosition
from databricks_bridge.core.shares import Verdict, comes_from_share, judge, objects_of, reader_problem
from databricks_bridge.core.sources import DeltaTable
from tests.core.builders import FLIGHTS, NOW, at, spec_of

TABLE = DeltaTable("main.silver.flights", "ops", read_as="ops_share.silver.flights")
OWN = {"table_type": "MANAGED", "properties": {"delta.enableChangeDataFeed": "true"}}
PLAIN = {"table_type": "MANAGED", "properties": {}}


def shared(share: str = "ops", **fields: Any) -> dict[str, Any]:
    """A share with one object, as `shares/{name}?include_shared_data=true` shows it."""
    one = {
        "name": "main.silver.flights",
        "shared_as": "silver.flights",
        "data_object_type": "TABLE",
        "history_data_sharing_status": "ENABLED",
        "cdf_enabled": True,
        "status": "ACTIVE",
    } | fields
    return {"name": share, "objects": [{key: value for key, value in one.items() if value is not None}]}


def verdict(*shares: dict[str, Any], share_name: str | None = "ops", entry: Any = OWN) -> Verdict:
    return judge(TABLE, entry, [one for share in shares for one in objects_of(share)], share_name)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"name": "MAIN.Silver.flights"},
        {"shared_as": None},
        {"partitions": []},
        {"status": None},
        {"data_object_type": None},
        {"data_object_type": "STREAMING_TABLE"},
        {"name": "main.silver", "shared_as": None, "data_object_type": "SCHEMA", "history_data_sharing_status": None},
    ],
)
def test_a_whole_table_with_history_is_fine(fields: dict[str, Any]) -> None:
    assert verdict(shared(**fields)) == Verdict()
    assert verdict(shared(**fields), share_name=None) == Verdict()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"history_data_sharing_status": "DISABLED"},
            "the share ops holds main.silver.flights without history (history_data_sharing_status DISABLED), so no range of "
            "its versions can be read: ALTER SHARE ops ALTER TABLE main.silver.flights WITH HISTORY",
        ),
        (
            {"partitions": [{"values": [{"name": "day", "op": "EQUAL", "value": "1"}]}]},
            "with a partition filter, and versions agree only for the whole table: ALTER SHARE ops REMOVE TABLE",
        ),
        ({"status": "PERMISSION_DENIED"}, "its owner may not read it"),
        ({"data_object_type": "VIEW"}, "as a VIEW, whose versions are not its own"),
        ({"data_object_type": "FOREIGN_TABLE"}, "as a FOREIGN_TABLE"),
        ({"data_object_type": "MATERIALIZED_VIEW"}, "as a MATERIALIZED_VIEW"),
        ({"shared_as": "gold.flights"}, "holds main.silver.flights as gold.flights; correct read_as"),
        ({"name": "main.silver.weather"}, "does not hold main.silver.flights: ALTER SHARE ops ADD TABLE"),
        ({"name": "main.silver.flights", "data_object_type": "VOLUME"}, "does not hold main.silver.flights"),
        ({"name": "main.gold", "data_object_type": "SCHEMA"}, "does not hold main.silver.flights"),
    ],
)
def test_what_cannot_be_followed_says_what_to_do(fields: dict[str, Any], words: str) -> None:
    assert words in verdict(shared(**fields)).problem


def test_where_the_share_is_not_told_one_good_one_is_enough() -> None:
    bad = shared("plain", history_data_sharing_status="DISABLED")
    assert verdict(bad, shared("good"), share_name=None) == Verdict()
    assert "the share plain" in verdict(bad, share_name=None).problem
    other_name = shared("good", shared_as="x.y")
    assert "the share plain" in verdict(bad, other_name, share_name=None).problem, "the one that is read comes first"
    assert verdict(other_name, share_name=None) == Verdict()
    unchecked = verdict(shared(name="main.silver.weather"), share_name=None)
    assert (unchecked.problem, unchecked.unchecked) == ("", "no share that can be seen there holds main.silver.flights")


def test_of_two_entries_in_one_share_that_of_the_reader_counts() -> None:
    share = shared(shared_as="old.flights")
    share["objects"] += shared(history_data_sharing_status="DISABLED")["objects"]
    assert "without history" in verdict(share).problem


def test_history_that_is_not_told_is_not_judged() -> None:
    told = verdict(shared(history_data_sharing_status=None))
    assert (told.problem, told.unchecked) == (
        "",
        "the share ops holds main.silver.flights, but not whether with history",
    )


def test_a_feed_that_is_left_out_is_a_warning_only_where_the_table_has_one() -> None:
    assert "cdf_enabled false" in verdict(shared(cdf_enabled=False)).warning
    assert verdict(shared(cdf_enabled=False)).problem == ""
    assert verdict(shared(cdf_enabled=False), entry=PLAIN) == Verdict()
    assert verdict(shared(cdf_enabled=None)) == Verdict()


@pytest.mark.parametrize(
    ("entry", "fine"),
    [
        ({"table_type": "MANAGED"}, True),
        ({"table_type": "EXTERNAL", "securable_kind_manifest": {"securable_kind": "TABLE_DELTASHARING"}}, True),
        ({}, True),
        ({"table_type": "VIEW"}, False),
        ({"table_type": "MATERIALIZED_VIEW"}, False),
        ({"table_type": "FOREIGN"}, False),
        ({"table_type": "MANAGED", "securable_kind_manifest": {"securable_kind": "TABLE_VIEW_DELTASHARING"}}, False),
        ({"table_type": "MANAGED", "securable_kind_manifest": {"securable_kind": "TABLE_FOREIGN_DELTASHARING"}}, False),
    ],
)
def test_a_reader_has_versions_of_its_own(entry: dict[str, Any], fine: bool) -> None:
    problem = reader_problem(TABLE, "https://analytics", entry)
    assert (problem == "") is fine
    if not fine:
        assert problem.startswith(
            "ops_share.silver.flights in https://analytics, the read_as of main.silver.flights, is of"
        )


@pytest.mark.parametrize(
    ("form", "catalog", "shared"),
    [
        ("DELTASHARING", None, True),
        ("DELTA_SHARING", {"catalog_type": "MANAGED_CATALOG"}, True),
        ("DELTA", {"catalog_type": "DELTASHARING_CATALOG"}, True),
        ("DELTA", {"catalog_type": "MANAGED_CATALOG"}, False),
        ("DELTA", None, False),
        (None, None, True),
        (None, {"catalog_type": "MANAGED_CATALOG"}, False),
    ],
)
def test_whether_a_share_is_in_between(form: str | None, catalog: dict[str, Any] | None, shared: bool) -> None:
    assert comes_from_share({"data_source_format": form}, catalog) is shared


def mark_and_finding(mark: int, provider: int, reader: int | None) -> tuple[TablePosition, TableFinding]:
    return at(mark), TableFinding(at(provider), provider if provider > mark else None, NOW, reader_version=reader)


@pytest.mark.parametrize(
    ("mark", "provider", "reader", "to"),
    [
        (3, 6, None, 6),
        (3, 6, 6, 6),
        (3, 6, 7, 6),
        (3, 6, 5, 5),
        (3, 6, 4, 4),
        (3, 6, 3, 3),
        (3, 6, 2, 3),
        (3, 6, -1, 3),
        (BEFORE_FIRST, 6, 4, 4),
        (BEFORE_FIRST, 6, -1, BEFORE_FIRST),
    ],
)
def test_a_range_ends_at_the_older_of_provider_and_reader(
    mark: int, provider: int, reader: int | None, to: int
) -> None:
    start, finding = mark_and_finding(mark, provider, reader)
    (one,) = ranges_of(spec_of(FLIGHTS), {"flights": start}, {"flights": finding})
    assert isinstance(one.to, TablePosition)
    assert (one.from_, one.to.version) == (start, to)
    if mark < to < provider:
        assert one.to == TablePosition(to, "t1", "m1"), "the fingerprint is that of another commit"
    if to == provider:
        assert one.to == finding.position
    changed = changes_of((one,), {"flights": finding}, NOW)
    assert [at is None for at in changed.values()] == [to == mark]


def test_the_cap_counts_from_the_watermark_whatever_the_reader_has() -> None:
    start, finding = mark_and_finding(3, 9, 7)
    spec = replace(spec_of(FLIGHTS), max_commits_per_run=2)
    (one,) = ranges_of(spec, {"flights": start}, {"flights": finding})
    assert isinstance(one.to, TablePosition)
    assert one.to.version == 5


@pytest.mark.parametrize(
    ("reader", "where"), [(4, "at version 4, the provider at 6"), (-1, "without a version, the provider at 6")]
)
def test_the_hold_says_where_both_are(reader: int, where: str) -> None:
    start, finding = mark_and_finding(4, 6, reader)
    ranges = ranges_of(spec_of(FLIGHTS), {"flights": start}, {"flights": finding})
    decision = decide(spec_of(FLIGHTS).policy, changes_of(ranges, {"flights": finding}, NOW), None, NOW)
    assert decision.reason == f"nothing new in flights (the reader ops_share.silver.flights is {where})"
