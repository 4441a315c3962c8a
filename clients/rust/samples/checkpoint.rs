//! Counts: goes on from the number that the last holder saved, adds one each second, and saves it. When the
//! lock is broken or Ctrl-C is pressed, it saves the number with the release: `cargo run --example checkpoint
//! -- [FUNCTION]`.
#![expect(clippy::print_stdout, reason = "a sample shows what it does")]

use std::time::Duration;

use leasehold_client::{Client, LeaseSpec};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let function = std::env::args().nth(1).unwrap_or_else(|| "checkpoint".to_owned());
    let client = Client::from_env().await?;
    let hold = client.hold(LeaseSpec::new(function)).until_granted().await?;

    let mut number: u64 = match hold.checkpoint() {
        Some(checkpoint) => serde_json::from_slice(&checkpoint.value)?,
        None => 0,
    };
    println!("starting from {number} with token {}", hold.fencing_token());
    loop {
        tokio::select! {
            loss = hold.lost() => return Err(format!("lost: {loss}").into()),
            notice = hold.revoked() => {
                println!("told to stop: {notice}");
                break;
            }
            _ = tokio::signal::ctrl_c() => break,
            () = tokio::time::sleep(Duration::from_secs(1)) => {
                number += 1;
                hold.save(serde_json::to_vec(&number)?).await?;
                println!("saved {number}");
            }
        }
    }
    let released = hold.release_with_checkpoint(serde_json::to_vec(&number)?).await?;
    println!("saved {number} as version {}", released.checkpoint_version.unwrap_or_default());
    Ok(())
}
