#!/bin/sh
# Removes what the make targets made, and nothing else. Packages that set-up installed by apt stay.
set -eu

# What `make demo KEEP=1` left running has its files in .demo.
if [ -e .demo/processes.json ] && [ -x .venv/bin/python ]; then
    .venv/bin/python -m demo stop || echo "make clean: the kept demo could not be stopped; removing its files" >&2
fi

rm -rf .venv .cache .demo build dist \
    .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
find . -path ./.git -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
