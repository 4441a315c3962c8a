.DEFAULT_GOAL := help
SHELL := /bin/sh
# What is installed for the tests goes into the project's own ignored folder.
TOOLS := $(CURDIR)/.tools
BUF := $(TOOLS)/node_modules/.bin/buf
CLIENTS := go java python typescript
EXAMPLES := job-api ordered-keys polling-consumer reliable-processing spread-listeners two-deployments
# Rooms of the library that compute and wait for nothing.
PURE := hold:: host_id:: lock:: queue:: schedule:: sharing:: time:: timetable::
# One part of a goal; what it says is shown if it fails, and its time in the table.
PART := tests/tools/part
# What only computes leaves the processor to tests that wait for something.
COMPUTE := nice -n 10
RUN := tests/tools/run
# Test programs say how long each test took; a flag of theirs that is not stable yet asks for it to be allowed.
TIMED := --config 'target."cfg(all())".runner=["env", "RUSTC_BOOTSTRAP=1"]'
TIMES := -Z unstable-options --report-time
# All of the workspace each time: cargo would else choose other features of the dependencies, and build them, and this crate, once more.
CARGO_TEST := cargo test --workspace --locked
WORLDS := $(CARGO_TEST) --profile dev --test worlds

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

.PHONY: quick
quick: ## Before each commit: formats, lints of the library, its rooms that only compute, tidy, 500 schedules
	@$(RUN) quick 2

.PHONY: quick-parts quick-formats quick-clippy quick-rooms quick-tidy quick-schedules
quick-parts: quick-formats quick-clippy quick-rooms quick-tidy quick-schedules
quick-formats:
	@$(PART) formats cargo fmt --all --check
quick-clippy:
	@$(PART) clippy cargo clippy --workspace --lib --locked -- -D warnings
quick-rooms: quick-clippy
	@$(PART) rooms $(CARGO_TEST) --lib $(TIMED) -- $(TIMES) $(PURE)
quick-tidy: tools quick-rooms
	@$(PART) tidy $(CARGO_TEST) --test tidy $(TIMED) -- $(TIMES)
quick-schedules: quick-rooms
	@LEASEHOLD_TEST_SIMULATION_SCHEDULES=500 $(PART) schedules $(WORLDS) $(TIMED) -- $(TIMES) --exact simulation::s1_s4_s5_s6_s12_s13_hold_whatever_happens

.PHONY: check
check: ## The same, and the rest of Rust: all lints, all tests but those of the clients, and what computes
	@$(RUN) check 3

.PHONY: check-parts
check-parts: rust-tests rust-worlds rust-faults rust-formats rust-waiting

.PHONY: test
test: ## Run everything that has to pass and does not touch the system, installing what it needs into .tools
	@$(RUN) test 3

.PHONY: test-parts
test-parts: rust-build client-go client-typescript client-java client-python rust-faults rust-worlds rust-clients rust-waiting \
	rust-tests rust-formats rust-deny chart-static packages-static rust-docs

# Rust. What is slowest comes first. Clippy compiles this workspace and lints it on the way, as it does under `cargo clippy`: nothing
# is compiled a second time for its lints alone. A part with a warning fails.
check-parts test-parts: export RUSTC_WORKSPACE_WRAPPER := clippy-driver
.PHONY: rust-build rust-worlds rust-formats rust-deny rust-tests rust-faults rust-clients rust-waiting rust-docs
rust-build:
	@$(PART) build $(CARGO_TEST) --no-run --lib --bins --benches --test integration --test tidy
rust-worlds: rust-build
	@$(PART) samples $(COMPUTE) cargo build --workspace --locked --examples
	@$(PART) worlds $(COMPUTE) $(WORLDS) $(TIMED) -- $(TIMES)
rust-formats: tools
	@$(PART) formats $(MAKE) --no-print-directory formats
rust-deny:
	@$(PART) deny $(MAKE) --no-print-directory deny
rust-tests: rust-build tools
	@$(PART) library $(COMPUTE) $(CARGO_TEST) --lib --bins --test tidy $(TIMED) -- $(TIMES)
