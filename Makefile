# Every target does its own set-up. Assumed on the machine: git, make, and Python 3.11 to 3.13 with venv.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo test lint lock clean bench faults soak kills mutations explore docs

export KEEP SEED ONLY SCHEDULES SPARK KILL MINUTES KILLS

PICKED_PYTHON = python="$$(sh scripts/find_python.sh)" && "$$python"
IN_VENV = . .cache/setup/env.sh && .venv/bin/python

help:
	@echo "make demo          set up, then run the main story; KEEP=1 leaves everything running"
	@echo "make test          set up, then lint, type check, layer contracts and all tests"
	@echo "make bench         set up, then measure what is promised of speed, requests and memory; ONLY=NAME for one"
	@echo "make faults        set up, then play generated schedules of faults, 20 on real Spark; SEED=n ONLY=m (or spark-m) brings one back"
	@echo "make faults KILL=1 set up, then kill -9 each process between every two steps, on real Airflow; ONLY=task:claim for one"
	@echo "make soak          set up, then 200 jobs that fire for 10 minutes: leaks, missed and double fires; MINUTES=n for another time"
	@echo "make kills         set up, then kill -9 of a busy workspace at 40 random moments; KILLS=n SEED=m"
	@echo "make mutations     set up, then break each sentence of the rules once and say which test noticed; ONLY=NAME for one"
	@echo "make explore       set up, then every interleaving of two consumers at the full bounds; ONLY=n for one line"
	@echo "make lint          set up, then ruff, mypy and import-linter only"
	@echo "make setup         set up only (PYTHON=python3.12 picks the interpreter)"
	@echo "make lock          resolve requirements.lock again; UPGRADE=1 moves every pin"
	@echo "make clean         remove what the other targets made"

setup:
	@$(PICKED_PYTHON) -B -m scripts.set_up

demo: setup
	@$(IN_VENV) -m demo

lint: setup
	@$(IN_VENV) -B -m scripts.lint

test: lint
	@$(IN_VENV) -m pytest -n 3 --no-loadscope-reorder $(PYTEST_ARGS)

lock:
	@$(PICKED_PYTHON) -B -m scripts.lock $(if $(UPGRADE),--upgrade)

clean:
	@sh scripts/clean.sh

bench: setup
	@$(IN_VENV) -m benchmarks $(ONLY)

faults: setup
	@$(IN_VENV) -m faults

soak: setup
	@$(IN_VENV) -m faults.busy.soak

kills: setup
	@$(IN_VENV) -m faults.busy.kills

mutations: setup
	@$(IN_VENV) -m mutations

explore: setup
	@$(IN_VENV) -m faults.explore

docs:
	@echo "make $@: not built yet" >&2; exit 1
