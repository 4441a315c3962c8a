//! The memory of locks that nobody holds any more: many different ones, one after the other, through
//! `leasehold serve`.

use crate::figure::Figures;
use crate::process::{resident_mib, serve};
use crate::sidecar::{Client, acquire, connect, release, runtime};

const LOCKS: usize = 50_000;
const MIB: f64 = 1.048_576;

pub(crate) fn measure(figures: &mut Figures) {
    let resident = runtime().block_on(resident_after(LOCKS));
    let name = "50,000 locks, one after the other, embedded store: resident";
    figures.at_most(name, resident * MIB, 20.0, " MB");
}

async fn resident_after(locks: usize) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, socket) = serve(folder.path()).await;
    let mut client = Client::new(connect(&socket).await);
    for number in 0..locks {
        let grant = acquire(&mut client, &format!("job-{number}"), 0).await;
        release(&mut client, grant.lease_id).await;
    }
    let resident = resident_mib(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    resident
}
