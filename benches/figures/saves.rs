//! What a checkpoint costs: a save over the storage call that it is, and a grant that tells one over a grant
//! that does not.

use std::time::Duration;

use uuid::Uuid;

use crate::acquire::{Direct, store};
use crate::fake_service;
use crate::figure::{Figures, Stopwatch, median, typical};
use crate::sidecar::{self, Client, acquire, connect, release, runtime, save};

const WARM_UP: usize = 50;
const ROUNDS: usize = 200;
/// What is measured in each round.
const WITHOUT: usize = 0;
const WITH: usize = 1;
const SAVING: usize = 2;
const WRITING: usize = 3;
/// The largest checkpoint.
const VALUE: [u8; 2_048] = [7; 2_048];

pub(crate) fn measure(figures: &mut Figures) {
    let fake = fake_service::start();
    let [save, grant] = typical(|| runtime().block_on(compare(&fake)));
    let name = "SaveCheckpoint, 2 KiB, over one raw storage call (fake service)";
    figures.at_most(name, save, 1.7, " ×");
    let name = "AcquireLease with a checkpoint of 2 KiB over one without (fake service)";
    figures.at_most(name, grant, 1.25, " ×");
}

/// Of medians: a save over a raw write of the same fields; a grant with a checkpoint over one without.
async fn compare(connection: &str) -> [f64; 2] {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    sidecar::start(&socket, store(connection));
    let mut client = Client::new(connect(&socket).await);
    // Of their own for each run: what was used before has its lease.
    let (plain, saved) = (format!("plain-{}", Uuid::new_v4()), format!("saved-{}", Uuid::new_v4()));
    let first = acquire(&mut client, &saved, 0).await;
    save(&mut client, &first, &VALUE).await;
    let mut direct = Direct::of(store(connection), &first.lock_path).await;
    release(&mut client, first.lease_id).await;
    let watch = Stopwatch::new();
    let mut times: [Vec<Duration>; 4] = Default::default();
    for round in 0..WARM_UP + ROUNDS {
        let mut measured = [Duration::ZERO; 4];
        // In turns: whichever comes first meets a store that was idle for longer.
        for kind in if round % 2 == 0 { [WITHOUT, WITH] } else { [WITH, WITHOUT] } {
            let lock = if kind == WITH { &saved } else { &plain };
            let (grant, time) = watch.time(acquire(&mut client, lock, 0)).await;
            measured[kind] = time;
            // S26: at most one save a second reaches the store for a hold, so each is the first of its hold.
            if kind == WITH {
                let ((), time) = watch.time(save(&mut client, &grant, &VALUE)).await;
                measured[SAVING] = time;
            }
            release(&mut client, grant.lease_id).await;
        }
        measured[WRITING] = direct.calls(&watch).await[1];
        if round >= WARM_UP {
            times.iter_mut().zip(measured).for_each(|(times, time)| times.push(time));
        }
    }
    let medians = times.map(median);
    [medians[SAVING] / medians[WRITING], medians[WITH] / medians[WITHOUT]]
}
