//! An older sidecar: the program that `cargo test` makes, which says that it is of a lower revision (S37).

/// The variable of the environment that says which revision.
pub const OLDER_VARIABLE: &str = "LEASEHOLD_TEST_REVISION";

/// The revision that the environment names, if it names one.
///
/// # Panics
/// If it names no number.
#[must_use]
pub fn older_revision() -> Option<u32> {
    let text = std::env::var_os(OLDER_VARIABLE)?;
    let number = text.to_str().and_then(|text| text.parse().ok());
    Some(number.unwrap_or_else(|| panic!("{OLDER_VARIABLE}: no number: {}", text.display())))
}
