//! From a configuration to a store and a coordinator: for `serve`, and for commands that need no sidecar.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use uuid::Uuid;

use super::exit::MisconfiguredError;
use crate::config::{Config, Store};
use crate::coordinator::{Coordinator, Host, Observer, REVISION, Settings};
use crate::grpc;
use crate::host_id::{HostIdProvider as _, HostIdentity};
use crate::lock::Layout;
use crate::scheduler::Scheduler;
use crate::store::azure::{AzureSettings, AzureStore};
use crate::store::{LeaseStore, MemoryStore, SqliteStore};
use crate::time::{BootClock, Clock};

/// A scheduler and its coordinator that run, with what it was made from.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) scheduler: Scheduler,
    pub(crate) limits: grpc::Limits,
}

/// How long a release that is under way in the background may take when a command ends.
const LAST_RELEASES: Duration = Duration::from_secs(5);

impl Engine {
    /// Starts on the current runtime, with `store` and what `observer` observes.
    pub(crate) fn start(
        config: &Config,
        identity: HostIdentity,
        store: Arc<dyn LeaseStore>,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let provider = &config.host_id.provider;
        let settings = Settings {
            host: Host {
                namespace: config.paths.clone(),
                host_id: identity.host_id,
                host_type: identity.host_type,
                provider: identity.provider,
                allow_override: config.host_id.allow_override,
                host_id_of: provider.host_id_of(),
            },
            hold: crate::hold::Settings {
                poll_cap: config.locks.poll_cap,
                hand_off: config.locks.hand_off,
            },
            lease_duration: config.locks.lease_duration,
            max_hold_default: config.locks.max_hold_default,
            holder: config.locks.holder.clone(),
            sidecar: sidecar_name(&config.locks.holder),
            max_holds: config.limits.holds,
            max_waiters: config.limits.waiters,
            max_resumes: config.limits.resumes,
            remembered_locks: config.limits.remembered_locks,
            followed_bytes: config.limits.followed_bytes,
            starts_per_second: config.limits.starts_per_second,
            allow_break: config.admin.allow_break,
            allow_schedule_changes: config.admin.allow_schedule_changes,
            revision: revision(),
            function_instance: config.paths.layout == Layout::WebJobs,
        };
        let limits = grpc::Limits {
            max_hold_ceiling: config.locks.max_hold_ceiling,
            max_hold_default: config.locks.max_hold_default,
            wait_ceiling: config.locks.wait_ceiling,
            store: config.store.kind(),
            hand_over: config.drain.hand_over,
        };
        let locks = Coordinator::new(store, clock, observer, settings);
        Self { scheduler: Scheduler::new(locks), limits }
    }

    /// A client of this engine, through the whole service, without a socket.
    pub(crate) fn client(&self) -> leasehold_client::Client {
        leasehold_client::Client::over(grpc::pipes(self.scheduler.clone(), self.limits))
    }

    /// Lets the releases end that are under way (S6).
    pub(crate) async fn close(self) {
        self.scheduler.coordinator().drain(LAST_RELEASES).await;
    }
}

/// The revision of this program (S37). One that `cargo test` makes can be told to be older.
fn revision() -> u32 {
    #[cfg(feature = "testing")]
    if let Some(older) = crate::testing::older_revision() {
        return older;
    }
    REVISION
}

/// The clock of the process. There is one only, so that what a store's dates show reaches every reader (S3).
pub(crate) fn clock() -> Arc<dyn Clock> {
    #[cfg(feature = "testing")]
    if let Some(clock) = crate::testing::MovedClock::of_environment() {
        return Arc::new(clock);
    }
    let clock = BootClock::new();
    if !clock.is_the_kernels() {
        tracing::warn!(
            "the kernel does not tell how far this process's time namespace shifts the boot clock \
             (/proc/self/timens_offsets): callers and other sidecars of this machine count as those of another (S21)"
        );
    }
    Arc::new(clock)
}

/// Asks the configured provider for the host id.
pub(crate) fn identify(config: &Config) -> anyhow::Result<HostIdentity> {
    config.host_id.provider.provide().context("the host id is not known")
}

/// Opens the configured store. Azure is not asked anything yet (S18).
pub(crate) fn open_store(
    config: &Config,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Arc<dyn LeaseStore>> {
    Ok(open_named_store(config, clock)?.store)
}

/// A store that was opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn LeaseStore>,
    /// Where it is, for people.
    pub(crate) place: String,
    /// The same store, if it is Azure's, for what no other kind can be asked.
    pub(crate) account: Option<Arc<AzureStore>>,
    /// The same store, if it is the embedded one.
    pub(crate) embedded: Option<Arc<SqliteStore>>,
}

/// Opens the configured store, and says for people where it is.
pub(crate) fn open_named_store(config: &Config, clock: &Arc<dyn Clock>) -> anyhow::Result<Opened> {
    match &config.store {
        Store::Embedded { path, max_locks, .. } => {
            make_folder_of(path)?;
            let most = u64::try_from(*max_locks).ok();
            let store = SqliteStore::open_limited(path, Arc::clone(clock), most)
                .with_context(|| format!("cannot open the embedded store {}", path.display()))?;
            let place = format!("the file {}, for this machine only", path.display());
            let store = Arc::new(store);
            Ok(Opened {
                store: Arc::clone(&store) as _,
                place,
                account: None,
                embedded: Some(store),
            })
        }
        Store::Azure(azure) => {
            let store = Arc::new(open_azure(azure, clock)?);
            let place = format!("Azure Blob Storage at {}", store.host());
            Ok(Opened {
                store: Arc::clone(&store) as _,
                place,
                account: Some(store),
                embedded: None,
            })
        }
        Store::Memory => {
            let store = MemoryStore::new(Arc::clone(clock));
            let place = "memory: locks end with this process".to_owned();
            Ok(Opened { store: Arc::new(store), place, account: None, embedded: None })
        }
    }
}

/// Azure's store, for what no other kind can be asked.
pub(crate) fn open_azure(
    azure: &AzureSettings,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<AzureStore> {
    AzureStore::new(azure, Arc::clone(clock))
        .context("cannot use the Azure store as it is configured")
}

/// The folder of the embedded store, for this user only: who can read leases can release them.
fn make_folder_of(file: &Path) -> anyhow::Result<()> {
    let Some(folder) = file.parent() else { return Ok(()) };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|source| {
        let folder = folder.display();
        let advice = if source.kind() == ErrorKind::ReadOnlyFilesystem {
            "the file system is read-only: mount a volume that can be written there, or set store.embedded.path to a file on one"
        } else {
            "create it, or set store.embedded.path to a file that this user can write"
        };
        let problem = format!("cannot create the folder {folder} of the embedded store: {source}; {advice}");
        MisconfiguredError(problem).into()
    })
}

/// The name of this process in records: that of its pod or host, and what no other process has (S34).
fn sidecar_name(holder: &str) -> Arc<str> {
    let (number, _) = Uuid::new_v4().as_u64_pair();
    format!("{holder}#{:06x}", number >> 40).into()
}
