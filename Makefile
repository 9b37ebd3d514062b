# The tasks of this project. `make` alone lists them.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
# Python checkers, in an environment of their own (tests/setup.sh).
CHECKERS := $(TARGET)/checkers/bin
# Arguments for `run`, `dist`, `bench`, `prove` and `orders`.
ARGS ?=

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

.PHONY: run
run: redis need-cargo ## dueq with its own Redis, built without link-time optimization; ARGS="--listen 127.0.0.1:9000"
	$(CARGO) build --profile quick --locked --bin dueq
	@exec $(TARGET)/quick/dueq serve $(ARGS)

# The profile of `run`, whose build is used again.
.PHONY: install
install: redis need-cargo ## dueq on the PATH, as ~/.cargo/bin/dueq: the build of `make run`
	$(CARGO) install --path . --locked --profile quick

.PHONY: build
build: need-cargo ## The release binary, target/release/dueq
	$(CARGO) build --release --locked

# Two tests a processor are at work at once (tests/harness/turns.rs), and more may wait. The parts run one after the other, for
# many tests measure time: side by side they took as long together, and some failed.
test test-all: export RUST_TEST_THREADS ?= $(shell echo $$((8 * $$(nproc))))
parts = +@$(MAKE) --no-print-directory --keep-going --jobs 1 $(addprefix part-,$(1))

# What `make test` runs: the tests that want nothing but Redis, and ten scenarios of the proof.
TESTS := --lib --bins --test source --test contract --test push --test command --test faults --test sdk
SCENARIOS := instance_killed client_gone redis_killed redis_paused connections_cut scripts_flushed answers_lost memory_full failover \
  cluster_killed

.PHONY: test
test: ahead = redis checkers
test: languages = python
test: redis shell checkers ahead tidy clippy ## What every commit runs: lint, unit, contract, command, push, ten scenarios of the proof, an SDK
	$(CARGO) test --locked --no-run $(TESTS)
	$(call parts,units contract command push scenarios sdk)

# Where clippy compiles everything anyway (.ci/run), it is not asked once more.
.PHONY: test-all
test-all: redis shell checkers ahead tidy $(if $(RUSTC_WORKSPACE_WRAPPER),,clippy) ## Everything, as CI runs it: browsers, other engines, SQS clients, all faults and SDKs
	$(CARGO) test --locked --no-run --all-targets
	@tests/setup.sh
	$(call parts,units doc contract command push faults tools engines simulation outside)

.PHONY: part-contract part-command part-push part-faults
part-contract part-command part-push part-faults: part-%:
	@$(CARGO) test --locked --no-fail-fast --test $*

.PHONY: part-outside part-doc part-units part-simulation part-scenarios part-tools part-calls part-engines part-sdk part-sdks
part-units:
	@$(CARGO) test --locked --no-fail-fast --lib --bins --test source

part-simulation:
	@$(CARGO) test --locked --bench simulate

part-scenarios:
	@$(CARGO) test --locked --test faults -- --exact $(addprefix proof::scenarios::short::,$(SCENARIOS))

# Browsers, nginx, Prometheus, helm, clients of SQS: each test starts several processes.
part-tools:
	@$(CARGO) test --locked --no-fail-fast --test contract --test command -- --ignored --test-threads 2

# Calls that take half a minute, and the measurement of their memory, which wants a process for itself.
part-calls:
	@$(CARGO) test --locked --test push -- --ignored --skip caller::call_memory
	@$(CARGO) test --locked --test push -- --ignored caller::call_memory

part-engines:
	@tests/engines.sh slice

# What mostly waits for others, side by side; each prints when it has ended.
part-outside:
	+@$(MAKE) --no-print-directory --keep-going --output-sync=target --jobs 2 part-sdks part-calls

part-doc: doc

part-sdk:
	@tests/sdk/all.sh --smoke

part-sdks:
	@tests/sdk/all.sh --present

# A head start, beside the compiler, for what comes by the network and for the SDKs; whoever needs them waits for them.
.PHONY: ahead
ahead:
	@{ tests/setup.sh $(ahead) && tests/sdk/all.sh --build $(languages); } > $(TARGET)/ahead.log 2>&1 &

