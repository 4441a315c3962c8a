//! Where this client works.

use crate::errors::Error;

/// Whether there is a clock here that counts while the machine sleeps.
///
/// # Errors
/// [`Error::Platform`] if not.
pub(crate) fn check(os: &str) -> Result<(), Error> {
    match os {
        "linux" | "android" | "macos" | "ios" => Ok(()),
        other => Err(Error::Platform { os: other.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s3_a_platform_without_a_boot_clock_is_refused_with_a_word_why() {
        check("linux").unwrap();
        check("macos").unwrap();
        let refused = check("windows").unwrap_err().to_string();
        assert!(
            refused.contains("needs Linux or macOS") && refused.contains("windows"),
            "{refused}"
        );
    }
}
