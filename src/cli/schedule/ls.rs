//! `leasehold schedule ls`: schedules as a table.

use leasehold_client::{Client, ListSchedules, Schedule};

use super::text;
use crate::cli::connection::ConnectionArgs;
use crate::cli::exit::Exit;
use crate::cli::narrow;
use crate::cli::output::{self, Listing, ListingArgs};
use crate::cli::spec::under;
use crate::view::ScheduleView;

/// Lists the schedules under the sidecar's host id, another one, or a prefix.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The schedules under this host id. Default: the sidecar's own.
    #[arg(long, value_name = "ID", conflicts_with = "prefix")]
    host_id: Option<String>,
    /// The schedules whose lock paths begin with this text: container and slash first.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    output: ListingArgs,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let under = under(args.host_id, args.prefix);
    let ask = async |client: &Client| all_pages(client, ListSchedules::under(under)).await;
    let schedules = args.connection.ask(ask).await?;
    let views: Vec<ScheduleView> = schedules.iter().map(ScheduleView::from).collect();
    let listing = args.output.output;
    let width = if listing == Listing::Wide { usize::MAX } else { narrow::width() };
    output::result(listing.format(), || text::table(&schedules, width), &views)?;
    Ok(Exit::Success)
}

async fn all_pages(client: &Client, mut request: ListSchedules) -> anyhow::Result<Vec<Schedule>> {
    let mut schedules = Vec::new();
    loop {
        let page = client.list_schedules(request.clone()).await?;
        schedules.extend(page.schedules);
        if page.next_page_token.is_empty() {
            return Ok(schedules);
        }
        request = request.page(page.next_page_token);
    }
}
