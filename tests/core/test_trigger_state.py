"""What jobs/get says of a job's triggers: a table of answers, as the Jobs API shows them and as it never should."""

from __future__ import annotations

from typing import Any

import pytest

from databricks_bridge.core.trigger_state import findings, last_words, triggers_of

FILES = {"file_arrival": {"url": "/Volumes/main/landing/files/"}}
TABLES = {"table_update": {"table_names": ["main.silver.flights"]}}
CRON = {"quartz_cron_expression": "0 0 6 * * ?", "timezone_id": "UTC"}
PAUSED = {"pause_status": "PAUSED"}
FILE, TABLE = frozenset({"FILE_ARRIVAL"}), frozenset({"TABLE"})
NOON, LATER = 1_767_268_800_000, 1_767_268_860_000


def job(settings: dict[str, Any], *histories: dict[str, Any], **shown: Any) -> dict[str, Any]:
    details = {"trigger_details": [{"state": {}, "history": one} for one in histories]} if histories else {}
    return {"job_id": 7, "settings": {"name": "bronze", **settings}, **details, **shown}


def line(timestamp: Any, description: str, **more: Any) -> dict[str, Any]:
    return {"timestamp": timestamp, "description": description, **more}


FAILED = {"last_failed": line(LATER, "holds 10001 files"), "last_triggered": line(NOON, "1 new file", run_id=11)}


@pytest.mark.parametrize(
    ("shape", "fires"),
    [
        ({"trigger": FILES}, [FILE]),
        ({"trigger": TABLES}, [TABLE]),
        ({"trigger": {"table": {"table_names": ["a.b.c"]}}}, [TABLE]),
        ({"trigger": {"periodic": {"interval": 1, "unit": "DAYS"}}}, [{"PERIODIC"}]),
        ({"trigger": {"model": {"condition": "MODEL_CREATED"}}}, [{"MODEL"}]),
        ({"trigger": {"job_completion": {"jobs": []}}}, [{"JOB_COMPLETION"}]),
        ({"trigger": {**FILES, "sql_condition": {"sql_query_id": "q"}}}, [FILE]),
        ({"trigger": {"model": None, **FILES}}, [FILE]),
        ({"schedule": CRON}, [{"PERIODIC"}]),
        ({"continuous": {}}, [{"CONTINUOUS", "CONTINUOUS_RESTART"}]),
        ({"triggers": [FILES, {"schedule": CRON}]}, [FILE, {"PERIODIC"}]),
        ({"trigger": {"lakebase_commit": {}}}, [None]),
        ({}, []),
    ],
)
def test_C13_every_shape_of_triggers_is_read(shape: dict[str, Any], fires: list[Any]) -> None:
    assert [one.fires for one in triggers_of(job(shape))] == fires


@pytest.mark.parametrize(
    ("answer", "wanted", "found"),
    [
        (job({"trigger": FILES}), FILE, []),
        (job({"trigger": {**FILES, **PAUSED}}), FILE, [("paused 0", True)]),
        (job({"trigger": FILES}, trigger_state=PAUSED), FILE, [("paused 0", True)]),
        (job({"trigger": {**FILES, **PAUSED}}), FILE | TABLE, [("paused 0", True)]),
        (job({"schedule": {**CRON, **PAUSED}}), frozenset({"PERIODIC"}), [("paused 0", True)]),
        (job({"continuous": PAUSED}), frozenset({"CONTINUOUS"}), [("paused 0", True)]),
        (job({"triggers": [FILES, {**TABLES, **PAUSED}]}), TABLE, [("paused 1", True)]),
        (job({"triggers": [FILES, {**TABLES, **PAUSED}]}), FILE, []),
        (job({"triggers": [FILES, {**TABLES, **PAUSED}]}), FILE | TABLE, [("paused 1", False)]),
        (job({"triggers": [{**FILES, **PAUSED}, {"new_kind": {}}]}), FILE, [("paused 0", False)]),
        (job({"trigger": {**FILES, **PAUSED}}), FILE | {"ONE_TIME"}, [("paused 0", False)]),
        (job({"trigger": TABLES}), FILE, [("none", False)]),
        (job({}), FILE, [("none", False)]),
        (job({}), frozenset({"ONE_TIME"}), []),
        (job({"trigger": {"new_kind": {}}}), FILE, []),
        (job({"trigger": FILES}, FAILED), FILE, [("failed 0 holds 10001 files", False)]),
        (job({"trigger": FILES}, {"last_failed": line(LATER, "no")}), FILE, [("failed 0 no", False)]),
        (job({"trigger": FILES}, {**FAILED, "last_not_triggered": line(LATER + 1, "no new files")}), FILE, []),
        (job({"trigger": {**FILES, **PAUSED}}, FAILED), FILE, [("paused 0", True)]),
        (job({"triggers": [TABLES, FILES]}, {}, FAILED), FILE, [("failed 1 holds 10001 files", False)]),
        (job({"triggers": [TABLES, FILES]}, {}, FAILED), TABLE, []),
        (job({"triggers": [TABLES, FILES]}, FAILED), FILE, []),
    ],
)
def test_why_no_run_may_come(answer: dict[str, Any], wanted: frozenset[str], found: list[tuple[str, bool]]) -> None:
    assert [(one.key, one.blocking) for one in findings(answer, wanted)] == found


