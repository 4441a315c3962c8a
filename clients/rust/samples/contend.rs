//! Adds one to the number in a file many times, under a lock, among others that do the same:
//! `cargo run --example contend -- FILE TIMES`. No increment may be lost.

use std::path::PathBuf;
use std::time::Duration;

use leasehold_client::{Client, LeaseSpec, Outcome};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = PathBuf::from(arguments.next().ok_or("say which file")?);
    let times: u32 = arguments.next().ok_or("say how many times")?.parse()?;

    let client = Client::from_env().await?;
    let spec = LeaseSpec::new("contend", "").with_wait(Duration::from_secs(300));
    for _ in 0..times {
        let Outcome::Granted(guard) = client.hold(spec.clone()).await? else {
            return Err("the lock was not had within the wait".into());
        };
        let number: u64 =
            std::fs::read_to_string(&file).unwrap_or_default().trim().parse().unwrap_or_default();
        if !guard.is_valid() {
            return Err("the lock was lost".into());
        }
        std::fs::write(&file, format!("{}\n", number + 1))?;
        guard.release().await?;
    }
    Ok(())
}
