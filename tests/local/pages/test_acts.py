"""Each button does what it says, to the real thing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from databricks_bridge.local.managing import ready_file
from databricks_bridge.local.triggers.commits import commit_versions
from tests.local.local_kit import Notebooks, eventually, failure
from tests.local.pages.pages_kit import (
    FLIGHTS,
    Browser,
    browser,
    ended,
    forms,
    land,
    make_job,
    make_schemas,
    make_table,
    make_volume,
    rest,
    rows_of,
    run_now,
    runs_of,
    signed_in,
    words,
)


@pytest.fixture(scope="module", autouse=True)
def volume(up: Deployment) -> str:
    make_schemas(rest(up), "landing", "bronze")
    make_volume(rest(up), "landing", "files")
    return "/local/files/main/landing/files"


def test_run_now_starts_a_run_by_hand(up: Deployment, ops: Browser) -> None:
    job_id = make_job(up, "by-hand")
    answer = ops.press(f"/local/jobs/{job_id}", "Run now")
    (run,) = runs_of(rest(up), job_id)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/local/runs/{run['run_id']}")
    assert run["trigger"] == "ONE_TIME"
    assert ended(rest(up), run["run_id"])["state"]["result_state"] == "SUCCESS"


def test_a_dropped_file_fires_a_file_arrival_trigger_and_a_pause_stops_that(
    up: Deployment, ops: Browser, volume: str
) -> None:
    job_id = make_job(up, "on-arrival", trigger={"file_arrival": {"url": "/Volumes/main/landing/files/"}})
    page = f"/local/jobs/{job_id}"
    answer = ops.press(volume, "Drop file", name="one.json", text='{"a": 1}\r\n')
    assert answer.headers["location"] == f"{volume}?dropped=one.json"
    assert "one.json has arrived." in words(ops.page(answer.headers["location"]))
    folder = up.workspaces["ops"].layout.volume_path("ops", "/Volumes/main/landing/files")
    assert [(file.name, file.read_bytes()) for file in folder.iterdir()] == [("one.json", b'{"a": 1}\n')]
    eventually(lambda: runs_of(rest(up), job_id))
    assert runs_of(rest(up), job_id)[0]["trigger"] == "FILE_ARRIVAL"

    assert ops.press(page, "Pause").headers["location"] == page
    assert "State paused" in words(ops.page(page))
    ops.press(volume, "Drop file", files={"file": ("two.bin", b"\x00\xff")})
    assert (folder / "two.bin").read_bytes() == b"\x00\xff"
    ops.press(page, "Resume")
    assert "State active" in words(ops.page(page))
    resumed_at = up.workspaces["ops"].now() * 1000

    def looked_again() -> bool:
        detail = rest(up).call("GET", "/api/2.2/jobs/get", job_id=job_id, include_trigger_state="true")
        history = detail["trigger_details"][0]["history"]
        return bool(history.get("last_not_triggered", {}).get("timestamp", 0) > resumed_at)

    eventually(looked_again)
    assert len(runs_of(rest(up), job_id)) == 1
    land(up, "/Volumes/main/landing/files/three.json", b"{}")
    eventually(lambda: len(runs_of(rest(up), job_id)) == 2)
    assert "fired 1 new file(s)" in words(ops.page(page))


def test_the_look_at_a_trigger_starts_nothing(up: Deployment, ops: Browser) -> None:
    make_volume(rest(up), "landing", "looked-at")
    url = "/Volumes/main/landing/looked-at/"
    schedule = {"quartz_cron_expression": "0 0 0 1 1 ? 2099", "timezone_id": "UTC"}
    job_id = make_job(
        up,
        "looked-at",
        triggers=[
            {"file_arrival": {"url": url}, "pause_status": "PAUSED"},
            {"schedule": schedule, "pause_status": "UNPAUSED"},
        ],
    )
    land(up, f"{url}new.json", b"{}")
    said = words(ops.press(f"/local/jobs/{job_id}", "Test trigger").text)
    assert f"1 would fire 1 new file(s) in {url} (it is paused) 2 would not fire" in said
    assert runs_of(rest(up), job_id) == []
    # Each of several triggers has a button of its own.
    pause = [form for form in forms(ops.page(f"/local/jobs/{job_id}")) if form.label in ("Pause", "Resume")]
    assert [(form.label, form.fields["trigger"]) for form in pause] == [("Resume", "0"), ("Pause", "1")]
    ops.post(pause[1].action, pause[1].fields)
    settings = rest(up).call("GET", "/api/2.2/jobs/get", job_id=job_id)["settings"]
    assert [one["pause_status"] for one in settings["triggers"]] == ["PAUSED", "PAUSED"]


@pytest.mark.parametrize(
    "settings",
    [
        {"schedule": {"quartz_cron_expression": "0 0 0 1 1 ? 2099", "timezone_id": "UTC"}},
        {"continuous": {}},
        {"trigger": {"periodic": {"interval": 4, "unit": "WEEKS"}}},
    ],
)
def test_every_kind_is_paused_and_resumed(up: Deployment, ops: Browser, settings: dict[str, Any]) -> None:
    job_id = make_job(up, "kinds", **settings)
    (part,) = settings

    def status() -> str:
        return str(rest(up).call("GET", "/api/2.2/jobs/get", job_id=job_id)["settings"][part]["pause_status"])

    assert status() == "UNPAUSED"
    ops.press(f"/local/jobs/{job_id}", "Pause")
    assert status() == "PAUSED"
    ops.press(f"/local/jobs/{job_id}", "Resume")
    assert status() == "UNPAUSED"
    ops.press(f"/local/jobs/{job_id}", "Pause")


def test_an_active_run_is_cancelled_and_a_failed_one_repaired(
    up: Deployment, ops: Browser, notebooks: Notebooks
) -> None:
    notebooks.block("slow")
    run_id = run_now(rest(up), make_job(up, "slow"))
    eventually(lambda: "RUNNING" in words(ops.page(f"/local/runs/{run_id}")))
    assert ops.press(f"/local/runs/{run_id}", "Cancel").headers["location"] == f"/local/runs/{run_id}"
    assert ended(rest(up), run_id)["state"]["result_state"] == "CANCELED"
    assert "Cancel" not in [form.label for form in forms(ops.page(f"/local/runs/{run_id}"))]
    notebooks.unblock("slow")

    notebooks.functions["broken"] = lambda run: failure("ValueError: no")
    failed = run_now(rest(up), make_job(up, "broken"))
    ended(rest(up), failed)
    del notebooks.functions["broken"]
    repair = ops.form(f"/local/runs/{failed}", "Repair what failed")
    ops.post(repair.action, repair.fields)
    assert ended(rest(up), failed)["state"]["result_state"] == "SUCCESS"
    assert "Repair" in words(ops.page(f"/local/runs/{failed}"))
    again = ops.post(repair.action, repair.fields)
    assert (again.status_code, "has nothing to repair" in words(again.text)) == (400, True)


def test_a_committed_row_is_a_real_version_and_fires_a_table_update_trigger(up: Deployment, ops: Browser) -> None:
    from deltalake import DeltaTable

    name = "main.bronze.flights"
    table = make_table(up, name, FLIGHTS[:1])
    job_id = make_job(up, "on-commit", trigger={"table_update": {"table_names": [name]}})
    protocol = DeltaTable(str(table)).protocol()
    page = f"/local/tables/{name}"
    answer = ops.press(page, "Commit row", **{"0": "B6 <1>", "1": "", "2": "-7"})
    assert answer.headers["location"] == f"{page}?committed=1"
    assert "The row is committed, in version 1." in words(ops.page(answer.headers["location"]))
    ops.press(page, "Commit row", json='{"flight": "JSON", "delay": 9}')
    delta = DeltaTable(str(table))
    rows = sorted(rows_of(table), key=lambda row: row["delay"])
    assert rows == [
        {"flight": "B6 <1>", "origin": None, "delay": -7},
        FLIGHTS[0],
        {"flight": "JSON", "origin": None, "delay": 9},
    ]
    assert commit_versions(table) == [0, 1, 2]
    assert (delta.protocol(), sorted(file.name for file in (table / "_delta_log").iterdir() if file.is_file())) == (
        protocol,
        [f"{version:020}.json" for version in range(3)],
    )
    eventually(lambda: [run for run in runs_of(rest(up), job_id) if run["trigger"] == "TABLE"])


def test_what_is_wrong_with_a_row_is_said_and_nothing_is_lost(up: Deployment, ops: Browser) -> None:
    name = "main.bronze.refused"
    table = make_table(up, name, FLIGHTS[:1])
    page = f"/local/tables/{name}"
    answer = ops.press(page, "Commit row", **{"0": "<b>UA</b>", "2": "late"})
    assert answer.status_code == 422
    assert "delay: 'late' is no bigint." in words(answer.text)
    (form,) = [form for form in forms(answer.text) if form.label == "Commit row"]
    assert (form.fields["0"], form.fields["2"]) == ("<b>UA</b>", "late")
    answer = ops.press(page, "Commit row", json='{"flight": "</textarea><b>"')
    assert answer.status_code == 422
    assert "is not JSON" in words(answer.text)
    assert "{&quot;flight&quot;: &quot;&lt;/textarea&gt;&lt;b&gt;&quot;" in answer.text
    unknown = ops.press(page, "Commit row", json='{"fligth": "UA"}')
    assert "The table has no column fligth; it has flight, origin, delay." in words(unknown.text)
    assert commit_versions(table) == [0]


def test_a_table_with_a_feature_that_cannot_be_written_says_so(up: Deployment, ops: Browser) -> None:
    table = make_table(up, "main.bronze.tracked", FLIGHTS[:1])
    first = table / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    features = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["rowTracking", "domainMetadata"]}
    changed = [{"protocol": features} if "protocol" in line else line for line in lines]
    first.write_text("\n".join(map(json.dumps, changed)) + "\n")
    answer = ops.press("/local/tables/main.bronze.tracked", "Commit row", **{"0": "UA", "2": "1"})
    assert answer.status_code == 422
    said = words(answer.text)
    assert "RowTracking" in said
    assert "commit from a notebook or through a SQL warehouse" in said
    assert commit_versions(table) == [0]


def test_a_share_and_a_table_that_is_gone_take_no_row(up: Deployment, ops: Browser) -> None:
    met = rest(up, "met")
    make_schemas(met, "silver")
    make_table(up, "main.silver.weather", [{"station": "EWR"}], "met")
    share = {"catalog": "met_share", "source_metastore": "met", "source_catalog": "main", "schemas": ["silver"]}
    rest(up).call("POST", "/local/shares", share)
    make_table(up, "main.bronze.mine", FLIGHTS[:1])
    form = ops.form("/local/tables/main.bronze.mine", "Commit row")
    refused = ops.post("/local/tables/met_share.silver.weather/rows", form.fields)
    assert (refused.status_code, "can only be read" in words(refused.text)) == (403, True)
    assert ops.post("/local/tables/main.bronze.gone/rows", form.fields).status_code == 404


def test_a_name_that_no_file_can_have_is_refused_and_nothing_is_lost(up: Deployment, ops: Browser, volume: str) -> None:
    names = ("", "..", "a/b.json", "a" * 300, "\x07")
    for name in names:
        answer = ops.press(volume, "Drop file", name=name, text="kept </textarea>")
        assert answer.status_code == 422, name
        assert "kept &lt;/textarea&gt;" in answer.text
    ops.press(volume, "Drop file", name="twice.json", text="1")
    again = ops.press(volume, "Drop file", name="twice.json", text="2")
    assert "There is a file twice.json already." in words(again.text)
    file = up.workspaces["ops"].layout.volume_path("ops", "/Volumes/main/landing/files/twice.json")
    assert file.read_text() == "1"
    assert ops.press(volume, "Drop file", name="twice.json", text="2", overwrite="on").status_code == 303
    assert file.read_text() == "2"
    assert [one.name for one in file.parent.iterdir() if one.name.startswith(".")] == []
    form = ops.form(volume, "Drop file")
    for elsewhere in ("main/landing/none", "main/landing/files/../..", "main/landing/files/..%2f..", "main/landing"):
        assert ops.post(f"/local/files/{elsewhere}", {**form.fields, "name": "x"}).status_code in (
            303,
            400,
            403,
            404,
            422,
        )
    assert list(up.layout.volumes_root("ops").rglob("x")) == []


def test_the_next_wave_of_the_lab_file_lands_in_all_its_workspaces(tmp_path: Path) -> None:
    lab = tmp_path / "lab.yaml"
    lab.write_text(
        "workspaces: {ops: {}, met: {}}\n"
        "waves:\n"
        "  - ops: {/Volumes/main/landing/files/: one.json}\n"
        "    met: {/Volumes/main/landing/files/: [one.json, two.json]}\n"
        "  - ops: {/Volumes/main/landing/files/: two.json}\n"
    )
    for name in ("one.json", "two.json"):
        (tmp_path / name).write_text("{}")
    engine = InstantEngine(Notebooks().run)
    with deployment_in_thread(tmp_path / "home", ["ops", "met"], engine=engine) as up:
        for workspace in ("ops", "met"):
            make_schemas(rest(up, workspace), "landing")
            make_volume(rest(up, workspace), "landing", "files")
        opened = signed_in(up)
        assert "Waves" not in words(opened.page("/local/files"))
        ready_file(up.layout.home).write_text(json.dumps({"pid": 1, "file": str(lab)}))
        assert "The lab file has 2 waves. The next one has files for: 2 in met, 1 in ops." in words(
            opened.page("/local/files")
        )
        assert opened.press("/local/files", "Land wave 1").headers["location"] == "/local/files?landed=1"
        assert "Wave 1 has landed." in words(opened.page("/local/files?landed=1"))
        opened.press("/local/files", "Land wave 2")
        said = words(opened.page("/local/files"))
        assert "All 2 waves of the lab file have landed. Drop a file of your own into a volume." in said
        assert "Land wave" not in said
        found = sorted(
            file.relative_to(up.layout.home / "volumes").as_posix()
            for file in up.layout.home.rglob("*.json")
            if "files" in file.parts
        )
        assert found == [
            "met/main/landing/files/one.json",
            "met/main/landing/files/two.json",
            "ops/main/landing/files/one.json",
            "ops/main/landing/files/two.json",
        ]


def test_nobody_else_can_press_them(up: Deployment) -> None:
    job_id = make_job(up, "not yours")
    assert browser(up).post(f"/local/jobs/{job_id}/run-now", {}).status_code == 403
    assert runs_of(rest(up), job_id) == []


def test_nothing_is_dropped_or_shown_where_a_link_leads_out(
    up: Deployment, ops: Browser, volume: str, tmp_path: Path
) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    folder = up.workspaces["ops"].layout.volume_path("ops", "/Volumes/main/landing/files")
    (folder / "away").symlink_to(tmp_path)
    (folder / "secret.txt").symlink_to(tmp_path / "secret.txt")
    try:
        page = ops.page(volume)
        assert "away" not in page
        assert "secret.txt" not in page
        assert ops.get(f"{volume}/away").status_code == 404
        for address, name in ((volume, "secret.txt"), (f"{volume}/away", "new.txt")):
            form = ops.form(volume, "Drop file")
            answer = ops.post(address, {**form.fields, "name": name, "text": "mine", "overwrite": "on"})
            assert answer.status_code in (404, 422), (address, answer.status_code)
        assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"secret.txt": "secret"}
        assert "leads out of files by a link" in words(
            ops.press(volume, "Drop file", name="secret.txt", text="mine", overwrite="on").text
        )
    finally:
        (folder / "away").unlink()
        (folder / "secret.txt").unlink()
