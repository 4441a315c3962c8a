//! `leasehold path`: where the lock of a name is.

use leasehold_client::ResolvedPath;
use serde::Serialize;

use super::connection::ConnectionArgs;
use super::exit::Exit;
use super::output::{self, OutputArgs};
use super::spec::KeyArgs;
use crate::view::document;

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

document! {
    #[derive(Serialize)]
    struct Resolved of path: ResolvedPath {
        lock_path: String = path.lock_path.clone(),
        host_id: String = path.host_id.clone(),
        host_type: String = path.host_type.clone(),
        provider: String = path.provider.clone(),
        layout: String = path.layout.clone(),
    }
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let key = args.key.named(args.name).key()?;
    let answer = args.connection.ask(async |client| client.resolve_path(key).await).await?;
    let resolved = Resolved::from(&answer);
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
