.DEFAULT_GOAL := help
SHELL := /bin/sh
# What is installed for the tests goes into the project's own ignored folder.
TOOLS := $(CURDIR)/.tools
BUF := $(TOOLS)/node_modules/.bin/buf

.PHONY: help
help: ## Show what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-10s %s\n", $$1, $$2 }'

.PHONY: demo
demo: ## Build, and show a lock taken, renewed, refused to a second caller, and handed on
	cargo build --release --locked
	sh tests/demo.sh

.PHONY: test
test: tools lint unit docs ## Run everything that has to pass, installing what it needs into .tools

.PHONY: lint
lint: tools ## Check formats and lints
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	$(BUF) lint proto
	sh -n tests/demo.sh tests/tools/install.sh tests/tools/install-python.sh .ci/run

.PHONY: unit
unit: tools ## Run all tests
	cargo test --workspace --locked

.PHONY: simulate
simulate: ## Run 1,000,000 simulated schedules, and explore as far as memory reaches; SCHEDULES=N, STATES=N
	LEASEHOLD_SIMULATION_SCHEDULES=$(or $(SCHEDULES),1000000) \
		LEASEHOLD_SIMULATION_STATES=$(or $(STATES),2000000) \
		cargo test --release --locked --test simulation -- --nocapture

.PHONY: docs
docs: ## Build the documentation of the code, without a broken link
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked

.PHONY: bench
bench: tools ## Measure the figures of docs/performance.md
	cargo bench --locked --bench figures

.PHONY: proto
proto: ## Generate the clients' stubs from proto/
	LEASEHOLD_WRITE_GENERATED=1 cargo test --test tidy generated

.PHONY: tables
tables: ## Write the tables of docs/ that come from the code
	LEASEHOLD_TEST_UPDATE=1 cargo test --lib -- config:: telemetry::

.PHONY: deny
deny: ## Check licences and advisories of the dependencies
	command -v cargo-deny >/dev/null || cargo install cargo-deny --locked --root $(TOOLS)
	PATH="$(TOOLS)/bin:$$PATH" cargo deny check

.PHONY: tools
tools:
	sh tests/tools/install.sh
	sh tests/tools/install-python.sh
