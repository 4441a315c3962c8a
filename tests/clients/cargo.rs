//! Builds of their own that tests start.

use std::ffi::OsString;

/// Says to a driver's script that its program is there (`prepare` let it build it). Cargo would else wait for
/// other builds, longer than a test waits for what must happen at all.
pub(crate) const DRIVER_IS_BUILT: &str = "LEASEHOLD_TEST_DRIVER_IS_BUILT";

/// The variables that would let a build of its own take this test's package for its own.
pub(crate) fn cargos_variables() -> Vec<OsString> {
    let names = std::env::vars_os().map(|(name, _)| name);
    names
        .filter(|name| {
            let text = name.to_string_lossy();
            let is_cargos =
                text.starts_with("CARGO_") || text == "OUT_DIR" || text == "RUSTC_BOOTSTRAP";
            is_cargos && text != "CARGO_HOME" && text != "CARGO_TARGET_DIR"
        })
        .collect()
}
