#!/bin/sh
# A newcomer in Rust: the crate by its path in an empty package, and the first program of the README. newcomer/rust.sh FOLDER
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../../.." && pwd)
cd -- "$1"
cat >Cargo.toml <<TOML
[package]
name = "newcomer"
edition = "2024"

[dependencies]
leasehold-client = { path = "$root/clients/rust" }
tokio = { version = "1", features = ["macros", "rt"] }
TOML
# The same versions, so that what was built for the tests need not be built again.
cp "$root/Cargo.lock" .
mkdir -p src
awk '/^```/ { if (code) exit; code = /rust/; next } code' "$root/clients/rust/README.md" >src/main.rs
CARGO_TARGET_DIR="$root/target/newcomer" exec cargo run --quiet
