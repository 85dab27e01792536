"""What each service of docker-compose.yaml is given: T45."""

from __future__ import annotations

from pathlib import Path

import yaml

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


def test_only_the_one_that_makes_the_secrets_writes_them() -> None:
    writers = [name for name in COMPOSITION["services"] if "secrets:/secrets" in mounts(name)]
    assert writers == ["postgres"]
