//! The section `store`: which store keeps the locks. What concerns Azure is in `azure.rs`.

use std::path::PathBuf;

use super::azure::{self, Azure};
use super::setting::{Key, settings};
use super::value::Choice;
use super::values::Values;

/// Which store keeps the locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// One file on this machine, which several processes may share. The default.
    Embedded {
        /// The file: absolute. Default: `leasehold/locks.db` in the user's state folder.
        path: PathBuf,
    },
    /// Azure Blob Storage.
    Azure(Box<Azure>),
    /// This process's memory: locks exclude nobody outside it, and are gone when it ends.
    Memory,
}

/// The stores' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Embedded,
    Azure,
    Memory,
}

impl Choice for Kind {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("embedded", Self::Embedded), ("azure", Self::Azure), ("memory", Self::Memory)];
}

settings! {
    KIND: Kind = Key::new(
        "store.kind",
        "embedded",
        "Which store keeps the locks: a file on this machine, Azure Blob Storage, or this process's memory (for trying \
         things out: it excludes nobody outside the process).",
    );
    PATH: PathBuf = Key::found(
        "store.embedded.path",
        "`$XDG_STATE_HOME/leasehold/locks.db`, else `~/.local/state/leasehold/locks.db`",
        |context| {
            if context.given(KIND.setting.key).is_some_and(|kind| kind != "embedded") {
                return None;
            }
            let home = || Some(format!("{}/.local/state", context.variable("HOME")?));
            let state = context.variable("XDG_STATE_HOME").filter(|path| path.starts_with('/'));
            Some(format!("{}/leasehold/locks.db", state.or_else(home)?))
        },
        "The file of the embedded store: absolute; it and its folder are made when they are not there.",
    );
}

pub(super) fn read(values: &mut Values<'_>) -> Option<Store> {
    if values.is_mistaken(KIND.setting.key) {
        return None;
    }
    let kind = values.value(&KIND);
    let word = kind.word();
    if kind != Kind::Embedded {
        let why =
            format!("is for the store embedded, and store.kind is {word}: take one of them out");
        values.refuse_unread(&KIND.setting, &[PATH.setting.key], &why);
    }
    if kind != Kind::Azure {
        let why = format!(
            "is for the store azure, and store.kind is {word}: set store.kind = \"azure\", or take it out"
        );
        let keys: Vec<&str> = azure::SETTINGS.iter().map(|setting| setting.key).collect();
        values.refuse_unread(&KIND.setting, &keys, &why);
    }
    match kind {
        Kind::Memory => Some(Store::Memory),
        Kind::Azure => azure::read(values).map(|azure| Store::Azure(Box::new(azure))),
        Kind::Embedded => {
            let reason = "neither XDG_STATE_HOME nor HOME says where the embedded store is kept";
            let path = values.require(&PATH, reason)?;
            if !path.is_absolute() {
                let shown = Some(path.display().to_string());
                values.bad(PATH.setting.key, shown, "must be an absolute path".to_owned());
            }
            Some(Store::Embedded { path })
        }
    }
}
