.DEFAULT_GOAL := help
SHELL := /bin/sh
# What is installed for the tests goes into the project's own ignored folder.
TOOLS := $(CURDIR)/.tools
BUF := $(TOOLS)/node_modules/.bin/buf
CLIENTS := go java python typescript
# Tests that compute, and those that mostly wait for processes: the first run beside the others, and give way to them.
COMPUTING := fuzz model pools schedule shares simulation timetable world
WAITING := $(filter-out $(COMPUTING),$(patsubst tests/%/main.rs,%,$(wildcard tests/*/main.rs)))
EXAMPLES := job-api ordered-keys polling-consumer reliable-processing spread-listeners two-deployments

.PHONY: help
help: ## Show what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-10s %s\n", $$1, $$2 }'

.PHONY: demo
demo: ## Build, and show a lock acquired, renewed, refused to a second caller, and handed on; and a schedule, each occurrence run once
	cargo build --profile demo --locked
	sh tests/demo.sh

.PHONY: demo-checkpoint
demo-checkpoint: tools ## Build, and show a checkpoint passed on between jobs in Python and Go when the lock is broken
	cargo build --profile demo --locked
	clients/python/prepare
	cd clients/go && go build -o .tools/samples/ ./samples/checkpoint
	sh tests/demo-checkpoint.sh

# Rooms of the library that compute and wait for nothing.
PURE := hold:: host_id:: lock:: pool:: schedule:: sharing:: time:: timetable::

.PHONY: quick
quick: tools ## Before each commit: formats, lints of the library, its rooms that only compute, tidy, 500 schedules
	cargo fmt --all --check
	cargo clippy --lib --locked -- -D warnings
	cargo test --lib --locked -- $(PURE)
	cargo test --test tidy --locked
	LEASEHOLD_TEST_SIMULATION_SCHEDULES=500 cargo test --test simulation --locked -- --exact s1_s4_s5_s6_s12_s13_hold_whatever_happens

.PHONY: test
test: tools lint ## Run everything that has to pass, installing what it needs into .tools
	$(MAKE) --no-print-directory --jobs 2 clients built
	$(MAKE) --no-print-directory unit
	$(MAKE) --no-print-directory --jobs 2 examples released

.PHONY: test-system
test-system: tools ## Run only what needs servers, a browser, containers or root, which `make test` runs, too
	cargo test --locked --test page
	$(MAKE) --no-print-directory --jobs 1 examples chart packages

NIGHTLY := simulate fuzz storms storm counters schedules soak mutants reproducible dist debootstrap upgrade
.PHONY: nightly
nightly: ## Run the long forms, one after the other
	for part in $(NIGHTLY); do $(MAKE) --no-print-directory $$part || exit 1; done

# While the examples wait for their servers and jobs.
.PHONY: released
released:
	$(MAKE) --no-print-directory --jobs 1 chart packages docs

# The tests' programs, while something else is checked.
.PHONY: built
built:
	nice -n 19 cargo test --workspace --locked --no-run

.PHONY: lint
lint: tools deny ## Check formats and lints, and the dependencies
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	$(BUF) lint proto
	$(BUF) breaking proto --against tests/proto/second-step.json
	sh tests/tools/check-workflows.sh
	for script in .ci/run tests/demo.sh tests/demo-checkpoint.sh tests/chart/run tests/chart/demonstrate tests/tools/*.sh tests/clients/newcomer/*.sh \
		packaging/program packaging/linux/*.sh tests/dist/run tests/dist/upgrade; do \
		sh -n $$script || exit 1; done

.PHONY: unit
unit: tools ## Run all tests
	cargo test --workspace --locked --no-run
	$(MAKE) --no-print-directory --jobs 2 computing waiting

# After the tests, what the next steps need compiled.
.PHONY: computing
computing:
	nice -n 19 cargo test --locked $(COMPUTING:%=--test %)
	nice -n 19 packaging/program >$(TOOLS)/program

.PHONY: waiting
waiting:
	cargo test --workspace --locked --lib --bins $(WAITING:%=--test %)
	cargo test --workspace --locked --doc

.PHONY: clients
clients: ## Check the client of each other language: formats, lints, types, generated code, package, unit tests
	for client in $(CLIENTS); do echo "clients/$$client"; clients/$$client/check || exit 1; done

.PHONY: client-rust
client-rust: ## Check the Rust client alone, as on a machine that the sidecar is not for
	clients/rust/check

.PHONY: examples
examples: tools ## Check the examples, and kill what they start by a seed; LONG=--long for the long form
	for example in $(EXAMPLES); do echo "examples/$$example"; examples/$$example/check || exit 1; done
	cargo build --locked
	printf '%s\n' $(EXAMPLES) | LEASEHOLD_PROGRAM=$(CURDIR)/target/debug/leasehold xargs -P 2 -I NAME sh -c \
		'examples/NAME/chaos $(LONG) >$(TOOLS)/NAME.log 2>&1; status=$$?; echo examples/NAME; cat $(TOOLS)/NAME.log; exit $$status'

.PHONY: chart
chart: tools ## Test the image and the chart, and run the pods of two releases for real
	sh tests/tools/install-podman.sh
	tests/chart/run

# After `chart`, whose image has the program already.
.PHONY: packages
packages: ## Build all packages, and install and use each as its users would; PROFILE=demo builds quickly
	LEASEHOLD_PROFILE=$(or $(PROFILE),release) tests/dist/run

.PHONY: dist
dist: ## Build all packages into dist/, with SHA256SUMS and bills of materials; PARTS='linux wheel', PROFILE=demo
	LEASEHOLD_PROFILE=$(or $(PROFILE),release) packaging/dist $(PARTS)

.PHONY: notes
notes: ## Print what CHANGELOG.md says of this version, if TAG=v1.2.3 is its tag
	packaging/notes $(TAG)

.PHONY: assets
assets: ## Put what `make dist` has built into the flat folder assets/, as a release shows it; FROM='dist-a dist-b', of several machines
	packaging/assets $(FROM)

# These need credentials, as packaging/publish says; .github/workflows/release.yml has them.
.PHONY: publish-image publish-chart publish-crate publish-npm publish-maven
publish-image: ## Push the image of assets/ to REGISTRY=registry.example/name
	packaging/publish image $(REGISTRY)

publish-chart: ## Push the chart of assets/ to REGISTRY=registry.example/name
	packaging/publish chart $(REGISTRY)

publish-crate: ## Publish the Rust client
	cargo publish --package leasehold-client --locked

publish-npm: ## Publish the npm packages of assets/
	packaging/publish npm

publish-maven: ## Publish the Java client of assets/
	packaging/publish maven

.PHONY: debootstrap
debootstrap: ## Install the .deb of dist/ in a fresh Debian, and have a lock held there; needs to be root
	tests/dist/run --debootstrap

.PHONY: reproducible
reproducible: ## Build all packages twice, from two folders, and compare every byte; PROFILE=demo builds quickly
	LEASEHOLD_PROFILE=$(or $(PROFILE),release) tests/dist/run --reproducible

.PHONY: upgrade
upgrade: tools ## Build the version before, and run it beside this one on one store; FROM=commit
	tests/dist/upgrade $(FROM)

.PHONY: simulate
simulate: ## Run 1,000,000 schedules of the machines, 20,000 of the second world, 2,000 of it with schedules, 100,000 of pools, 1,000 of each kind of shares, explore, and throttle thousands of holds; SCHEDULES=N, WORLD=N, WITH_SCHEDULES=N, POOLS=N, SHARES=N, STATES=N
	LEASEHOLD_TEST_SIMULATION_SCHEDULES=$(or $(SCHEDULES),1000000) \
		LEASEHOLD_TEST_SIMULATION_STATES=$(or $(STATES),2000000) \
		cargo test --release --locked --test simulation -- --nocapture
	LEASEHOLD_TEST_WORLD_SCHEDULES=$(or $(WORLD),20000) \
		LEASEHOLD_TEST_WORLD_WITH_SCHEDULES=$(or $(WITH_SCHEDULES),2000) \
		cargo test --release --locked --test world -- --nocapture
	LEASEHOLD_TEST_POOLS_SCHEDULES=$(or $(POOLS),100000) \
		LEASEHOLD_TEST_POOLS_STATES=$(or $(STATES),2000000) \
		cargo test --release --locked --test pools -- --nocapture
	LEASEHOLD_TEST_SHARES_SEEDS=$(or $(SHARES),1000) cargo test --release --locked --test shares -- --nocapture
	cargo test --release --locked --lib -- --ignored --nocapture coordinator::tests::throttling

.PHONY: fuzz
fuzz: ## Run each fuzz target with 1,000,000 inputs; CASES=N
	LEASEHOLD_TEST_FUZZ_CASES=$(or $(CASES),1000000) cargo test --release --locked --test fuzz

.PHONY: mutants
mutants: ## Plant a bug in every line of lock and hold, and see which no test finds; FILES='hold/held.rs hold/late.rs', DIFF=main, JOBS=2
	test -x $(TOOLS)/bin/cargo-mutants || cargo install cargo-mutants --version 27.1.0 --locked --root $(TOOLS)
	sh tests/tools/mutants.sh
	$(if $(DIFF),git diff $(DIFF) -- src >$(TOOLS)/mutants.diff)
	rm -rf $(TOOLS)/mutants.out
	$(MUTANTS) --cargo-arg=--lib || test $$? -le 3
	$(MUTANTS) --iterate --cargo-arg=--test=simulation -- -- s1_s4_s5_s6 s3_ s5_tokens s10_ s12_ what_was_found || test $$? -eq 3

# First by the modules' own tests, then, for what they do not find, by the simulator. 2: some are missed; 3: some ran into a
# time limit, which finds them.
MUTANTS = cd $(TOOLS)/mutants && LEASEHOLD_TEST_SIMULATION_SCHEDULES=$(or $(SCHEDULES),1000) ../bin/cargo-mutants mutants \
	--config ../../.cargo/mutants.toml --output .. $(foreach file,$(or $(FILES),lock/** hold/**),--file 'src/$(file)') --jobs $(or $(JOBS),1) \
	$(if $(DIFF),--in-diff ../mutants.diff)

.PHONY: storm
storm: tools ## Run an hour of faults against real processes; MINUTES=N, SEED=N
	LEASEHOLD_TEST_STORM_MINUTES=$(or $(MINUTES),60) LEASEHOLD_TEST_STORM_SEED=$(or $(SEED),1) \
		cargo test --release --workspace --locked --test faults -- --nocapture storm

.PHONY: storms
storms: tools ## Run short storms until the model has accepted 100 traces of locks, eight of each; COUNT=N, SEED=N
	LEASEHOLD_TEST_STORM_COUNT=$(or $(COUNT),13) LEASEHOLD_TEST_STORM_SEED=$(or $(SEED),1) \
		cargo test --workspace --locked --test faults -- --nocapture storm

.PHONY: counters
counters: tools ## Count through checkpoints in every language, under 500 kills; KILLS=N, SEED=N
	LEASEHOLD_TEST_COUNTERS_KILLS=$(or $(KILLS),500) LEASEHOLD_TEST_STORM_SEED=$(or $(SEED),1) \
		cargo test --workspace --locked --test faults -- --nocapture counters

.PHONY: schedules
schedules: tools ## Run 20 schedules in three replicas for ten minutes of faults against real processes; MINUTES=N, SEED=N
	LEASEHOLD_TEST_SCHEDULES_MINUTES=$(or $(MINUTES),10) LEASEHOLD_TEST_STORM_SEED=$(or $(SEED),1) \
		cargo test --workspace --locked --test faults -- --nocapture schedules::

.PHONY: soak
soak: ## Put an hour of load on a sidecar; MINUTES=N
	cargo run --release --locked -- bench --clients 2000 --locks 1000 --hold 10s --duration $(or $(MINUTES),60)m

.PHONY: msrv
msrv: ## Compile with the oldest Rust that Cargo.toml allows; needs rustup
	rustup toolchain install $(MSRV) --profile minimal
	cargo +$(MSRV) check --workspace --all-targets --locked

MSRV = $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

.PHONY: docs
docs: ## Build the documentation of the code, without a broken link
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked

.PHONY: bench
bench: tools ## Measure the figures of docs/performance.md
	cargo bench --locked --bench figures
	cargo bench --locked --bench clients

.PHONY: proto
proto: ## Generate the clients' stubs that are checked in from proto/ (Java's are made by its build)
	LEASEHOLD_WRITE_GENERATED=1 cargo test --test tidy generated
	for client in go python typescript; do clients/$$client/generate || exit 1; done

.PHONY: occurrences
occurrences: ## Write the occurrences that croniter finds, which tests/timetable compares with
	python3 -m venv $(TOOLS)/croniter
	$(TOOLS)/croniter/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement tests/timetable/requirements.txt
	$(TOOLS)/croniter/bin/python tests/timetable/croniter_vectors.py

.PHONY: tables
tables: ## Write the tables of docs/ that come from the code
	LEASEHOLD_TEST_UPDATE=1 cargo test --lib -- config:: telemetry::

DENY = PATH="$(TOOLS)/deny/bin:$$PATH" cargo deny --locked check --hide-inclusion-graph

.PHONY: deny
deny: ## Check licences and sources of the dependencies, and that none is there which may not be
	sh tests/tools/install-deny.sh
	$(DENY) bans licenses sources

.PHONY: advisories
advisories: ## Check the dependencies against RustSec's advisories, which are fetched from GitHub: no part of make test
	sh tests/tools/install-deny.sh
	$(DENY) advisories

.PHONY: tools
tools:
	sh tests/tools/install.sh
	sh tests/tools/install-python.sh
