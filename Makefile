# One command sets up a fresh machine (any target makes the environment first), one tests it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SITE   := .venv-site
MKDOCS  = NO_MKDOCS_2_WARNING=1 $(SITE)/bin/python -m mkdocs
IMAGE  ?= milligpu:dev
EXAMPLE ?=
ARCHIVE ?=

.PHONY: help setup demo check test test-long e2e e2e-long e2e-certs e2e-helm e2e-kill e2e-upgrade cluster cluster-down fuzz bench placement soak burst image sbom manifests proto site site-serve lock clean

help: ## show this
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

setup: $(VENV)/.ready ## make the Python environment (every other target does so by itself)

$(VENV)/.ready: requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("milligpu needs Python 3.11 or newer; this is %s. Try make PYTHON=python3.13" % sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@echo "making the Python environment in $(VENV) (first time: about a minute)"
	@$(PYTHON) -m venv $(VENV) || { echo "the venv module is missing; on Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --disable-pip-version-check --progress-bar on --quiet --require-hashes -r requirements-dev.lock
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation -e .
	@touch $@

demo: setup ## see a share go the whole way: no cluster, no GPU, no root (EXAMPLE=my.yaml takes your own file)
	@$(BIN)/milligpu demo $(EXAMPLE)

check: setup ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check ## the tests that need neither root nor a node, the real kube-apiserver included
	$(BIN)/python -m tests.cluster.tools etcd kube-apiserver kubectl helm helm3 kustomize
	$(BIN)/pytest -m 'not node and not long'

test-long: setup ## the rest of them, in ten minutes or so: repairs of certificates, the plugin's life, a thousand nodes, upgrades
	$(BIN)/python -m tests.cluster.tools etcd kube-apiserver kubectl helm helm3 kustomize
	$(BIN)/pytest -m 'long and not node'

# No cache: a file of root's in the checkout would break the user's next `make test`.
e2e: setup ## as root: a complete one-node cluster, the real image, real pods; cleans up after itself
	$(BIN)/python -m tests.cluster.setup
	$(BIN)/pytest -m 'node and not long' -p no:cacheprovider tests/cluster

e2e-long: setup ## as root: all that takes minutes on that cluster, an hour or so: renewals, kills, the plugin's life, who holds what, symptoms
	$(BIN)/python -m tests.cluster.setup
	$(BIN)/pytest -m 'node and long' -p no:cacheprovider tests/cluster

e2e-certs: setup ## as root: certificates renewed ten times under load on that cluster, and mended when damaged; prints figures
	$(BIN)/python -m tests.cluster.setup
	$(BIN)/pytest -s -m node -p no:cacheprovider tests/cluster/test_node_renewal.py

e2e-helm: setup ## as root: milligpu installed, changed and taken away by Helm 3 and 4 on that cluster
	$(BIN)/python -m tests.cluster.setup
	$(BIN)/pytest -m node -p no:cacheprovider tests/cluster/helm_on_a_node.py

e2e-kill: setup ## as root: each part of that cluster killed while slots change hands, and all at once; who holds what; prints figures
	$(BIN)/python -m tests.cluster.setup
	$(BIN)/pytest -s -m node -p no:cacheprovider tests/cluster/test_node_kills.py

e2e-upgrade: setup ## as root: from an earlier state and back on that cluster, by kubectl and by Helm, with shares running; prints figures
	$(BIN)/python -m tests.cluster.setup
	$(BIN)/pytest -s -m node -p no:cacheprovider tests/cluster/upgrade_on_a_node.py

cluster: setup ## as root: the same cluster, left running to play with
	$(BIN)/python -m tests.cluster up

cluster-down: setup ## as root: end it
	$(BIN)/python -m tests.cluster down

fuzz: setup ## 100,000 reviews before a second opinion, in some minutes (REVIEWS=1000 SEED=1)
	$(BIN)/python -m tests.fuzz $(if $(REVIEWS),--reviews $(REVIEWS)) $(if $(SEED),--seed $(SEED))

bench: setup ## print speeds beside their floors
	$(BIN)/python -m bench

placement: setup ## simulate clusters under each policy, and write docs/explanation/placement.md anew (QUICK=1: only look)
	$(BIN)/python -m bench.placement $(if $(QUICK),--quick)

soak: setup ## as root: the tests of endurance at their full length, an hour or so; prints figures
	$(BIN)/python -m tests.cluster.setup
	SOAK=1 $(BIN)/pytest -s -p no:cacheprovider tests/integration/test_plugin_life.py $(addprefix tests/cluster/test_node_,life.py whole.py holes.py)
	$(BIN)/python -m tests.cluster.fifty

burst: setup ## print how long 500 pods with a share take, created at once on a real API server
	$(BIN)/python -m tests.cluster.tools etcd kube-apiserver kubectl
	$(BIN)/python -m tests.cluster.burst

image: ## build the container image with docker, podman or buildah: make image IMAGE=registry.example/milligpu:1
	./deploy/build-image.sh $(IMAGE)

sbom: setup ## list what is in a saved image: make sbom ARCHIVE=milligpu.tar writes milligpu.cdx.json
	$(BIN)/python -m tests.cluster.sbom $(ARCHIVE)

manifests: setup ## render deploy/webhook.yaml from deploy/chart
	$(BIN)/python -m tests.chart

proto: setup ## regenerate the gRPC code
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --grpc_python_out=. --plugin=protoc-gen-mypy=$(BIN)/protoc-gen-mypy --mypy_out=. --plugin=protoc-gen-mypy_grpc=$(BIN)/protoc-gen-mypy_grpc --mypy_grpc_out=only_async:. plugin/v1*/*.proto

site: $(SITE)/.ready ## build the documentation's pages into build/site; a broken link fails
	$(MKDOCS) build --config-file website/mkdocs.yml
	@echo "open build/site/index.html"

site-serve: $(SITE)/.ready ## show them at 127.0.0.1:8000, and build anew what changes
	$(MKDOCS) serve --config-file website/mkdocs.yml --no-strict --livereload --watch website

$(SITE)/.ready: requirements-site.lock
	@echo "making the site's Python environment in $(SITE) (first time: half a minute)"
	@$(PYTHON) -m venv $(SITE)
	@$(SITE)/bin/python -m pip install --disable-pip-version-check --quiet --require-hashes -r $<
	@touch $@

lock: setup ## choose versions anew
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --all-extras pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --all-extras --group dev -c requirements.lock pyproject.toml -o requirements-dev.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --group site -c requirements-dev.lock -o requirements-site.lock

clean: ## remove what this folder's targets made (not the caches outside it)
	rm -rf $(VENV) $(SITE) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage
