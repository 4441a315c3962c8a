//! Sees what runners are told and answered, and holds it against T1 to T18 and the record in the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::coordinator::tests::checker::{Belief, Checker};
use crate::coordinator::tests::rig::{Account, path};
use crate::lock::FencingToken;
use crate::schedule::{Occasion, Outcome, Report, RunId, ScheduleRecord};
use crate::scheduler::{Completion, RunGrant};
use crate::store::LeaseStoreExt as _;
use crate::time::Clock as _;
use crate::timetable::UtcSecond;

/// The most attempts of any definition here; and how often a run may be given back beside that (T11).
pub(super) const MOST_ATTEMPTS: u32 = 3;
const MOST_RETURNS: u32 = 10;
/// Ended runs that a record has room for at the least.
const MANY: usize = 8;

/// The judge of one world.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    pub(super) account: Account,
    pub(super) beliefs: Checker,
    seed: u64,
    state: Arc<Mutex<BTreeMap<String, Seen>>>,
}

/// What was seen of one schedule.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    is_final: BTreeSet<Occasion>,
    grants: BTreeMap<Occasion, (u32, u32, FencingToken)>,
    newest: Option<UtcSecond>,
    /// From when a pause was answered until a resume was asked for.
    pauses: Vec<(UtcSecond, Option<UtcSecond>)>,
    pub(super) runs: usize,
    pub(super) recorded: usize,
    pub(super) late: usize,
    pub(super) superseded: usize,
    /// Occurrences whose success was recorded.
    pub(super) succeeded: BTreeSet<UtcSecond>,
}

