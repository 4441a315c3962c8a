//! `leasehold doctor`: what keeps Leasehold from working here, and what to do about it.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use uuid::Uuid;

use super::connection::{ConfigArgs, init_quiet_logs};
use super::engine;
use super::exit::{self, Exit};
use super::output::{self, OutputArgs};
use crate::config::Config;
use crate::lock::{Fields, HostId, LeaseId, LockPath};
use crate::store::{
    Acquire, LeaseStore, List, MAX_LEASE_DURATION, MIN_LEASE_DURATION, StoreError, Write,
};
use crate::time::{Clock, UnixMillis};

/// Checks the configuration, the host id, and with a lock of its own the store: whether it can be reached and lets us
/// in, every permission that is needed, how long it takes, and how far its clock is from this machine's.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// What was found.
#[derive(Debug, Default, Serialize)]
struct Findings {
    healthy: bool,
    checks: Vec<Check>,
    #[serde(skip)]
    exit: Option<Exit>,
}

#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    /// `ok`, `warning` or `failed`.
    result: &'static str,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

/// The host id of the probe lock.
const PROBE_HOST: &str = "leasehold-doctor";
/// How many requests the latency is the median of.
const SAMPLES: usize = 5;
/// A request that takes longer makes renewals late.
const SLOW: Duration = Duration::from_secs(1);
/// Shared keys are refused when the clocks differ by 15 minutes; a warning comes long before.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(60);
/// No check takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let config = args.config.load()?;
    init_quiet_logs(&config)?;
    let mut findings = Findings::default();
    findings.ok("configuration", "valid");
    findings.look_at_host(&config);
    if let Err(exit) = findings.look_at_store(&config).await {
        findings.exit.get_or_insert(exit);
    }
    findings.healthy = findings.exit.is_none();
    output::result(args.output.output, || findings.text(), &findings)?;
    Ok(findings.exit.unwrap_or(Exit::Success))
}

impl Findings {
    fn add(&mut self, check: Check) {
        self.checks.push(check);
    }

    fn ok(&mut self, check: &'static str, detail: &str) {
        self.add(Check { check, result: "ok", detail: detail.to_owned(), advice: None });
    }

    fn warn(&mut self, check: &'static str, detail: String, advice: impl Display) {
        let advice = Some(advice.to_string());
        self.add(Check { check, result: "warning", detail, advice });
    }

    fn fail(&mut self, check: &'static str, error: &StoreError) -> Exit {
        let detail = error.chain();
        let advice = Some(advice(error).to_owned());
        self.add(Check { check, result: "failed", detail, advice });
        exit::of_store(error)
    }

    fn look_at_host(&mut self, config: &Config) {
        match engine::identify(config) {
            Ok(identity) => {
                let detail = format!(
                    "{} from {} (host type {}); locks are under {}/{}",
                    identity.host_id,
                    identity.provider,
                    identity.host_type,
                    config.paths.container,
                    config.paths.host_prefix(&identity.host_id)
                );
                self.ok("host id", &detail);
                for warning in identity.warnings {
                    let advice =
                        "set host_id.host_type to the name of this kind of host, and nothing else";
                    self.warn("host id", warning.to_string(), advice);
                }
            }
            Err(error) => {
                self.exit.get_or_insert_with(|| exit::of_error(&error));
                self.add(Check {
                    check: "host id",
                    result: "failed",
                    detail: format!("{error:#}"),
                    advice: Some("correct the settings of host_id.provider".to_owned()),
                });
            }
        }
    }

    /// Ends at the first thing that makes the following senseless.
    async fn look_at_store(&mut self, config: &Config) -> Result<(), Exit> {
        let clock = engine::clock();
        let (store, place) = match engine::open_named_store(config, &clock) {
            Ok(store) => store,
            Err(error) => {
                self.add(Check {
                    check: "store",
                    result: "failed",
                    detail: format!("{error:#}"),
                    advice: Some(
                        "correct the settings of store, or the place they name".to_owned(),
                    ),
                });
                return Err(exit::of_error(&error));
            }
        };
        let container = &config.paths.container;
        match within(store.check(container)).await {
            Ok(time) => {
                self.ok("store", &format!("{place} answers and lets us in"));
                self.compare_clocks(time, clock.wall());
            }
            Err(error) => return Err(self.fail("store", &error)),
        }
        self.measure(store.as_ref(), clock.as_ref(), config).await?;
        self.try_permissions(&store, config).await
    }

    fn compare_clocks(&mut self, store: UnixMillis, wall: UnixMillis) {
        let (ahead, behind) = (store.saturating_since(wall), wall.saturating_since(store));
        let difference = ahead.max(behind);
        let which = if ahead > behind { "ahead of" } else { "behind" };
        let rounded = humantime::format_duration(Duration::from_secs(difference.as_secs()));
        if difference < CLOCK_DIFFERENCE {
            self.ok("clocks", &format!("the store's differs from this machine's by {rounded}"));
        } else {
            let detail = format!("the store's is {rounded} {which} this machine's");
            self.warn("clocks", detail, "let this machine set its time by the network (NTP)");
        }
    }

