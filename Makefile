SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help environment setup repro micro test lint bench

PYTHON ?= python3.11
# Everything after `setup` works without the network. A corpus of the Hugging Face hub needs it:
# make repro HF_HUB_OFFLINE=0
HF_HUB_OFFLINE ?= 1
PYTEST_ARGS ?=

export HF_HUB_OFFLINE
export HF_DATASETS_OFFLINE := $(HF_HUB_OFFLINE)
export HF_EVALUATE_OFFLINE := 1
export DVC_NO_ANALYTICS := 1
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export SIZE REPORT FORCE

help: ## Show this
	@grep -hE '^[a-z]+:.* ## ' $(MAKEFILE_LIST) | sed -E 's/:.* ## /\t/' | expand -t 12

environment:
	@command -v '$(PYTHON)' >/dev/null || { echo "error: no $(PYTHON) found; install Python 3.11 or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@'$(PYTHON)' scripts/environment.py

setup: environment ## Build .venv from requirements.lock and download the pinned texts; all later work is offline
	@tiebench fetch

repro: setup ## Reproduce params.yaml as it is; SIZE=base composes that size first, REPORT=small takes a committed report
	@scripts/repro

micro: setup ## Run the whole pipeline at its smallest, in a temporary copy
	@scripts/micro

test: setup ## Run the tests; PYTEST_ARGS="-k coupling" for some of them
	@OMP_NUM_THREADS=1 TIEBENCH_THREADS=1 pytest -n 2 --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

lint: environment ## Check style, types and spelling
	@ruff check . && ruff format --check . && mypy && codespell

bench: setup ## Measure speed, memory and start-up against peers and budgets, side by side; ends with a table
	@rm -f benchmarks/results.json
	@for script in benchmarks/*.py; do echo "$$script"; python "$$script"; done
	@python benchmarks/support/results.py