impl Judge {
    pub(super) fn new(account: &Account, seed: u64) -> Self {
        let beliefs = Checker::new(account, seed);
        Self { account: account.clone(), beliefs, seed, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, BTreeMap<String, Seen>> {
        self.state.lock().unwrap()
    }

    pub(super) fn seen(&self, schedule: &str) -> Seen {
        self.state().entry(path(schedule).to_string()).or_default().clone()
    }

    pub(super) fn now(&self) -> UtcSecond {
        self.account.clock.wall().into()
    }

    /// The schedule's part of the record in the store.
    pub(super) async fn record(&self, path: &crate::lock::LockPath) -> Option<ScheduleRecord> {
        let lock = self.account.store.read_record(path).await.ok()?;
        ScheduleRecord::from_fields(&lock.fields).unwrap()
    }

    /// A pause was answered, at this time at the latest.
    pub(super) fn paused(&self, schedule: &str) {
        let now = self.now();
        let mut state = self.state();
        let pauses = &mut state.entry(path(schedule).to_string()).or_default().pauses;
        if pauses.last().is_none_or(|(_, resumed)| resumed.is_some()) {
            pauses.push((now, None));
        }
    }

    /// A resume is about to be asked for.
    pub(super) fn resumes(&self, schedule: &str) {
        let now = self.now();
        let mut state = self.state();
        let seen = state.entry(path(schedule).to_string()).or_default();
        if let Some((_, resumed @ None)) = seen.pauses.last_mut() {
            *resumed = Some(now);
        }
    }

    /// Whether a run is over by what it was told, before its runner has looked (S21).
    pub(super) fn is_over(&self, run: &RunGrant) -> bool {
        run.grant.validity.valid_until.since_boot <= self.account.now().since_boot()
    }

    /// A runner was told a run just now.
    pub(super) async fn granted(&self, run: &RunGrant) -> Belief {
        let belief = self.beliefs.granted(&run.grant);
        let told = &run.told;
        let (id, seed) = (&told.run_id, self.seed);
        let occasion = &id.occasion;
        let record = self.record(&id.path).await.unwrap();
        let ended: Vec<_> = record.ended.iter().filter(|it| it.occasion == *occasion).collect();
        let mut state = self.state();
        let seen = state.entry(id.path.to_string()).or_default();
        seen.runs += 1;
        assert!(!seen.is_final.contains(occasion), "T2, seed {seed}: {id:?} was final");
        // T6: it stands in the store before it is told. Reading took no time.
        let stored = record.run.as_ref().map(|run| (&run.occasion, run.attempt, run.token));
        // T20: a drain may have returned it, and it goes on to the end of that.
        let is_returned =
            ended.iter().any(|it| it.token == Some(id.token) && it.outcome == Outcome::Returned);
        let is_stored = stored == Some((occasion, id.attempt, id.token)) || is_returned;
        assert!(is_stored, "T6, seed {seed}: {id:?} is not in {record:?}");
        assert_eq!(id.token, run.grant.token, "T8, seed {seed}");
        // T11: as many as there may be, and each is counted.
        let before = seen.grants.get(occasion).copied();
        let (grants, attempt, token) = before.unwrap_or((0, 0, id.token));
        assert!(id.attempt <= MOST_ATTEMPTS, "T11, seed {seed}: {id:?}");
        assert!(grants < MOST_ATTEMPTS + MOST_RETURNS, "T11, seed {seed}: {id:?} once more");
        let before = ended.iter().find(|it| it.token == Some(token)).map(|it| it.outcome);
        // What ended long ago has been cut.
        let is_cut = before.is_none() && record.ended.len() >= MANY;
        let may_repeat = before == Some(Outcome::Returned) || is_cut;
        let grown = id.attempt > attempt || may_repeat && id.attempt == attempt;
        assert!(grown, "T11, seed {seed}: {id:?} after {attempt} of {token}: {record:?}");
        seen.grants.insert(occasion.clone(), (grants + 1, id.attempt, id.token));
        if let Occasion::Scheduled(at) = occasion {
            assert!(self.now() >= *at, "T7, seed {seed}: {id:?} is early");
            assert!(seen.newest <= Some(*at), "T5, seed {seed}: {at} after {:?}", seen.newest);
            seen.newest = Some(*at);
            let paused = |(from, to): &(UtcSecond, Option<UtcSecond>)| {
                *from < *at && to.is_none_or(|to| *at < to)
            };
            let paused = seen.pauses.iter().find(|pause| paused(pause));
            assert_eq!(paused, None, "T18, seed {seed}: {id:?} fell due during a pause");
        }
        drop(state);
        belief
    }

    /// A call that completes a run was answered just now.
    pub(super) async fn answered(&self, id: &RunId, report: Report, completion: Completion) {
        let seed = self.seed;
        let record = self.record(&id.path).await.unwrap();
        let is_it = |ended: &&crate::schedule::Ended| {
            (&ended.occasion, ended.attempt, ended.token)
                == (&id.occasion, id.attempt, Some(id.token))
        };
        let stored = record.ended.iter().find(is_it).map(|ended| ended.outcome);
        let mut state = self.state();
        let seen = state.entry(id.path.to_string()).or_default();
        match completion {
            Completion::Superseded => {
                seen.superseded += 1;
                assert_ne!(stored, Some(report.into()), "T8, seed {seed}: {id:?} is recorded");
                return;
            }
            Completion::Recorded => seen.recorded += 1,
            Completion::RecordedLate => seen.late += 1,
        }
        // What ended long ago has been cut.
        let is_cut = stored.is_none() && record.ended.len() >= MANY;
        let is_stored = stored == Some(report.into()) || is_cut;
        assert!(is_stored, "T8, seed {seed}: {id:?} {report:?} is not in {record:?}");
        let is_last = matches!(report, Report::Succeeded | Report::FailedFinal | Report::TimedOut);
        if is_last && let Some((.., newest)) = seen.grants.get(&id.occasion) {
            // Nobody was granted it since, and nobody is.
            assert!(*newest <= id.token, "T8, seed {seed}: {id:?} {completion:?} after {newest}");
        }
        match report {
            Report::Succeeded => {
                seen.is_final.insert(id.occasion.clone());
                if let Occasion::Scheduled(at) = id.occasion {
                    seen.succeeded.insert(at);
                }
            }
            Report::FailedFinal | Report::TimedOut => {
                seen.is_final.insert(id.occasion.clone());
            }
            Report::Failed | Report::Returned | Report::Withdrawn => {}
        }
    }
}
