//! Adds one to the number in a file many times, under a lock, among others that do the same: `cargo run
//! --example contend -- FILE TIMES`. `FILE.token` keeps the newest fencing token; no increment may be lost.

use leasehold_client::{Client, LeaseSpec};

/// The number in a file; zero if there is none.
fn number(file: &str) -> u64 {
    std::fs::read_to_string(file).unwrap_or_default().trim().parse().unwrap_or_default()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("say which file")?;
    let times: u32 = arguments.next().ok_or("say how many times")?.parse()?;
    let newest = format!("{file}.token");

    let client = Client::from_env().await?;
    for _ in 0..times {
        let hold = client.hold(LeaseSpec::new("contend")).until_granted().await?;
        let token = hold.fencing_token();
        if number(&newest) >= token {
            return Err(format!("{newest} has a greater token than {token}").into());
        }
        if !hold.is_valid() {
            return Err("the lock was lost".into());
        }
        std::fs::write(&newest, token.to_string())?;
        std::fs::write(&file, (number(&file) + 1).to_string())?;
        hold.release().await?;
    }
    Ok(())
}
