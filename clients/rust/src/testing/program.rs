//! Where the program `leasehold` is.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::SidecarError;

/// The environment variable that names the program to start. It is no setting of the sidecar.
pub const PROGRAM_VARIABLE: &str = "LEASEHOLD_PROGRAM";

/// The program `leasehold`: the one that `LEASEHOLD_PROGRAM` names, or else the one in `PATH`.
///
/// # Errors
/// [`SidecarError::NoProgram`] says where it was looked for, and how to install it.
pub fn find_program() -> Result<PathBuf, SidecarError> {
    find(std::env::var_os(PROGRAM_VARIABLE), std::env::var_os("PATH"))
}

fn find(named: Option<OsString>, path: Option<OsString>) -> Result<PathBuf, SidecarError> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        return match is_program(&named) {
            true => Ok(std::path::absolute(&named).unwrap_or(named)),
            false => Err(SidecarError::NoProgram(format!(
                "{PROGRAM_VARIABLE} names {}, which is not an executable file: correct it, or unset it to use PATH",
                named.display()
            ))),
        };
    }
    let path = path.unwrap_or_default();
    let mut all = std::env::split_paths(&path).map(|folder| folder.join("leasehold"));
    let found = all.find(|file| is_program(file));
    found.ok_or_else(|| {
        SidecarError::NoProgram(format!(
            "there is no program leasehold to start a sidecar with. Looked at: {PROGRAM_VARIABLE} (not set), PATH (not \
             in {}). To go on, install it (docs/install.md; `cargo install leasehold` builds it), put it into a folder \
             of PATH, or set {PROGRAM_VARIABLE} to its path",
            path.display()
        ))
    })
}

fn is_program(file: &Path) -> bool {
    let metadata = std::fs::metadata(file);
    metadata.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_or_it_is_said_where_it_was_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        let in_folder = |name: &str| folder.path().join(name);
        let path = || Some(folder.path().as_os_str().to_owned());
        let missing = find(None, path()).unwrap_err().to_string();
        let looked = format!("PATH (not in {})", folder.path().display());
        for word in [PROGRAM_VARIABLE, "cargo install leasehold", &looked] {
            assert!(missing.contains(word), "{missing}");
        }
        for name in ["leasehold", "other"] {
            std::fs::write(in_folder(name), "").unwrap();
            assert!(find(Some(in_folder(name).into()), None).is_err(), "it is not executable");
            let mode = std::fs::Permissions::from_mode(0o700);
            std::fs::set_permissions(in_folder(name), mode).unwrap();
        }
        assert_eq!(find(Some(OsString::new()), path()).unwrap(), in_folder("leasehold"));
        assert_eq!(find(Some(in_folder("other").into()), path()).unwrap(), in_folder("other"));
        let named = find(path(), path()).unwrap_err().to_string();
        assert!(named.contains("which is not an executable file"), "{named}");
    }
}
