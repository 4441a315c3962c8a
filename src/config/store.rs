//! The section `store`: which store keeps the locks. What concerns Azure is in `azure/`.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::azure;
use super::setting::{Key, settings};
use super::value::Choice;
use super::values::Values;
use crate::lock::Namespace;
use crate::store::azure::AzureSettings;
use crate::text::Quoted;

/// Which store keeps the locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// One file on this machine, which several processes may share. The default.
    Embedded {
        /// The file: absolute. Default: `leasehold/locks.db` in the user's state folder.
        path: PathBuf,
        /// Whether callers of other machines may come in. Default: false.
        remote_callers: bool,
        /// The greatest number of locks and schedules in the file. Default: 10,000.
        max_locks: usize,
    },
    /// Azure Blob Storage.
    Azure(Box<AzureSettings>),
    /// This process's memory: locks exclude nobody outside it, and are gone when it ends.
    Memory,
}

impl Store {
    /// The kind, as `store.kind` names it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        let kind = match self {
            Self::Embedded { .. } => Kind::Embedded,
            Self::Azure(_) => Kind::Azure,
            Self::Memory => Kind::Memory,
        };
        kind.word()
    }
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
         things out: it excludes no other process).",
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
        "The file of the embedded store: an absolute path. The file and its folder are created if they do not exist.",
    );
    REMOTE_CALLERS: bool = Key::new(
        "store.embedded.remote_callers",
        "false",
        "Whether `listen.tcp` may be an address that other machines reach. Callers there outlive this machine and its \
         disk, so the file must be preserved for as long as a lock of theirs may be valid.",
    );
    MAX_LOCKS: usize = Key::<usize>::new(
        "store.embedded.max_locks",
        "10000",
        "The greatest number of locks and schedules in the file. For each the file takes 4 KiB of the disk beside what it \
         needs, so that a full disk does not end a hold. When nine tenths are there, locks are deleted that nobody has \
         held for a day, or else for an hour, and that have neither a checkpoint nor a schedule.",
    ).within(1, 1_000_000);
}

/// S1: a file dies with its machine, and callers of another machine do not.
pub(super) fn check_callers(values: &mut Values<'_>, store: &Store, tcp: Option<SocketAddr>) {
    let Store::Embedded { remote_callers: false, .. } = store else { return };
    let Some(address) = tcp.filter(|address| !address.ip().is_loopback()) else { return };
    values.conflict(
        "listen.tcp",
        format!(
            "listen.tcp = {address} can be reached from other machines, and the embedded store is a file of this one: when \
             the machine or its disk is lost, so are the locks, while those of callers elsewhere may still be valid; let \
             callers connect by loopback or listen.unix, keep the locks in Azure (store.kind = \"azure\"), or confirm that \
             the file is always preserved (store.embedded.remote_callers = true)"
        ),
    );
}

/// A signature for one container lets in to no other.
pub(super) fn check_container(values: &mut Values<'_>, store: &Store, paths: Option<&Namespace>) {
    let Store::Azure(azure) = store else { return };
    let Some((signed, paths)) = azure.credential.container().zip(paths) else { return };
    let own = paths.container.as_str();
    if signed != own {
        let signed = Quoted(&signed);
        values.conflict(
            "paths.container",
            format!(
                "the shared access signature of store.azure.sas_url is for the container {signed}, and paths.container is \
                 {own:?}: set paths.container to the former, or create a signature for the latter"
            ),
        );
    }
}

pub(super) fn read(values: &mut Values<'_>) -> Option<Store> {
    if values.is_mistaken(KIND.setting.key) {
        return None;
    }
    let kind = values.value(&KIND);
    let word = kind.word();
    if kind != Kind::Embedded {
        let why =
            format!("is for the store embedded, and store.kind is {word}: remove one of them");
        let keys = [PATH.setting.key, REMOTE_CALLERS.setting.key, MAX_LOCKS.setting.key];
        values.refuse_unread(&KIND.setting, &keys, &why);
    }
    if kind != Kind::Azure {
        let why = format!(
            "is for the store azure, and store.kind is {word}: set store.kind = \"azure\", or remove it"
        );
        let keys: Vec<&str> = azure::SETTINGS.iter().map(|setting| setting.key).collect();
        values.refuse_unread(&KIND.setting, &keys, &why);
    }
    match kind {
        Kind::Memory => Some(Store::Memory),
        Kind::Azure => azure::read(values).map(|azure| Store::Azure(Box::new(azure))),
        Kind::Embedded => {
            let reason =
                "neither XDG_STATE_HOME nor HOME is set, and the embedded store needs a place";
            let path = values.require(&PATH, reason)?;
            if !path.is_absolute() {
                let shown = Some(path.display().to_string());
                values.bad(PATH.setting.key, shown, "must be an absolute path".to_owned());
            }
            let remote_callers = values.get(&REMOTE_CALLERS)?;
            Some(Store::Embedded { path, remote_callers, max_locks: values.get(&MAX_LOCKS)? })
        }
    }
}