def only(answer: dict[str, Any], wanted: frozenset[str]) -> str:
    (one,) = findings(answer, wanted)
    return one.message


def test_the_messages_name_the_job_and_what_to_do() -> None:
    paused = only(job({"trigger": {**FILES, **PAUSED}}), FILE)
    assert paused.startswith("the file_arrival trigger of job 7 ('bronze') is paused: no run of FILE_ARRIVAL will be")
    assert "pause_status UNPAUSED" in paused
    assert only(job({"schedule": CRON}), FILE) == (
        "job 7 ('bronze') has no trigger that fires runs of FILE_ARRIVAL: it has schedule (PERIODIC); name in triggers= "
        "what fires it, or give the job such a trigger"
    )
    assert "it has none at all" in only(job({}), FILE | TABLE)
    assert only(job({"trigger": FILES}, FAILED), FILE) == (
        "the file_arrival trigger of job 7 ('bronze') could not be evaluated at 2026-01-01T12:01:00+00:00, and fires "
        "nothing until it can: holds 10001 files"
    )


def test_C02_the_last_words_tell_when_it_fired_and_why_it_did_not() -> None:
    history = {
        "last_triggered": line(NOON, "1 new file(s)", run_id=11),
        "last_not_triggered": line(LATER, "no new files in /Volumes/main/landing/files/"),
    }
    assert last_words(job({"trigger": FILES}, history), FILE | TABLE) == (
        "the file_arrival trigger of job 7 ('bronze') last fired at 2026-01-01T12:00:00+00:00 as run 11 (1 new file(s)), "
        "was looked at at 2026-01-01T12:01:00+00:00 and did not fire: no new files in /Volumes/main/landing/files/, "
        "takes a file that is written again under its old name for no arrival"
    )


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (job({"trigger": {**TABLES, **PAUSED}}), "is paused, has no history that jobs/get would show"),
        (job({"trigger": TABLES}, FAILED), "could not be evaluated at 2026-01-01T12:01:00+00:00"),
        (job({"trigger": TABLES}, {"last_not_triggered": line(NOON, "quiet")}), "has not fired yet, was looked at"),
        (job({"triggers": [TABLES, FILES]}), "; the file_arrival trigger"),
        (job({"schedule": CRON}), "has no trigger that fires runs of FILE_ARRIVAL, TABLE"),
    ],
)
def test_the_last_words_of_other_states(answer: dict[str, Any], words: str) -> None:
    assert words in last_words(answer, FILE | TABLE)


@pytest.mark.parametrize("garbage", [None, 5, "x", [], {}, [5], {"last_failed": 5}, {"timestamp": "soon"}], ids=str)
@pytest.mark.parametrize(
    "where", ["settings", "trigger", "triggers", "schedule", "details", "history", "failed", "time"]
)
def test_whatever_the_answer_holds_it_is_read_without_an_error(where: str, garbage: Any) -> None:
    answers = {
        "settings": {"job_id": 7, "settings": garbage},
        "trigger": job({"trigger": garbage}),
        "triggers": job({"triggers": garbage}),
        "schedule": job({"schedule": garbage, "continuous": garbage}),
        "details": job({"trigger": FILES}, trigger_details=garbage, trigger_state=garbage),
        "history": job({"trigger": FILES}, garbage),
        "failed": job({"trigger": FILES}, {"last_failed": garbage, "last_triggered": garbage}),
        "time": job({"trigger": FILES}, {"last_failed": line(garbage, "no"), "last_not_triggered": line(1e30, "x")}),
    }
    assert isinstance(findings(answers[where], FILE), list)
    assert isinstance(last_words(answers[where], FILE), str)
