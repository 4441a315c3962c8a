//! `leasehold ls`: locks as a table.

use leasehold_client::{Client, ListLocks, LockRecord, LockState, LocksUnder};

use super::connection::ConnectionArgs;
use super::exit::Exit;
use super::output::{self, OutputArgs};
use super::record::{self, LockView};

/// Lists the locks under the sidecar's host id, another one, or a prefix.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The locks under this host id. Default: the sidecar's own.
    #[arg(long, value_name = "ID", conflicts_with = "prefix")]
    host_id: Option<String>,
    /// The locks whose paths begin with this text: container and slash first.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Only those that somebody has.
    #[arg(long)]
    held: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let under = match (args.host_id, args.prefix) {
        (Some(host_id), _) => LocksUnder::HostId(host_id),
        (None, Some(prefix)) => LocksUnder::Prefix(prefix),
        (None, None) => LocksUnder::OwnHostId,
    };
    let held = [LockState::Held, LockState::Breaking];
    let states = held.into_iter().filter(|_| args.held);
    let request = ListLocks::under(under).in_states(states);
    let link = args.connection.link().await?;
    let records = all_pages(&link.client, request).await?;
    link.close().await;
    let views: Vec<LockView> = records.iter().map(LockView::from).collect();
    output::result(args.output.output, || record::locks_table(&records), &views)?;
    Ok(Exit::Success)
}

async fn all_pages(client: &Client, mut request: ListLocks) -> anyhow::Result<Vec<LockRecord>> {
    let mut records = Vec::new();
    loop {
        let page = client.list_locks(request.clone()).await?;
        records.extend(page.records);
        if page.next_page_token.is_empty() {
            return Ok(records);
        }
        request = request.page(page.next_page_token);
    }
}
