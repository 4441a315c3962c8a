//! What sidecars do with the machine: read, look, acquire, start, grant; and the planted mistakes in that.

use leasehold::lock::FencingToken;
use leasehold::schedule::*;
use leasehold::timetable::UtcSecond;

use crate::schedule::planted::Bug;
use crate::schedule::world::{Job, Kind, Seen, Sidecar, Stage, World};

impl World {
    pub(crate) fn view<'a>(
        &'a self,
        record: Option<&'a ScheduleRecord>,
        newest: Option<Newest>,
        lease: Lease,
    ) -> View<'a> {
        let early = if self.has(Bug::EarlyGrant) { 2 } else { 0 };
        let store_time = UtcSecond(self.store.now.0 + early);
        let queued = std::time::Duration::ZERO;
        let (path, plan, plan_at) = (&self.path, &self.store.plan, store_time);
        let (lease_duration, reported) = (std::time::Duration::from_secs(15), None);
        View {
            path,
            plan,
            plan_at,
            record,
            newest,
            store_time,
            lease,
            queued,
            lease_duration,
            reported,
            ended_at: store_time,
        }
    }

    /// The record as a sidecar reads it.
    pub(crate) fn read(&mut self, index: usize) -> Seen {
        let mut record = self.store.record();
        let plan = &self.store.plan;
        if let Some(record) = &mut record {
            let is_old = record.plan != plan.version();
            if self.bug == Some(Bug::DefinitionWhileDue) && is_old && record.run.is_none() {
                record.plan = plan.version();
                let now = record.watermark.max(self.store.now);
                record.next = plan.definition().timetable.next(now);
                record.attempts = Attempts::default();
            }
            if self.bug == Some(Bug::NextComputedLocally) && index == 1 {
                record.next = record.next.map(|next| UtcSecond(next.0 + 7));
            }
            let sidecar = &mut self.sidecars[index];
            let newest = sidecar.newest.get_or_insert_default();
            newest.watermark = newest.watermark.max(record.watermark);
            newest.by_hand_done = newest.by_hand_done.max(record.by_hand_done);
            newest.reset = record.reset;
        }
        (record, self.store.version)
    }

    pub(crate) fn sidecar(&mut self, index: usize) {
        let sidecar = &mut self.sidecars[index];
        let (owner, newest) = (sidecar.owner, sidecar.newest);
        let stage = std::mem::replace(&mut sidecar.stage, Stage::Idle);
        let next = match stage {
            Stage::Idle => {
                let seen = self.read(index);
                let lease =
                    if self.store.holder().is_some() { Lease::Elsewhere } else { Lease::Free };
                let looked = look(&self.view(seen.0.as_ref(), newest, lease));
                if looked.went_back {
                    self.store.violate("a watermark went back".to_owned());
                }
                match looked.decision {
                    Decision::Run(_) | Decision::Settle => Stage::Looked(seen),
                    Decision::Wait(_) | Decision::Busy | Decision::RetryLater(_) => Stage::Idle,
                }
            }
            Stage::Looked(seen) => {
                let if_match = (!self.has(Bug::AcquireWithoutIfMatch)).then_some(seen.1);
                match self.store.acquire(owner, if_match) {
                    Some(token) => Stage::Acquired((seen.0, self.store.version), token),
                    None => Stage::Idle,
                }
            }
            Stage::Acquired(seen, token) => self.start(index, &seen, token),
            Stage::Running => Stage::Running,
        };
        self.sidecars[index].stage = next;
    }

    fn start(&mut self, index: usize, seen: &Seen, token: FencingToken) -> Stage {
        let Sidecar { owner, newest, .. } = self.sidecars[index];
        let lease = Lease::Here { running: false };
        match start(&self.view(seen.0.as_ref(), newest, lease), token) {
            Started::Nothing => {}
            Started::Settle(record) => {
                if self.write(owner, seen.1, &record).is_ok() {
                    self.saw("a record was settled");
                }
            }
            Started::Run { mut record, told } => {
                self.spoil(&mut record, &told);
                if self.write(owner, seen.1, &record).is_ok() || self.has(Bug::GrantBeforeWrite) {
                    self.grant(owner, *told);
                    return Stage::Running;
                }
            }
        }
        self.store.release(owner);
        Stage::Idle
    }

    /// The mistakes that somebody could make in what a start writes.
    fn spoil(&self, record: &mut ScheduleRecord, told: &Told) {
        if self.has(Bug::AttemptNotStored) {
            record.attempts = Attempts::default();
        }
        if self.has(Bug::MissedCountedTwice) {
            record.missed += told.missed_count;
        }
        if let (true, Occasion::Scheduled(at)) =
            (self.has(Bug::WatermarkBeforeWork), &told.run_id.occasion)
        {
            record.watermark = *at;
            record.next = self.store.plan.definition().timetable.next(*at);
            record.run = None;
        }
    }

    /// A write may be lost, or its answer: then it is read again whether it was done (S27).
    pub(crate) fn write(
        &mut self,
        owner: u64,
        if_match: u64,
        record: &ScheduleRecord,
    ) -> Result<(), bool> {
        let forced = self.has(Bug::WriteWithoutLease);
        if self.faulty(60) {
            self.saw("a write was lost");
            return Err(false);
        }
        let done = self.store.write(owner, if_match, record, forced);
        if done && self.faulty(60) {
            self.saw("an answer was lost");
            return Err(true);
        }
        if done { Ok(()) } else { Err(false) }
    }

    fn grant(&mut self, owner: u64, told: Told) {
        self.saw("a grant");
        if told.attempt > 1 {
            self.saw("a grant of another attempt");
        }
        self.check_grant(&told, owner);
        let how = match self.random.below(10) {
            _ if self.calm => Report::Succeeded,
            0 | 1 => Report::Failed,
            2 => Report::FailedFinal,
            3 if self.kind != Kind::Plain => Report::Returned,
            _ => Report::Succeeded,
        };
        let usual = if self.calm { 1 } else { 12 };
        let long = if self.faulty(200) { 120 } else { usual };
        let until = UtcSecond(self.store.now.0 + i64::try_from(self.random.below(long)).unwrap());
        self.granted.push((told.clone(), owner));
        self.jobs.push(Job { told, owner, until, how, unknown: false });
    }
}
