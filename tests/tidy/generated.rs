//! Generated code that is checked in is what the generator makes now.

use std::path::Path;
use std::process::Command;

use crate::root;

/// Set to write the generated code instead of comparing it: `make proto` does.
const WRITE: &str = "LEASEHOLD_WRITE_GENERATED";

#[test]
fn rust_client_stubs_are_fresh() {
    let checked_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/rust/gen/leasehold.v1.rs");
    let made = std::fs::read_to_string(concat!(env!("OUT_DIR"), "/client/leasehold.v1.rs"))
        .expect("build.rs makes the client's stubs");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&checked_in, &made).expect("the stubs can be written");
    }
    let present = std::fs::read_to_string(&checked_in).unwrap_or_default();
    assert!(
        present == made,
        "{} is not what proto/ gives now: run `make proto`, which is `{WRITE}=1 cargo test --test tidy generated`",
        checked_in.display()
    );
}

#[test]
fn enums_and_constants_of_the_clients_are_fresh() {
    let looked = Command::new(root().join("clients/generate")).arg("--check").output().unwrap();
    assert!(looked.status.success(), "{}", String::from_utf8_lossy(&looked.stderr));
}
