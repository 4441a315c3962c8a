//! `leasehold check-token`: a fencing token against its lock's newest (S5).

use leasehold_client::{Client, TokenStatus};
use serde::Serialize;

use super::connection::ConnectionArgs;
use super::exit::Exit;
use super::output::{self, OutputArgs};
use super::spec::SelectorArgs;

/// Compares a fencing token with the newest of its lock, for a protected resource that keeps no tokens of its
/// own.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    lock: SelectorArgs,
    /// The fencing token to check.
    #[arg(long, value_name = "NUMBER")]
    token: u64,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct Checked {
    status: &'static str,
    newest_fencing_token: Option<u64>,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let lock = args.lock.selector()?;
    let ask = async |client: &Client| client.check_token(lock, args.token).await;
    let answer = args.connection.ask(ask).await?;
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the API says to take a status that is not known for stale"
    )]
    let (status, exit) = match answer.status {
        TokenStatus::Current => ("current", Exit::Success),
        TokenStatus::Unknown => ("unknown", Exit::UnknownToken),
        _ => ("stale", Exit::StaleToken),
    };
    let checked = Checked { status, newest_fencing_token: answer.newest_fencing_token };
    output::result(args.output.output, || status.to_owned(), &checked)?;
    Ok(exit)
}