.PHONY: sdks
sdks: ## Builds the SDKs into target/sdks/dist: a wheel, an npm tarball, a Go module, a jar
	@for language in python typescript go java; do openapi/sdks/$$language/build.sh; done
	@ls $(TARGET)/sdks/dist

.PHONY: test-sdks
test-sdks: setup ## The SDKs in all four languages, other generators, NestJS, Spring Boot; part of it is in `make test-all`
	@tests/sdk/all.sh

.PHONY: bench-sdks
bench-sdks: redis sdks ## The workers in a table; ARGS="python go"
	$(CARGO) bench --locked --bench sdks -- $(ARGS)

# The seeded bugs are a feature of a separate debug build, which is copied to where only `prove` looks for it.
.PHONY: prove
prove: setup ## The long proof, two hours or more: faults, a million messages, seeded bugs; ARGS="storm faults"
	$(CARGO) build --locked --features seeded-bugs
	mkdir -p $(TARGET)/seeded
	cp $(TARGET)/debug/dueq $(TARGET)/seeded/dueq
	PROPTEST_CASES=2000 $(CARGO) test --locked --lib --quiet fuzz
	PROPTEST_CASES=2000 $(CARGO) test --locked --lib --quiet -p dueq-fuzz
	DUEQ_SEEDED_BINARY="$(abspath $(TARGET))/seeded/dueq" $(CARGO) bench --locked --bench prove -- $(ARGS)

.PHONY: lint
lint: tidy clippy doc ## Formatting, clippy, rustdoc, Dockerfile, compose and workflow files, dependencies

.PHONY: doc
doc: need-cargo
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --lib --bins --examples --no-deps --locked --quiet --all-features

.PHONY: clippy
clippy: need-cargo
	$(CARGO) clippy --workspace --all-targets --all-features --locked -- -D warnings

# What `lint` checks without the compiler.
.PHONY: tidy
tidy: need-cargo checkers
	$(CARGO) fmt --check
	$(CHECKERS)/openapi-spec-validator openapi/openapi.json openapi/openapi-3.0.json
	$(CHECKERS)/hadolint docker/Dockerfile
	$(CHECKERS)/check-jsonschema --builtin-schema vendor.compose-spec docker/compose.yaml docker/compose.cluster.yaml
	$(CHECKERS)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/release.yml
	$(CHECKERS)/python tests/deny.py

.PHONY: dist
dist: need-cargo ## A release in target/dist: tarball, Debian package, bill of materials, checksums; ARGS=x86_64-unknown-linux-musl
	@docker/dist.sh $(ARGS)

.PHONY: bench
bench: redis need-cargo ## dueq beside wrk, beanstalkd, lmstfy and itself, in a table; ARGS="rates memory" LMSTFY=/path/of/lmstfy-server
	@$(CARGO) bench --locked --bench bench -- $(ARGS)

.PHONY: simulate
simulate: need-cargo ## What a Cluster of a hundred primaries would do, in tables
	@$(CARGO) bench --locked --bench simulate

.PHONY: openapi
openapi: need-cargo ## Writes openapi/openapi.json and openapi-3.0.json from the code
	$(CARGO) run --locked --quiet -- openapi > $(TARGET)/openapi.json
	$(CARGO) run --locked --quiet -- openapi --openapi-version 3.0 > $(TARGET)/openapi-3.0.json
	mv $(TARGET)/openapi.json $(TARGET)/openapi-3.0.json openapi/

.PHONY: orders
orders: ## 10,000 order events through a running dueq, checked; ARGS="http://127.0.0.1:8080"
	@tests/orders/run.sh $(ARGS)

.PHONY: fmt
fmt: need-cargo ## Formats the code
	$(CARGO) fmt

.PHONY: setup
setup: need-cargo ## What the tests need and the machine lacks
	@tests/setup.sh

.PHONY: redis shell checkers
redis shell checkers:
	@tests/setup.sh $@

.PHONY: clean
clean: ## Removes what was built
	$(CARGO) clean

.PHONY: need-cargo
need-cargo:
	@command -v $(CARGO) > /dev/null || { echo "dueq is built with Rust: get it from https://rustup.rs" >&2; exit 1; }
