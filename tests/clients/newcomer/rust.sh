#!/bin/sh
# A newcomer in Rust: the crate by its path in an empty package, and a few lines. newcomer/rust.sh FOLDER
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
cat >src/main.rs <<'RUST'
use leasehold_client::{Client, LeaseSpec, Outcome};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::from_env().await?;
    if let Outcome::Granted(guard) = client.hold(LeaseSpec::new("nightly-report", "")).await? {
        println!("writing the report with token {}", guard.fencing_token());
        guard.release().await?;
    }
    Ok(())
}
RUST
CARGO_TARGET_DIR="$root/target/newcomer" exec cargo run --quiet