    async fn measure(
        &mut self,
        store: &dyn LeaseStore,
        clock: &dyn Clock,
        config: &Config,
    ) -> Result<(), Exit> {
        let mut times = Vec::with_capacity(SAMPLES);
        for _ in 0..SAMPLES {
            let before = clock.now();
            if let Err(error) = within(store.check(&config.paths.container)).await {
                return Err(self.fail("latency", &error));
            }
            times.push(clock.now().saturating_since(before));
        }
        times.sort_unstable();
        let median = times.get(SAMPLES / 2).copied().unwrap_or_default();
        let detail =
            format!("{:.1} ms a request (median of {SAMPLES})", median.as_secs_f64() * 1e3);
        if median < SLOW {
            self.ok("latency", &detail);
        } else {
            self.warn("latency", detail, "use a storage account in this region");
        }
        Ok(())
    }

    /// Does with a lock of its own what is done with every lock.
    async fn try_permissions(
        &mut self,
        store: &Arc<dyn LeaseStore>,
        config: &Config,
    ) -> Result<(), Exit> {
        let Ok(host_id) = HostId::parse(PROBE_HOST) else { return Ok(()) };
        let prefix = config.paths.host_prefix(&host_id);
        let name = format!("{prefix}{}", Uuid::new_v4());
        let path = LockPath::from_parts(&config.paths.container, &name);
        let lease_id = LeaseId::from_uuid(Uuid::new_v4());
        let duration = MIN_LEASE_DURATION.min(MAX_LEASE_DURATION);
        let request = Acquire { lease_id, duration, if_match: None };
        let made = self.step("create and lease", within(store.acquire(&path, request)).await)?;
        let fields = Fields::from([("leasehold_doctor".to_owned(), "1".to_owned())]);
        let write = Write { lease_id, if_match: Some(made.etag), fields };
        let written = within(store.write_record(&path, write)).await;
        let etag = self.step("write metadata", written).map(|written| written.etag);
        let read = within(store.read_record(&path)).await;
        let read = self.step("read metadata", read).map(drop);
        let renewed = within(store.renew(&path, lease_id)).await;
        let renewed = self.step("renew", renewed).map(drop);
        let list = List {
            container: config.paths.container.clone(),
            prefix,
            continuation: None,
            limit: 1,
        };
        let listed = self.step("list", within(store.list(list)).await).map(drop);
        let released = within(store.release(&path, lease_id, None)).await;
        let released = self.step("release", released);
        let deleted = match etag {
            Ok(etag) => self.step("delete", within(store.delete(&path, etag)).await),
            Err(exit) => Err(exit),
        };
        read.and(renewed).and(listed).and(released).and(deleted)
    }

    fn step<T>(&mut self, check: &'static str, done: Result<T, StoreError>) -> Result<T, Exit> {
        match done {
            Ok(done) => {
                self.ok(check, "allowed");
                Ok(done)
            }
            Err(error) => Err(self.fail(check, &error)),
        }
    }

    fn text(&self) -> String {
        let mut lines = Vec::new();
        for check in &self.checks {
            let mark = match check.result {
                "ok" => "ok     ",
                "warning" => "WARNING",
                _ => "FAILED ",
            };
            lines.push(format!("{mark}  {}: {}", check.check, check.detail));
            if let Some(advice) = &check.advice {
                lines.push(format!("         do: {advice}"));
            }
        }
        lines.join("\n")
    }
}

async fn within<T>(asked: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| {
        let source = format!("no answer within {}", humantime::format_duration(PATIENCE)).into();
        Err(StoreError::Unavailable { sent: true, source })
    })
}

/// What to do, beside what the error says itself.
const fn advice(error: &StoreError) -> &'static str {
    match error {
        StoreError::Denied { .. } => {
            "give the identity the role Storage Blob Data Contributor on the container, or correct the key, the \
             connection string or the SAS (docs/azure.md)"
        }
        StoreError::ContainerMissing { .. } => {
            "make the container, or set store.azure.create_container = true and let the identity make it"
        }
        StoreError::Unavailable { .. } => {
            "check the endpoint's name, DNS, the network and the account's firewall from this machine"
        }
        StoreError::Throttled { .. } => {
            "ask again later; if it stays so, use an account with less traffic"
        }
        StoreError::Fatal { .. } => "put right what the message names",
        StoreError::Contended
        | StoreError::LeaseLost { .. }
        | StoreError::Changed
        | StoreError::NotFound
        | StoreError::NotHeld => {
            "somebody else wrote to the lock of this check; look at what else uses this prefix, and run it again"
        }
    }
}