rust-faults: rust-build tools
	@$(PART) faults $(CARGO_TEST) --test integration $(TIMED) -- $(TIMES) --test-threads $(FAULTS) faults::
rust-waiting: rust-build tools
	@$(PART) waiting $(CARGO_TEST) --test integration $(TIMED) -- $(TIMES) --test-threads $(WAITING) --skip faults:: --skip clients::
# Both bring load of their own, so that they come one after the other.
rust-clients: rust-faults
rust-clients: rust-build tools client-go client-java client-python client-typescript
	@$(PART) clients $(CARGO_TEST) --test integration $(TIMED) -- $(TIMES) clients::
rust-docs: rust-tests
	@$(PART) docs $(COMPUTE) $(MAKE) --no-print-directory code-docs

# So many tests at once of those that mostly wait. Those of the faults bring load of their own, and those of the clients even more.
WAITING := 6
FAULTS := 6

.PHONY: client-go client-java client-python client-typescript
client-go client-java client-python client-typescript:
	@$(PART) $@ clients/$(@:client-%=%)/check

.PHONY: chart-static packages-static
chart-static:
	@$(PART) $@ $(COMPUTE) tests/chart/run static
packages-static:
	@$(PART) $@ tests/dist/run --static

.PHONY: test-system
test-system: ## Run what needs servers, a browser and containers: says first what it installs into the system, as root
	@sh tests/tools/system.sh
	@$(RUN) system 2

.PHONY: system-parts system-page system-examples system-program system-chart system-packages
system-parts: system-program system-examples system-page system-chart system-packages
system-program:
	@$(PART) program sh -c 'packaging/program >$(TOOLS)/program'
system-page: tools
	@$(PART) page $(CARGO_TEST) --test integration $(TIMED) -- $(TIMES) --ignored page::
system-examples: tools
	@$(PART) examples $(MAKE) --no-print-directory examples
system-chart: tools system-program
	@$(PART) chart tests/chart/run pods
system-packages: system-chart
	@$(PART) packages tests/dist/run

.PHONY: nightly
nightly: ## The long forms of all of it: other systems, simulations, fuzz, storms, an hour of faults, mutants, builds compared, a fresh Debian, an upgrade
	@$(RUN) nightly 1

NIGHTLY := platforms simulate fuzz storms storm counters schedules soak mutants reproducible dist debootstrap upgrade
.PHONY: nightly-parts $(NIGHTLY:%=nightly-%)
nightly-parts: $(NIGHTLY:%=nightly-%)
$(NIGHTLY:%=nightly-%):
	@$(PART) $(@:nightly-%=%) $(MAKE) --no-print-directory $(@:nightly-%=%)

.PHONY: times
times: ## Show how long the parts of the last runs took, side by side
	@python3 tests/tools/times.py

.PHONY: lint
lint: tools deny formats ## Check formats and lints, and the dependencies
	cargo clippy --workspace --all-targets --locked -- -D warnings

