//! Names of the blobs that are kept beside the locks, and are none.

use sha2::{Digest as _, Sha256};

use super::{break_note, documents};
use crate::lock::LockPath;
use crate::store::StoreError;

/// The folders of a container in which no lock may be.
const FOLDERS: [&str; 2] = [break_note::FOLDER, documents::PLANS];
/// Bytes and segments that Azure allows a blob's name.
const MAX_NAME: usize = 1_024;
const MAX_SEGMENTS: usize = 254;

/// Whether a blob is in one of the folders, so that it is no lock.
pub(super) fn is_beside(name: &str) -> bool {
    FOLDERS.iter().any(|folder| name.starts_with(folder))
}

/// In these folders no lock can be: it would not be listed.
pub(super) fn check_name(path: &LockPath) -> Result<(), StoreError> {
    if is_beside(path.name()) {
        return Err(StoreError::Fatal {
            advice: "choose another prefix for the locks".to_owned(),
            source: format!("names that begin with {} are not for locks", FOLDERS.join(" or "))
                .into(),
        });
    }
    Ok(())
}

/// The name of what is kept in `folder` for the lock `name`: the same below the folder, or its hash where
/// that would be too long.
pub(super) fn name_in(folder: &str, name: &str) -> String {
    let fits = folder.len() + name.len() <= MAX_NAME && name.split('/').count() < MAX_SEGMENTS;
    if fits {
        return format!("{folder}{name}");
    }
    let digest = Sha256::digest(name.as_bytes());
    digest.iter().fold(format!("{folder}~"), |text, byte| format!("{text}{byte:02x}"))
}

/// The name of the lock for which a blob is kept in `folder`, unless that is its hash.
pub(super) fn lock_of<'name>(folder: &str, blob: &'name str) -> Option<&'name str> {
    blob.strip_prefix(folder).filter(|name| name_in(folder, name) == blob && !is_hash(name))
}

/// Whether the name below a folder is the hash of a longer one.
fn is_hash(name: &str) -> bool {
    let digest = name.strip_prefix('~').unwrap_or_default();
    digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::lock::Container;

    #[test]
    fn every_lock_has_names_of_its_own_in_each_folder_that_fit() {
        let names =
            ["h/f".to_owned(), "x".repeat(1_024), "y".repeat(1_024), "s/".repeat(253) + "s"];
        let beside: BTreeSet<String> =
            names.iter().flat_map(|name| FOLDERS.map(|folder| name_in(folder, name))).collect();
        assert_eq!(beside.len(), names.len() * FOLDERS.len());
        for name in &beside {
            assert!(is_beside(name) && name.len() <= MAX_NAME, "{name}");
            assert!(name.split('/').count() <= MAX_SEGMENTS, "{name}");
        }
        let of = |name: &str| {
            lock_of(documents::PLANS, &name_in(documents::PLANS, name)).map(str::to_owned)
        };
        assert_eq!(names.map(|name| of(&name)), [Some("h/f".to_owned()), None, None, None]);
    }

    #[test]
    fn no_lock_is_in_these_folders() {
        let container = Container::parse("locks").unwrap();
        for folder in FOLDERS {
            let path = LockPath::from_parts(&container, &format!("{folder}h/f"));
            assert!(matches!(check_name(&path), Err(StoreError::Fatal { .. })), "{path}");
            assert!(!is_beside(folder.trim_end_matches('/')));
        }
    }
}
