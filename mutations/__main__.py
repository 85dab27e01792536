"""`python -m mutations [NAME ...]`: breaks one sentence of the rules after the other, and says which test noticed.

Each `*.patch` here begins with the sentence that it breaks and the tests that are to notice. The package is copied, patched
and tested there; the work tree is not touched. Names, or beginnings of names, pick some of them; so does `ONLY=NAME`. Exit
code 1 when a patch survives, no longer applies, or its tests fail without it. What no patch can express is listed with the
reason (`not_in_code.txt`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
PACKAGE = ROOT / "provider" / "databricks_bridge"
WORKERS = 2
LONGEST_TEST_SECONDS = 120
_FAILED = re.compile(r"^FAILED (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Mutation:
    """A patch, the sentence it breaks, and the tests (pytest's arguments) that must notice."""

    path: Path
    sentence: str
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path.stem


@dataclass(frozen=True)
class Outcome:
    """`caught_by` is the first test that failed; `trouble` says why there is no answer; with neither, it survived."""

    caught_by: str = ""
    trouble: str = ""

    def __str__(self) -> str:
        return f"caught by {self.caught_by}" if self.caught_by else self.trouble or "SURVIVED"


def read(path: Path) -> Mutation:
    """A patch with its header. Raises ValueError for one that does not say what it breaks and who is to notice."""
    head = path.read_text().partition("--- a/")[0]
    fields = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
    try:
        return Mutation(path, fields["Sentence"], tuple(fields["Tests"].split()))
    except KeyError as missing:
        raise ValueError(f"{path.name} has no line {missing} in its header") from None


@contextmanager
def copied() -> Iterator[Path]:
    """A folder with a copy of the package, to be put before it on the path."""
    with tempfile.TemporaryDirectory(prefix="databricks-bridge-mutation-") as home:
        shutil.copytree(PACKAGE, Path(home) / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
        yield Path(home)


def apply(mutation: Mutation, home: Path, *options: str) -> str:
    """Patch the copy (with `--check`, only see whether it could be); what went wrong, empty where nothing did."""
    done = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", *options, str(mutation.path)],
        # A copy below a repository would be taken for a part of it, and nothing would be applied.
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(home.parent)},
        cwd=home,
        capture_output=True,
        text=True,
    )
    return "" if done.returncode == 0 else f"DOES NOT APPLY: {done.stderr.strip().splitlines()[-1]}"


def run_tests(tests: Sequence[str], home: Path, *options: str) -> tuple[list[str], str]:
    """The tests on the copy in `home` that failed; and why there is no answer, empty where there is one."""
    done = subprocess.run(
        [
            *(sys.executable, "-B", "-m", "pytest", "-q", "--tb=no", "--no-header", "-p", "no:cacheprovider"),
            *("--timeout", str(LONGEST_TEST_SECONDS), *options, *tests),
        ],
        env={**os.environ, "PYTHONPATH": str(home), "HYPOTHESIS_STORAGE_DIRECTORY": str(home / "hypothesis")},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    failed = _FAILED.findall(done.stdout)
    if done.returncode == 0 or (done.returncode == 1 and failed):
        return failed, ""
    last = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()][-1:]
    return [], f"NO ANSWER: pytest ended with {done.returncode}: {''.join(last)}"


def play(mutation: Mutation, broken: Sequence[str] = ()) -> Outcome:
    """Apply it and run its tests, up to the first that fails, but for those that are `broken` without it."""
    with copied() as home:
        trouble = apply(mutation, home)
        if trouble:
            return Outcome(trouble=trouble)
        failed, trouble = run_tests(mutation.tests, home, "-x", *(f"--deselect={one}" for one in broken))
        return Outcome("".join(failed[:1]), trouble)


def unchanged(mutations: Sequence[Mutation]) -> tuple[list[str], str]:
    """The tests of all these mutations that fail on the package as it is; and why there is no answer."""
    with copied() as home:
        where = [sys.executable, "-c", "import databricks_bridge; print(databricks_bridge.__file__)"]
        told = subprocess.run(where, env={**os.environ, "PYTHONPATH": str(home)}, capture_output=True, text=True).stdout
        if not told.startswith(str(home)):
            return [], f"the tests would import {told.strip()}, not the copy"
        return run_tests(sorted({one for mutation in mutations for one in mutation.tests}), home)


def main(names: Sequence[str]) -> int:
    mutations = [read(path) for path in sorted(HERE.glob("*.patch"))]
    if names:
        mutations = [one for one in mutations if one.name.startswith(tuple(names))]
    if not mutations:
        print(f"mutations: nothing is named {', '.join(names)}", file=sys.stderr)
        return 1
    broken, trouble = unchanged(mutations)
    if trouble:
        print(f"mutations: without any change: {trouble}", file=sys.stderr)
        return 1
    wrong = 0
    with ThreadPoolExecutor(WORKERS) as pool:
        outcomes = pool.map(lambda one: play(one, broken), mutations)
        for mutation, outcome in zip(mutations, outcomes, strict=True):
            print(f"{mutation.name}: {outcome}", flush=True)
            if not outcome.caught_by:
                wrong += 1
                print(f"    {mutation.sentence}", flush=True)
    if not names:
        print(f"Sentences that no patch expresses:\n{(HERE / 'not_in_code.txt').read_text()}", end="")
    for one in broken:
        print(f"fails without any change, so it was left out: {one}")
    print(f"mutations {len(mutations)}, caught {len(mutations) - wrong}, not caught {wrong}")
    return 1 if wrong or broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or os.environ.get("ONLY", "").split()))
