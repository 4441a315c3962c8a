//! Works for as long as it leads, and stands by otherwise, until Ctrl-C: `cargo run --example leader --
//! [FUNCTION]`.
#![expect(clippy::print_stdout, reason = "a sample shows what it does")]

use leasehold_client::{Client, Error, LeaseSpec};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let function = std::env::args().nth(1).unwrap_or_else(|| "leader".to_owned());
    let client = Client::from_env().await?;
    let spec = LeaseSpec::new(function);
    let leading = client.lead_until(spec, tokio::signal::ctrl_c(), async |term| {
        println!("leading with token {}", term.fencing_token());
        let notice = term.revoked().await; // the work, which is dropped when the term is lost
        println!("not leading any more: {notice}");
        Ok::<_, Error>(())
    });
    leading.await?;
    println!("released");
    Ok(())
}
