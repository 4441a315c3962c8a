//! `leasehold path`: where the lock of a name is.

use serde::Serialize;

use super::connection::ConnectionArgs;
use super::exit::Exit;
use super::output::{self, OutputArgs};
use super::spec::KeyArgs;

/// Shows the lock path of a name and what it is made of. Acquires nothing and asks no store.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What the lock is for; the same as --function.
    #[arg(value_name = "FUNCTION", conflicts_with = "function")]
    name: Option<String>,
    #[command(flatten)]
    key: KeyArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct Resolved {
    lock_path: String,
    host_id: String,
    host_type: String,
    provider: String,
    layout: String,
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let key = args.key.named(args.name).key()?;
    let answer = args.connection.ask(async |client| client.resolve_path(key).await).await?;
    let resolved = Resolved {
        lock_path: answer.lock_path,
        host_id: answer.host_id,
        host_type: answer.host_type,
        provider: answer.provider,
        layout: answer.layout,
    };
    let text = || {
        output::fields(&[
            ("lock path", resolved.lock_path.clone()),
            ("host id", resolved.host_id.clone()),
            ("host type", resolved.host_type.clone()),
            ("host id from", resolved.provider.clone()),
            ("layout", resolved.layout.clone()),
        ])
    };
    output::result(args.output.output, text, &resolved)?;
    Ok(Exit::Success)
}
