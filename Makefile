# Needs Python 3.11 or newer with pip, and make. Every target sets up what it uses, in .venv.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
PYTEST := $(BIN)/pytest $(ARGS)

.PHONY: help venv chromium promtool check format test test-all test-slow test-broad test-worker test-rest test-project test-django proof proof-long pgbouncer demo bench bench-peers docs site dist clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: .venv/.dev ## make .venv with everything for work on Holdfast

check: .venv/.dev .venv/.site ## style, types, layers and sizes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(BIN)/python tools/check_size.py

format: .venv/.dev ## fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: .venv/.dev ## the tests, in a few minutes, with nothing but pip; ARGS= goes to pytest
	@$(MAKE) $(ABREAST) MARKS="not thorough and not extended and not proof"

test-all: .venv/.dev .venv/.site chromium pgbouncer promtool ## every test, also those that take longer or need a browser, PgBouncer or promtool
	@$(MAKE) $(ABREAST) MARKS="not proof"

# The browser's own packages come from the system: Playwright's downloads are for other systems than Debian.
chromium:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { \
		apt-get update --quiet=2 && DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes chromium >/dev/null; }

# Side by side, each with a Postgres of its own: most of their time they wait, for disks, processes and clocks.
PARTS := slow broad worker rest project
ABREAST := --no-print-directory -j$(words $(PARTS)) --output-sync=line $(PARTS:%=test-%)
SLOW := tests/acceptance tests/docs tests/browser tests/site tests/release
BROAD := tests/conformance tests/web tests/cli
test-slow: .venv/.dev
	$(PYTEST) -m "$(MARKS)" $(SLOW)

test-broad: .venv/.dev
	$(PYTEST) -m "$(MARKS)" $(BROAD)

test-worker: .venv/.dev
	$(PYTEST) -m "$(MARKS)" tests/worker

test-rest: .venv/.dev
	$(PYTEST) -m "$(MARKS)" tests $(SLOW:%=--ignore=%) $(BROAD:%=--ignore=%) --ignore=tests/worker --ignore=tests/django

# A process has one Django project: these tests have one of their own.
test-project: .venv/.dev
	$(PYTEST) -m "$(MARKS)" tests/django

test-django: .venv/.dev ## the Django tests, and Django's own of its tasks framework, with each Django and Python that it supports; ARGS= goes to pytest
	$(BIN)/python tools/test_django.py $(ARGS)

proof: .venv/.dev chromium pgbouncer ## try to break every promise, in ten minutes; ends in a table
	$(BIN)/python -m tools.proof $(ARGS)

proof-long: .venv/.dev chromium pgbouncer ## the same with new random seeds and a load test, for about MINUTES=120
	$(BIN)/python -m tools.proof --minutes $(or $(MINUTES),120) $(ARGS)

pgbouncer:
	@test -x /usr/sbin/pgbouncer || { \
		apt-get update --quiet=2 && DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes pgbouncer >/dev/null; }

promtool:
	@command -v promtool >/dev/null || { \
		apt-get update --quiet=2 && DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends prometheus >/dev/null; }

demo: .venv/.core ## 2,000 jobs on one SQLite file, with a worker that is killed; SERVE=1 serves a dashboard of a studio at work
ifdef SERVE
	$(PIP) --editable '.[web]'
	$(BIN)/python -m examples.studio
else
	$(BIN)/holdfast demo
endif

bench: .venv/.dev ## figures of both stores beside bare loops, against the goals; ARGS="--quick --only …" goes to it
	$(BIN)/python -m benchmarks run $(ARGS)

bench-peers: .venv/.dev ## other queues beside Holdfast, installed into .venv-peers, with a kill test of each
	$(BIN)/python -m benchmarks peers $(ARGS)

docs: .venv/.dev ## run every code block of the documentation
	$(PYTEST) tests/docs

site: .venv/.site ## the documentation as a site that works offline, in build/site
	$(BIN)/python -m tools.website

dist: .venv/.dev ## the sdist and the wheel, in dist
	rm -rf dist
	$(BIN)/python -m build --outdir dist .

clean: ## remove what the other targets made
	rm -rf .venv .venv-peers .venv-django-* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find src tests tools examples -name __pycache__ -type d -exec rm -rf {} +

.venv/.core: pyproject.toml | .venv/bin/python
	$(PIP) --editable .
	@touch $@

.venv/.dev: pyproject.toml | .venv/bin/python
	$(PIP) 'pip>=25.1'
	$(PIP) --editable '.[all]' --group dev
	@touch $@ .venv/.core

.venv/.site: pyproject.toml | .venv/.dev
	$(PIP) --group site
	@touch $@

# Some distributions ship venv without ensurepip; then pip comes from the system's own.
.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; none was found on PATH" >&2; exit 1; }
	$(PYTHON) -m venv .venv || { rm -rf .venv && $(PYTHON) -m venv --without-pip .venv && \
		$(PYTHON) -m pip --python .venv/bin/python install --quiet pip; } || { rm -rf .venv; exit 1; }
