//! Holds a lock until Ctrl-C, and says what happens to it: `cargo run --example hold -- FUNCTION [SCOPE]`.
#![expect(clippy::print_stdout, reason = "a sample shows what it does")]

use std::time::Duration;

use leasehold_client::{Client, Error, LeaseSpec, LockKey, Outcome};
use tokio::sync::mpsc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let function = arguments.next().unwrap_or_else(|| "sample".to_owned());
    let scope = arguments.next().unwrap_or_default();

    let (sender, mut events) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            println!("{event:?}");
        }
    });

    let client = Client::from_env().await?;
    let spec = LeaseSpec::new(LockKey::new(function, scope)).with_wait(Duration::from_secs(60));
    match client.hold(spec).events(sender).await? {
        Outcome::Granted(hold) => {
            println!("{} is ours, token {}", hold.lock_path(), hold.fencing_token());
            tokio::select! {
                _ = tokio::signal::ctrl_c() => println!("{:?}", hold.release().await?.outcome),
                loss = hold.lost() => println!("lost: {loss}"),
            }
        }
        Outcome::AlreadyDone(_) | Outcome::Skipped { .. } => println!("no occurrence was named"),
        Outcome::Busy(busy) => println!("busy: {:?}", busy.record),
    }
    Ok(())
}
