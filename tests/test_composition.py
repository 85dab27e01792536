"""What each service of docker-compose.yaml is given: T45."""

from __future__ import annotations

from pathlib import Path

import yaml

from scripts.lock import faults, requirements

COMPOSITION = yaml.safe_load(Path(__file__).parent.with_name("docker-compose.yaml").read_text())


def mounts(service: str) -> list[str]:
    return [str(one) for one in COMPOSITION["services"][service]["volumes"]]


def test_where_notebooks_run_there_are_no_secrets_of_airflow() -> None:
    assert [one for one in mounts("local") if one.startswith("secrets:")] == []
    script = (Path(__file__).parent.with_name("docker") / "postgres.sh").read_text()
    assert [line for line in script.splitlines() if "/login/" in line and line.startswith("cp ")] == [
        "cp admin /login/admin"
    ]
    assert all(
        "PASSWORD" not in name and "SECRET" not in name for name in COMPOSITION["services"]["local"]["environment"]
    )


def test_the_one_that_asks_the_workspaces_alone_mounts_nothing() -> None:
    assert mounts("external") == []


def test_only_the_one_that_makes_the_secrets_writes_them() -> None:
    writers = [name for name in COMPOSITION["services"] if "secrets:/secrets" in mounts(name)]
    assert writers == ["postgres"]


def test_everything_that_the_image_installs_is_checked_against_a_hash() -> None:
    docker = Path(__file__).parent.with_name("docker")
    text = (docker / "requirements.txt").read_text()
    assert faults(text) == []
    assert {pin.split("==")[0] for pin in requirements(text)} == {"asyncpg", "psycopg2-binary"}
    # Our own package is the one that comes from the folder, with nothing else.
    installs = [line for line in (docker / "Dockerfile").read_text().splitlines() if "pip install" in line]
    assert [line for line in installs if "--require-hashes" not in line and "--no-deps" not in line] == []
    assert sum("--require-hashes" in line for line in installs) == 2
