# The two commands: `make demo` shows what Penstock does, `make test` checks all of it.
# Both set up a .venv in this folder first and touch nothing outside it.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test docs format clean

demo: .venv/installed
	$(BIN)/penstock demo

test: .venv/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadgroup -m 'not ray and not s3'
	$(BIN)/pytest -m 'ray or s3' tests

# The documentation site, in site/. Open site/index.html: it needs no server and no network.
docs: .venv/installed-test
	$(BIN)/python docs/build_site.py

format: .venv/installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv penstock-demo build site

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/installed-test: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@ .venv/installed
