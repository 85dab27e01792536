"""`local links|switch|test-trigger|model-event`, as another process asks a running deployment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from databricks_bridge.cli import main
from databricks_bridge.local.deployment import Deployment, deployment_in_thread
from databricks_bridge.local.engine.instant import InstantEngine
from tests.local.local_kit import Notebooks, eventually
from tests.local.pages.pages_kit import land, make_job, make_schemas, make_volume, rest, runs_of


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    home = tmp_path_factory.mktemp("asking") / "home"
    with deployment_in_thread(home, ["ops", "met"], engine=InstantEngine(Notebooks().run)) as deployment:
        yield deployment


def opened(url: str) -> int:
    return httpx.get(url, follow_redirects=True, verify=False).status_code


def test_links_sign_in_once_each(up: Deployment, capsys: pytest.CaptureFixture[str]) -> None:
    home = ["--home", str(up.layout.home)]
    assert main(["local", "links", *home]) == 0
    said = capsys.readouterr().out
    *links, last = said.splitlines()
    assert last == "Each opens the pages of its workspace once, within 60 minutes."
    assert [line.partition(": ")[0] for line in links] == ["ops", "met"]
    for name, line in zip(("ops", "met"), links, strict=True):
        url = line.partition(": ")[2]
        assert url.startswith(f"{up.host(name)}/local/sign-in?code=")
        assert up.token(name) not in said
        client = httpx.Client(follow_redirects=True, verify=False)
        entered = client.get(url)
        assert (entered.status_code, str(entered.url)) == (200, f"{up.host(name)}/")
        assert opened(url) == 403
    assert main(["local", "links", *home, "--workspace", "met", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["met"]


def test_a_switch_is_read_and_set(up: Deployment, capsys: pytest.CaptureFixture[str]) -> None:
    home = ["--home", str(up.layout.home)]
    assert main(["local", "switch", *home]) == 0
    assert "every_commit: off" in capsys.readouterr().out
    assert main(["local", "switch", "every_commit", "on", *home, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["every_commit"] is True
    assert rest(up).call("GET", "/local/switches")["every_commit"] is True
    assert main(["local", "switch", "every_commit", "off", *home]) == 0
    assert rest(up).call("GET", "/local/switches")["every_commit"] is False
    assert main(["local", "switch", "every_commit", *home]) == 2
    assert main(["local", "switch", "no_such", "on", *home]) == 1
    assert "there is no switch no_such" in capsys.readouterr().err


def test_a_trigger_is_looked_at_by_the_job_s_name_or_id(up: Deployment, capsys: pytest.CaptureFixture[str]) -> None:
    make_schemas(rest(up), "landing")
    make_volume(rest(up), "landing", "files")
    url = "/Volumes/main/landing/files/"
    job_id = make_job(up, "paused", trigger={"file_arrival": {"url": url}, "pause_status": "PAUSED"})
    eventually(lambda: rest(up).call("GET", "/api/2.2/jobs/get", job_id=job_id, include_trigger_state="true"))
    where = ["--home", str(up.layout.home), "--workspace", "ops"]
    assert main(["local", "test-trigger", "paused", *where]) == 0
    assert capsys.readouterr().out == f"would not fire: no new files in {url} (it is paused)\n"
    land(up, f"{url}new.json", b"")
    assert main(["local", "test-trigger", str(job_id), *where, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["triggers"][0]["would_fire"] is True
    assert runs_of(rest(up), job_id) == []
    assert main(["local", "test-trigger", "nobody", *where]) == 2
    assert "no job named nobody" in capsys.readouterr().err
    assert main(["local", "test-trigger", "1", *where]) == 1
    plain = make_job(up, "by hand")
    assert main(["local", "test-trigger", str(plain), *where]) == 0
    assert capsys.readouterr().out == "the job has no trigger\n"
    assert main(["local", "test-trigger", "paused", "--home", str(up.layout.home)]) == 2
    assert "--workspace is missing: give one of met, ops" in capsys.readouterr().err


def test_a_model_event_is_declared(up: Deployment, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--home", str(up.layout.home), "--workspace", "ops"]
    alias = ["--alias", "champion"]
    assert main(["local", "model-event", "MODEL_ALIAS_SET", "main.ml.delays", *alias, *where]) == 0
    assert capsys.readouterr().out == "MODEL_ALIAS_SET of main.ml.delays\n"
    kept = (up.layout.metastore_root("ops") / ".model-events.jsonl").read_text()
    assert json.loads(kept)["alias"] == "champion"
    assert main(["local", "model-event", "MODEL_LOST", "main.ml.delays", *where]) == 1


def test_without_a_deployment_nothing_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "links", "--home", str(tmp_path)]) == 1
    assert "no deployment runs in" in capsys.readouterr().err
    assert main(["local", "links", "--nonsense"]) == 2
