//! The names of locks, for a shell that completes them: quick, and silent where there is nothing to say.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_client::{ListLocks, LocksUnder};

use super::connection::EndpointArgs;
use super::exit::Exit;
use super::output;

/// Whoever types waits for this.
const PATIENCE: Duration = Duration::from_secs(1);

/// Prints functions that have locks; with a slash in what they begin with, lock paths.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What they begin with.
    #[arg(value_name = "TEXT", default_value = "")]
    begin: String,
    #[command(flatten)]
    endpoint: EndpointArgs,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    // A shell has no place for errors while somebody types.
    if let Ok(Ok(names)) = tokio::time::timeout(PATIENCE, names(&args)).await {
        for name in names {
            output::print(&name)?;
        }
    }
    Ok(Exit::Success)
}

async fn names(args: &Args) -> anyhow::Result<BTreeSet<String>> {
    let client = args.endpoint.builder()?.connect().await?;
    let page = client.list_locks(ListLocks::under(LocksUnder::OwnHostId)).await?;
    let paths = args.begin.contains('/');
    let names = page.records.into_iter().filter_map(|record| match paths {
        true => Some(record.lock_path),
        false => record.key.map(|key| key.function),
    });
    let is_plain = |name: &String| !name.is_empty() && !name.contains(char::is_whitespace);
    Ok(names.filter(|name| is_plain(name) && name.starts_with(&args.begin)).collect())
}
