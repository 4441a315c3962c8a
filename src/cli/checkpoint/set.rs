//! `leasehold checkpoint set`: replace a checkpoint, under the lock.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use leasehold_client::{LeaseSpec, Outcome};
use serde::Serialize;
use tokio::sync::mpsc::unbounded_channel;

use crate::cli::acquire_retry::{ask, link, not_asked};
use crate::cli::connection::ConnectionArgs;
use crate::cli::exit::{Exit, UsageError};
use crate::cli::output::{self, OutputArgs};
use crate::cli::record;
use crate::cli::release::LEASE_ID_VARIABLE;
use crate::cli::retry::{Patience, Wait};
use crate::cli::run::checkpoint::{LONGEST, check_size, read};
use crate::cli::spec::KeyArgs;

/// Replaces the checkpoint of a lock, such as `leasehold checkpoint set -f import --value 'page 7'`. Acquires
/// the lock, saves, and releases it. Without a lock's name it saves under the hold of the variable
/// LEASEHOLD_LEASE_ID, for the command of `run` and for scripts that use `acquire`.
///
/// At most 2,048 bytes. Not for secrets: anybody who may read locks can read it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What the lock is for; the same as --function.
    #[arg(value_name = "FUNCTION", conflicts_with = "function")]
    name: Option<String>,
    #[command(flatten)]
    key: KeyArgs,
    /// The value, as text. Default: standard input.
    #[arg(long, value_name = "TEXT", conflicts_with = "file", allow_hyphen_values = true)]
    value: Option<String>,
    /// The file of the value; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// How long to wait while the lock is busy, or `forever`.
    #[arg(long, value_name = "DURATION", default_value = "0s", allow_hyphen_values = true)]
    wait: Wait,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct Saved {
    version: u64,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let key = args.key.named(args.name);
    let lease_id = lease_id(&key)?;
    let value = match (args.value, args.file.as_deref()) {
        (Some(text), _) => text.into_bytes(),
        (None, Some(path)) if path != Path::new("-") => read(path)?
            .ok_or_else(|| UsageError(format!("--file: {} does not exist", path.display())))?,
        (None, _) => read_stdin()?,
    };
    check_size(&value)?;
    let mut patience = Patience::new(args.wait);
    let link = link(&args.connection, &mut patience).await?;
    let version = match lease_id {
        Some(lease_id) => Some(link.client.save_checkpoint(lease_id, value).await?),
        None => {
            let spec = LeaseSpec::from(key.key()?).with_lease_duration(SHORT);
            let (sender, _events) = unbounded_channel();
            match ask(&link, spec, sender, &mut patience).await? {
                Outcome::Granted(guard) => {
                    guard.release_with_checkpoint(value).await?.checkpoint_version
                }
                Outcome::Busy(busy) => {
                    output::note(&format!("{}; waited {}", record::busy_text(&busy), args.wait));
                    return Ok(Exit::Busy);
                }
                Outcome::AlreadyDone(_) | Outcome::Skipped { .. } => return Err(not_asked()),
            }
        }
    };
    link.close().await;
    let version = version.unwrap_or_default();
    let text = || format!("saved as version {version}");
    output::result(args.output.output, text, &Saved { version })?;
    Ok(Exit::Success)
}

/// The lock is needed for a moment only; should this process die in it, it is available soon.
const SHORT: Duration = Duration::from_secs(15);

/// The hold to save under; `None` where a lock is named.
fn lease_id(key: &KeyArgs) -> Result<Option<String>, UsageError> {
    if key.is_given() {
        return Ok(None);
    }
    let lease_id = std::env::var(LEASE_ID_VARIABLE).ok().filter(|text| !text.is_empty());
    lease_id.map(Some).ok_or_else(|| {
        UsageError(format!(
            "no lock is named: give --function, --scope or both, or set {LEASE_ID_VARIABLE} to save under the hold that \
             it names"
        ))
    })
}

/// What standard input has, and no more of it than tells that it is too large.
fn read_stdin() -> anyhow::Result<Vec<u8>> {
    let mut value = Vec::new();
    let limit = LONGEST as u64 + 1;
    std::io::stdin().take(limit).read_to_end(&mut value).context("cannot read standard input")?;
    Ok(value)
}
