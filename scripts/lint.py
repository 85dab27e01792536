"""`python -m scripts.lint`: every static check, all findings at once. Exit code 1 if any of them found something."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    ("lint-imports", "--no-logo"),
)


def main() -> int:
    programs = Path(sys.executable).parent
    failed = []
    for name, *arguments in CHECKS:
        title = " ".join((name, *arguments))
        print(f"lint: {title}", flush=True)
        if subprocess.run([programs / name, *arguments], stdin=subprocess.DEVNULL).returncode != 0:
            failed.append(title)
    for title in failed:
        print(f"lint: failed: {title}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
