//! Once nothing stands against schedules they go on: each occurrence is run, on time, with few requests (T9,
//! T17).

use std::time::Duration;

use leasehold::schedule::{Occasion, Outcome, Plan, PlanVersion};
use leasehold::timetable::UtcSecond;

use super::judge::{Seen, earliest, latest};
use super::records::{APART, of_timetable};
use crate::world::shared::World;
use crate::world::sidecar::{SECOND, key};

/// The longest wait of a sidecar that has met runs elsewhere (T17), with what comes before and after.
const RESTORED: Duration = Duration::from_secs(1_500);
/// For how long order is looked at: each schedule is due at least twice.
const KEPT: Duration = Duration::from_secs(150);
/// How often somebody who has tried long may still come with a definition.
const MOST_CHANGES: u32 = 6;
/// How late an occurrence may be recorded then: its spread, the wait of others than the last runner, the run
/// itself.
const LATE: i64 = 15;
/// Requests for an occurrence then: of its runner; and of each other sidecar, which looks up to three times.
const MOST_REQUESTS: (u64, u64) = (10, 6);

/// Waits until each schedule has succeeded once more; how long that took.
pub(super) async fn restored(world: &World) -> Duration {
    let (begun, from) = (world.now(), latest(world));
    for lock in locks(world) {
        while !world.state().schedules.seen(&lock).succeeded_since(from) {
            if world.now() > begun + RESTORED {
                let record = world.state().schedules.seen(&lock).record.clone();
                world.fail(format!("T9: {lock} stands {RESTORED:?} after calm: {record:?}"));
                return RESTORED;
            }
            tokio::time::sleep(SECOND * 2).await;
        }
    }
    world.now() - begun
}

/// What falls due now is run: each, and once.
pub(super) async fn kept(world: &World) {
    // What was due before is run by then, where all of it is.
    tokio::time::sleep(KEPT).await;
    let mut tries = 0;
    while !are_kept(world).await {
        tries += 1;
        if tries > MOST_CHANGES {
            return world.fail("T16: definitions change, and nobody new comes".to_owned());
        }
    }
}

/// Looks for a while; false if a definition has come into force meanwhile: what is due then is the business
/// of none (T16).
async fn are_kept(world: &World) -> bool {
    let begun = latest(world);
    let before: Vec<_> =
        locks(world).map(|lock| (world.state().schedules.seen(&lock).figures(), lock)).collect();
    tokio::time::sleep(KEPT).await;
    let ended = UtcSecond(earliest(world).0 - LATE - APART);
    let now = |lock: &str| world.state().schedules.seen(lock).figures();
    if before.iter().any(|(figures, lock)| figures.plans != now(lock).plans) {
        return false;
    }
    for (Figures { missed, requests, .. }, lock) in before {
        let mut state = world.state();
        let seen = state.schedules.seen(&lock);
        let Some(record) = seen.record.clone() else { continue };
        let Some(definition) = of_timetable(&seen.definitions, &record.plan.hash) else { continue };
        let timetable = definition.timetable.clone();
        let due: Vec<UtcSecond> = timetable
            .occurrences_after(UtcSecond(begun.0 + APART))
            .take_while(|at| *at <= ended)
            .collect();
        let undone: Vec<_> = due.iter().filter(|at| !seen.has_succeeded(**at)).collect();
        let asked = seen.requests - requests;
        let others = world.plan().sidecars as u64 - 1;
        let most = (MOST_REQUESTS.0 + MOST_REQUESTS.1 * others) * (due.len() as u64 + 2);
        let not_run = seen.by_hand_not_run();
        let wrong = if !undone.is_empty() {
            format!("T9: of {} due in order {undone:?} have not succeeded: {record:?}", due.len())
        } else if record.missed > missed {
            format!("T9: {} are missed in order: {record:?}", record.missed - missed)
        } else if asked > most {
            format!("T17: {asked} requests for {} occurrences, and {most} are enough", due.len())
        } else if let Some(request) = not_run.filter(|_| !seen.was_lost) {
            format!("T18: the run by hand {request} was answered as stored, and is never run")
        } else {
            continue;
        };
        drop(state);
        world.fail(format!("{wrong} ({lock})"));
    }
    true
}

fn locks(world: &World) -> impl Iterator<Item = String> {
    let sidecar = world.sidecar(0);
    (0..world.plan().locks).map(move |lock| sidecar.path(&key(lock)).to_string())
}

/// How far a schedule is.
struct Figures {
    missed: u64,
    requests: u64,
    /// What the record was computed from, and what the plan says.
    plans: [Option<PlanVersion>; 2],
}

impl Seen {
    fn figures(&self) -> Figures {
        let (record, plan) = (self.record.as_ref(), self.plan.as_ref());
        Figures {
            missed: record.map_or(0, |record| record.missed),
            requests: self.requests,
            plans: [record.map(|record| record.plan.clone()), plan.map(Plan::version)],
        }
    }

    fn succeeded_since(&self, from: UtcSecond) -> bool {
        let succeeded = |(occasion, outcome): (&Occasion, Option<Outcome>)| match occasion {
            Occasion::Scheduled(at) => *at >= from && outcome == Some(Outcome::Succeeded),
            Occasion::ByHand { .. } => false,
        };
        self.runs.iter().any(|((occasion, _), run)| succeeded((occasion, run.ended)))
    }

    fn has_succeeded(&self, at: UtcSecond) -> bool {
        let occasion = Occasion::Scheduled(at);
        let mut runs = self.runs.iter().filter(|((it, _), _)| *it == occasion);
        runs.any(|(_, run)| run.ended == Some(Outcome::Succeeded))
    }

    /// A request for a run by hand that was answered as stored, and that nobody has run.
    fn by_hand_not_run(&self) -> Option<&String> {
        let is_run = |id: &str| {
            let is_it = |occasion: &Occasion| match occasion {
                Occasion::ByHand { request_id, .. } => request_id == id,
                Occasion::Scheduled(_) => false,
            };
            self.runs.keys().any(|(occasion, _)| is_it(occasion))
        };
        self.by_hand.iter().find(|id| !is_run(id) && !self.gone.contains(*id))
    }
}
