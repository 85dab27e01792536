from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from databricks_bridge.core.errors import LedgerError
from databricks_bridge.core.positions import RunsPosition, TablePosition
from databricks_bridge.core.record import HISTORY_KEPT, Record, Target, record_from_json, token_of
from tests.core.builders import NOW, TARGET, at, records, seconds


@given(records)
def test_a_record_makes_the_way_through_json(record: Record) -> None:
    text = json.dumps(record.to_json(), sort_keys=True)
    back = record_from_json(json.loads(text))
    assert back == record
    assert json.dumps(back.to_json(), sort_keys=True) == text


@pytest.mark.parametrize("schema", [None, 0, 2, "1", "new"])
def test_another_schema_is_refused_with_what_to_do(schema: Any) -> None:
    value = Record("s", "c", {}).to_json() | {"schema": schema}
    with pytest.raises(LedgerError, match="this version reads 1: upgrade"):
        record_from_json(value)


@pytest.mark.parametrize("value", [None, [], "text", 3, {}])
def test_what_is_no_record_is_refused(value: Any) -> None:
    with pytest.raises(LedgerError):
        record_from_json(value)


CLAIM = {
    "ranges": [],
    "token": "t",
    "generation": 0,
    "target": TARGET.to_json(),
    "parameters": {},
    "created_at": NOW.isoformat(),
    "run_id": None,
    "status": "open",
    "failures": 0,
    "not_before": None,
}


@pytest.mark.parametrize(
    "broken",
    [
        {"watermarks": None},
        {"watermarks": []},
        {"watermarks": {"a": {}}},
        {"watermarks": {"a": {"kind": "table", "version": 1}}},
        {"watermarks": {"a": "five"}},
        {"last_claimed_at": "yesterday"},
        {"last_claimed_at": 5},
        {"history": [["yesterday", "x"]]},
        {"history": ["x"]},
        {"history": None},
        {"claim": CLAIM | {"status": "lost"}},
        {"claim": CLAIM | {"created_at": None}},
        {"claim": CLAIM | {"target": {"host": "h"}}},
        {"claim": CLAIM | {"target": None}},
        {"claim": CLAIM | {"ranges": [{}]}},
        {"claim": CLAIM | {"ranges": None}},
        {"claim": CLAIM | {"parameters": []}},
        {"claim": CLAIM | {"parameters": None}},
        {"claim": [1]},
        {"claim": "open"},
    ],
    ids=lambda broken: str(
        broken
        if "claim" not in broken
        else {k: v for k, v in dict(broken["claim"]).items() if CLAIM.get(k) != v}
        if isinstance(broken["claim"], dict)
        else broken
    ),
)
def test_a_broken_record_is_a_ledger_error(broken: dict[str, Any]) -> None:
    with pytest.raises(LedgerError, match="cannot be read"):
        record_from_json(Record("s", "c", {}).to_json() | broken)


@pytest.mark.parametrize("missing", ["subscription", "consumer", "watermarks", "epoch", "claim", "history", "revision"])
def test_a_record_with_a_part_missing_is_a_ledger_error(missing: str) -> None:
    value = Record("s", "c", {}).to_json()
    del value[missing]
    with pytest.raises(LedgerError, match="cannot be read"):
        record_from_json(value)


def test_the_last_transitions_are_kept_and_each_write_counts() -> None:
    record = Record("s", "c", {})
    for n in range(HISTORY_KEPT + 10):
        record = record.after(seconds(n), f"step {n}")
    assert HISTORY_KEPT == 50
    assert [line.what for line in record.history] == [f"step {n}" for n in range(10, 60)]
    assert record.revision == 60


FROM = {"flights": at(3), "weather": at(5, "t2", None)}


def test_the_token_is_stable_for_ever() -> None:
    """A golden value: a stored claim of an older release must go on finding its run."""
    token = token_of("delays", TARGET, "0", FROM, 0)
    assert token == "31e268548e884df5f9b07dd02241ea6be305ede55e4545a8d0b5e896d0aa76cd"
    assert len(token) == 64


def test_the_bytes_of_the_token_are_canonical_json_with_null_for_what_is_not_known() -> None:
    import hashlib

    text = (
        '{"epoch":"0","from":{"flights":["t1","m1",3],"weather":["t2",null,5]},"generation":0,"job_id":7,'
        '"subscription":"delays","workspace_id":"1001"}'
    )
    assert token_of("delays", TARGET, "0", FROM, 0) == hashlib.sha256(text.encode()).hexdigest()


CHANGED: dict[str, tuple[Any, ...]] = {
    "subscription": ("delay", TARGET, "0", FROM, 0),
    "workspace": ("delays", replace(TARGET, workspace_id="1002"), "0", FROM, 0),
    "job": ("delays", replace(TARGET, job_id=8), "0", FROM, 0),
    "epoch": ("delays", TARGET, "1", FROM, 0),
    "generation": ("delays", TARGET, "0", FROM, 1),
    "from version": ("delays", TARGET, "0", FROM | {"flights": at(4)}, 0),
    "table id": ("delays", TARGET, "0", FROM | {"flights": at(3, "t9")}, 0),
    "metadata id": ("delays", TARGET, "0", FROM | {"flights": at(3, "t1", "m9")}, 0),
    "unknown table id": ("delays", TARGET, "0", FROM | {"flights": at(3, None)}, 0),
    "the text null": ("delays", TARGET, "0", FROM | {"flights": at(3, "null")}, 0),
    "a source less": ("delays", TARGET, "0", {"flights": at(3)}, 0),
    "swapped": ("delays", TARGET, "0", {"weather": FROM["flights"], "flights": FROM["weather"]}, 0),
    "runs": ("delays", TARGET, "0", FROM | {"weather": RunsPosition(5)}, 0),
    "runs, one done": ("delays", TARGET, "0", FROM | {"weather": RunsPosition(5, frozenset({1}))}, 0),
}


def test_the_token_changes_with_each_of_its_facts() -> None:
    tokens = {name: token_of(*facts) for name, facts in CHANGED.items()} | {
        "as it was": token_of("delays", TARGET, "0", FROM, 0)
    }
    assert len(set(tokens.values())) == len(tokens)


def test_order_of_sources_host_and_fingerprint_are_not_in_the_token() -> None:
    token = token_of("delays", TARGET, "0", FROM, 0)
    assert token_of("delays", TARGET, "0", dict(reversed(FROM.items())), 0) == token
    assert token_of("delays", Target("https://other", "1001", 7), "0", FROM, 0) == token
    assert token_of("delays", TARGET, "0", FROM | {"flights": TablePosition(3, "t1", "m1", "another")}, 0) == token


def test_a_claim_that_was_written_before_pauses_doubled_has_no_idle_generations() -> None:
    value = Record("s", "c", {}).to_json() | {"claim": CLAIM}
    claim = record_from_json(value).claim
    assert claim is not None
    assert claim.idle == 0
