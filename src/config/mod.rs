//! What can be set, from where, and what is wrong with it: a [`Config`] that exists is valid.
//!
//! Rules: S20 (secrets are masked everywhere, and refused as flags); defaults < file < environment < flags;
//! all mistakes at once, each with its origin. May import: lock, the providers of host_id, the bounds of
//! store, the formats of telemetry, the rules of access, text. To add a setting: a row and a field in its
//! section's file, and what it changes in `tests/effects.rs`; `make tables` writes the tables of
//! docs/configuration.md from the rows.
//!
//! From what was given to a [`Config`]:
//!
//! | file | what it does |
//! | --- | --- |
//! | `setting.rs` | a setting: one row of the table of all settings |
//! | `sources.rs` | lays flags over environment over file, and keeps where each value comes from |
//! | `value.rs` | the types of values: how each is read, written and described |
//! | `values.rs` | the merged values, as sections read them: defaults, secrets, files that settings name |
//! | `error.rs` | mistakes, and what may have been meant |
//! | `store.rs`, `azure/`, `paths.rs`, `host_id.rs`, `listen.rs`, `memory.rs`, `access.rs`, `locks.rs`, `operation.rs`, `telemetry.rs` | the sections |

mod access;
mod azure;
mod error;
mod host_id;
mod listen;
mod locks;
mod memory;
mod operation;
mod paths;
mod setting;
mod sources;
mod store;
mod telemetry;
mod value;
mod values;

#[cfg(test)]
mod tests;

pub use error::{ConfigError, Mistake, Origin};
pub use host_id::HostIdSection;
pub use listen::{Exposure, Limits, Listen, Tls, UnixSocket};
pub use locks::Locks;
pub use memory::Bytes;
pub use operation::Page;
pub use operation::{Admin, Drain, Log};
pub use setting::Setting;
pub use sources::{FileText, Flag, Sources};
pub use store::Store;
pub use values::Shown;

use crate::access::Rule;
use crate::lock::Namespace;
use crate::telemetry::TraceSettings;
use values::Values;

/// The sidecar's configuration. It is made by [`Config::load`] only, which finds every mistake first.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which store keeps the locks.
    pub store: Store,
    /// Where locks are in it (`paths`).
    pub paths: Namespace,
    /// Where the host id comes from.
    pub host_id: HostIdSection,
    /// Where callers come in, and who may.
    pub listen: Listen,
    /// Who may do what over TCP; without rules, whoever may come in may do everything.
    pub access: Vec<Rule>,
    /// How many may come in at once.
    pub limits: Limits,
    /// How long leases, holds and waits are.
    pub locks: Locks,
    /// How the sidecar shuts down.
    pub drain: Drain,
    /// What operators reach.
    pub admin: Admin,
    /// How the sidecar logs.
    pub log: Log,
    /// How traces are sent; none where they are off.
    pub traces: Option<TraceSettings>,
    /// Which variables of OpenTelemetry are not used, and why.
    pub traces_ignored: Vec<String>,
    shown: Vec<Shown>,
}

impl Config {
    /// Lays flags over environment over file over defaults, and checks everything.
    ///
    /// # Errors
    /// All mistakes that were found, each with where it was made.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let mut values = Values::new(sources);
        let config = Self::read(&mut values);
        let mistakes = values.into_mistakes();
        match config {
            Some(config) if mistakes.is_empty() => Ok(config),
            Some(_) | None => Err(ConfigError { mistakes }),
        }
    }

    /// Every section is read before the first that failed ends it, so that all mistakes are found.
    fn read(values: &mut Values<'_>) -> Option<Self> {
        let store = store::read(values);
        let paths = paths::read(values);
        let host_id = host_id::read(values);
        let access = access::read(values);
        let listen = listen::read(values, access.as_deref().unwrap_or_default());
        let limits = listen::read_limits(values);
        let locks = locks::read(values);
        let tcp = listen.as_ref().and_then(|listen| listen.tcp);
        let admin = operation::read_admin(values, tcp);
        access::check(values, access.as_deref(), listen.as_ref(), admin.as_ref());
        if let Some(store) = &store {
            store::check_callers(values, store, tcp);
            store::check_container(values, store, paths.as_ref());
        }
        let holder = locks.as_ref().map(|locks| locks.holder.as_str());
        let traces = telemetry::read(values, holder)?;
        Some(Self {
            store: store?,
            paths: paths?,
            host_id: host_id?,
            listen: listen?,
            access: access?,
            limits: limits?,
            locks: locks?,
            drain: operation::read_drain(values)?,
            admin: admin?,
            log: operation::read_log(values)?,
            traces: traces.settings,
            traces_ignored: traces.ignored,
            shown: values.shown(),
        })
    }

    /// Every setting with its value and where that comes from, secrets masked, in the table's order.
    #[must_use]
    pub fn shown(&self) -> &[Shown] {
        &self.shown
    }

    /// The configuration as TOML: defaults, secrets (S20) and what has no effect are comments, so that the
    /// rest can be used as a file.
    #[must_use]
    pub fn print(&self) -> String {
        let mut text = String::new();
        let mut section = "";
        for shown in &self.shown {
            let first = shown.key.split('.').next().unwrap_or_default();
            if !section.is_empty() && first != section {
                text.push('\n');
            }
            section = first;
            text.push_str(&line(shown));
            text.push('\n');
        }
        text
    }
}

/// A setting as a line of TOML.
fn line(shown: &Shown) -> String {
    let Shown { key, value, secret, origin, passed_over } = shown;
    match value {
        None => format!("# {key} is not set"),
        Some(_) if *secret => format!("# {key} is set, and secret  # {origin}"),
        Some(value) if *passed_over => format!("# {key} = {value}  # {origin}, without effect"),
        Some(value) if *origin == Origin::Default => format!("# {key} = {value}  # default"),
        Some(value) => format!("{key} = {value}  # {origin}"),
    }
}

/// The table of all settings, in the order of docs/configuration.md.
pub fn settings() -> impl Iterator<Item = &'static Setting> + Clone {
    [
        store::SETTINGS,
        azure::SETTINGS,
        paths::SETTINGS,
        host_id::SETTINGS,
        listen::SETTINGS,
        access::SETTINGS,
        locks::SETTINGS,
        operation::SETTINGS,
        telemetry::SETTINGS,
    ]
    .into_iter()
    .flatten()
}