.PHONY: formats
formats: tools
	cargo fmt --all --check
	$(BUF) lint proto
	$(BUF) breaking proto --against tests/proto/second-step.json
	sh tests/tools/check-workflows.sh
	for script in .ci/run tests/demo.sh tests/demo-checkpoint.sh tests/chart/run tests/chart/demonstrate tests/tools/*.sh tests/tools/part \
		tests/tools/run tests/clients/newcomer/*.sh packaging/program packaging/linux/*.sh tests/dist/run tests/dist/upgrade; do \
		sh -n $$script || exit 1; done

.PHONY: clients
clients: $(CLIENTS:%=client-%) ## Check the client of each other language: formats, lints, types, generated code, package, unit tests

.PHONY: client-rust
client-rust: ## Check the Rust client alone, as on a machine that the sidecar is not for
	clients/rust/check

.PHONY: platforms
platforms: ## Compile the Go client for the systems that this machine is not
	clients/go/check --platforms

.PHONY: examples
examples: tools ## Check the examples, and kill what they start by a seed; LONG=--long for the long form
	for example in $(EXAMPLES); do echo "examples/$$example"; examples/$$example/check || exit 1; done
	cargo build --locked
	printf '%s\n' $(EXAMPLES) | LEASEHOLD_PROGRAM=$(CURDIR)/target/debug/leasehold xargs -P 2 -I NAME sh -c \
		'examples/NAME/chaos $(LONG) >$(TOOLS)/NAME.log 2>&1; status=$$?; echo examples/NAME; cat $(TOOLS)/NAME.log; \
		[ $$status = 0 ] || tail -n 20 $(TOOLS)/NAME.log | sed "s|^|FAILED examples/NAME: |"; exit $$status'

.PHONY: chart
chart: tools ## Test the image and the chart, and run the pods of two releases for real
	sh tests/tools/system.sh containers
	tests/chart/run

# After `chart`, whose image has the program already.
.PHONY: packages
packages: ## Build all packages, and install and use each as its users would; PROFILE=demo builds quickly
	LEASEHOLD_PROFILE=$(or $(PROFILE),release) tests/dist/run

.PHONY: dist
dist: ## Build all packages into dist/, with SHA256SUMS and bills of materials; PARTS='linux wheel' keeps the rest, MACHINES=x86_64, PROFILE=demo
	LEASEHOLD_PROFILE=$(or $(PROFILE),release) packaging/dist $(MACHINES:%=--machine %) $(PARTS)

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
simulate: ## Run 1,000,000 schedules of the machines, 20,000 of the second world, 2,000 of it with schedules, 100,000 of pools, 1,000 of each kind of shares, explore, throttle thousands of holds, and run 500 schedules of seconds for an hour; SCHEDULES=N, WORLD=N, WITH_SCHEDULES=N, POOLS=N, SHARES=N, STATES=N
	LEASEHOLD_TEST_SIMULATION_SCHEDULES=$(or $(SCHEDULES),1000000) \
		LEASEHOLD_TEST_SIMULATION_STATES=$(or $(STATES),2000000) \
		$(WORLDS) -- --nocapture simulation::
	LEASEHOLD_TEST_WORLD_SCHEDULES=$(or $(WORLD),20000) \
		LEASEHOLD_TEST_WORLD_WITH_SCHEDULES=$(or $(WITH_SCHEDULES),2000) \
		$(WORLDS) -- --nocapture world::
	LEASEHOLD_TEST_POOLS_SCHEDULES=$(or $(POOLS),100000) \
		LEASEHOLD_TEST_POOLS_STATES=$(or $(STATES),2000000) \
		$(WORLDS) -- --nocapture pools::
	LEASEHOLD_TEST_SHARES_SEEDS=$(or $(SHARES),1000) $(WORLDS) -- --nocapture shares::
	cargo test --locked --lib -- --ignored --nocapture coordinator::tests::throttling
	LEASEHOLD_TEST_HOUR_MINUTES=60 cargo test --locked --lib -- --nocapture scheduler::tests::hour

.PHONY: fuzz
fuzz: ## Run each fuzz target with 1,000,000 inputs; CASES=N
	LEASEHOLD_TEST_FUZZ_CASES=$(or $(CASES),1000000) $(WORLDS) -- fuzz::

.PHONY: mutants
mutants: ## Plant a bug in every line of the pure machines, and see which no test finds; FILES='hold/held.rs hold/release.rs', DIFF=main, JOBS=2, SHARD=1/20
	test -x $(TOOLS)/bin/cargo-mutants || cargo install cargo-mutants --version 27.1.0 --locked --root $(TOOLS)
	sh tests/tools/mutants.sh
	$(if $(DIFF),git diff $(DIFF) -- src >$(TOOLS)/mutants.diff)
	rm -rf $(TOOLS)/mutants.out
	$(MUTANTS) --cargo-arg=--lib || test $$? -le 3
	$(MUTANTS) --iterate --cargo-arg=--test=worlds -- -- pools:: s1_s4_s5_s6 s3_ s5_tokens s10_ s12_ what_was_found || test $$? -eq 3

# First by the modules' own tests, then, for what they do not find, by the simulators. 2: some are missed; 3: some ran into a
# time limit, which finds them.
MUTANTS = cd $(TOOLS)/mutants && LEASEHOLD_TEST_SIMULATION_SCHEDULES=$(or $(SCHEDULES),1000) ../bin/cargo-mutants mutants \
	--config ../../.cargo/mutants.toml --output .. $(foreach file,$(or $(FILES),hold/** lock/** queue/** record/**),--file 'src/$(file)') --jobs $(or $(JOBS),1) \
	$(if $(DIFF),--in-diff ../mutants.diff) $(if $(SHARD),--shard $(SHARD))

.PHONY: storm
storm: tools ## Run an hour of faults against real processes; MINUTES=N, SEED=N
	LEASEHOLD_TEST_STORM_MINUTES=$(or $(MINUTES),60) LEASEHOLD_TEST_STORM_SEED=$(or $(SEED),1) \
		cargo test --release --workspace --locked --test integration -- --nocapture faults::storm

.PHONY: storms
storms: tools ## Run short storms until the model has accepted 100 traces of locks, eight of each; COUNT=N, SEED=N
	LEASEHOLD_TEST_STORM_COUNT=$(or $(COUNT),13) LEASEHOLD_TEST_STORM_SEED=$(or $(SEED),1) \
		cargo test --workspace --locked --test integration -- --nocapture faults::storm

.PHONY: counters
counters: tools ## Count through checkpoints in every language, under 500 kills; KILLS=N, SEED=N
	LEASEHOLD_TEST_COUNTERS_KILLS=$(or $(KILLS),500) LEASEHOLD_TEST_STORM_SEED=$(or $(SEED),1) \
		cargo test --workspace --locked --test integration -- --nocapture faults::counters

.PHONY: schedules
schedules: tools ## Run 20 schedules in three replicas for ten minutes of faults against real processes; MINUTES=N, SEED=N
	LEASEHOLD_TEST_SCHEDULES_MINUTES=$(or $(MINUTES),10) LEASEHOLD_TEST_STORM_SEED=$(or $(SEED),1) \
		cargo test --workspace --locked --test integration -- --nocapture faults::schedules::

.PHONY: soak
soak: ## Put an hour of load on a sidecar; MINUTES=N
	cargo run --release --locked -- bench --clients 2000 --locks 1000 --hold 10s --duration $(or $(MINUTES),60)m

.PHONY: msrv
msrv: ## Compile with the oldest Rust that Cargo.toml allows; needs rustup
	rustup toolchain install $(MSRV) --profile minimal
	cargo +$(MSRV) check --workspace --all-targets --locked

MSRV = $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# Not a part of make test: it installs mdBook, which takes minutes. What tests/tidy says of docs/ is.
.PHONY: docs
docs: ## Build the site of docs/ into target/site, with a search, and check its links; REF=tag, to which links out of docs/ lead
	sh tests/tools/install-mdbook.sh
	LEASEHOLD_SITE_REF=$(or $(REF),main) $(TOOLS)/mdbook/bin/mdbook build packaging/site
	packaging/site/check target/site

.PHONY: code-docs
code-docs: ## Build the documentation of the code, without a broken link, and try its examples
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked
	cargo test --workspace --locked --doc

.PHONY: bench
bench: tools ## Measure the figures of docs/performance.md, with the static program of the packages
	packaging/program >$(TOOLS)/program
	LEASEHOLD_PROGRAM=$$(cat $(TOOLS)/program) cargo bench --locked --bench figures
	cargo bench --locked --bench clients

.PHONY: proto
proto: ## Generate the clients' enums and constants, and their stubs that are checked in, from proto/ (Java's stubs are made by its build)
	clients/generate
	@# The build script writes Rust's stubs, also where the rest does not fit the new ones yet.
	LEASEHOLD_WRITE_GENERATED=1 cargo check --quiet --lib --keep-going || echo 'What does not compile yet has to follow the API.'
	for client in go python typescript; do clients/$$client/generate || exit 1; done

.PHONY: occurrences
occurrences: ## Write the occurrences that croniter and dateutil find, which tests/timetable compares with
	python3 -m venv $(TOOLS)/croniter
	$(TOOLS)/croniter/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement tests/timetable/requirements.txt
	$(TOOLS)/croniter/bin/python tests/timetable/croniter_vectors.py
	$(TOOLS)/croniter/bin/python tests/timetable/dated_vectors.py

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
