"""The mutations themselves: each still applies, says what it breaks, and is noticed, or told when it is not."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

import pytest

from mutations.__main__ import HERE, ROOT, Mutation, Outcome, apply, copied, play, read

PATCHES = sorted(HERE.glob("*.patch"))
OPENED = "def begin() -> Step:"


@pytest.fixture(scope="module")
def copy() -> Iterator[Path]:
    with copied() as home:
        yield home


@pytest.mark.parametrize("path", PATCHES, ids=[path.stem for path in PATCHES])
def test_it_still_applies_and_its_tests_are_there(copy: Path, path: Path) -> None:
    mutation = read(path)
    assert mutation.sentence
    assert [one for one in mutation.tests if not (ROOT / one).exists()] == []
    assert apply(mutation, copy, "--check") == ""


def patch(folder: Path, old: str, new: str) -> Mutation:
    file = "databricks_bridge/core/steps.py"
    path = folder / "one.patch"
    lines = (ROOT / "provider" / file).read_text().splitlines(keepends=True)
    changed = [f"{new}\n" if line == f"{OPENED}\n" else line for line in lines]
    path.write_text("".join(unified_diff(lines, changed, f"a/{file}", f"b/{file}", n=2)).replace(OPENED, old, 1))
    return Mutation(path, "a sentence", ("tests/core/test_emission.py",))


def test_what_no_test_notices_survived(tmp_path: Path) -> None:
    assert str(play(patch(tmp_path, OPENED, f"{OPENED}  # changed"))) == "SURVIVED"


def test_what_does_not_apply_is_told(tmp_path: Path) -> None:
    assert play(patch(tmp_path, "def another() -> Step:", "")).trouble.startswith("DOES NOT APPLY")


def test_what_cannot_be_imported_is_no_catch(tmp_path: Path) -> None:
    mutation = patch(tmp_path, OPENED, "def begin( -> Step:")
    broken = play(Mutation(mutation.path, "", ("tests/core/test_protocol.py",)))
    assert (broken.caught_by, broken.trouble.split(":")[0]) == ("", "NO ANSWER")


def test_a_patch_without_its_sentence_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bare.patch"
    path.write_text("Tests: tests/core\n\n--- a/x\n+++ b/x\n")
    with pytest.raises(ValueError, match="Sentence"):
        read(path)
    assert str(Outcome()) == "SURVIVED"
