//! One record and one plan in memory: leases, conditional writes, and what must hold of everything that is
//! written.

use std::collections::{BTreeMap, BTreeSet};

use leasehold::lock::FencingToken;
use leasehold::record::Fields;
use leasehold::schedule::*;
use leasehold::timetable::UtcSecond;

use crate::schedule::rig::plan_of;

/// D of the simulated leases, in seconds.
pub(crate) const LEASE: i64 = 15;

pub(crate) struct Store {
    pub(crate) now: UtcSecond,
    fields: Fields,
    pub(crate) version: u64,
    pub(crate) plan: Plan,
    lease: Option<(u64, UtcSecond)>,
    tokens: u64,
    /// Occurrences that were written as run, and how often each.
    pub(crate) begun: BTreeMap<Occasion, u32>,
    /// How each run ended that has an outcome.
    pub(crate) ended: BTreeMap<(Occasion, FencingToken), Outcome>,
    pub(crate) returned: BTreeMap<Occasion, u32>,
    /// What was due last as the timetable changed.
    pub(crate) due_at_change: BTreeSet<UtcSecond>,
    pub(crate) violation: Option<String>,
}

impl Store {
    pub(crate) fn new(plan: Plan, now: UtcSecond) -> Self {
        Self {
            now,
            fields: Fields::new(),
            version: 1,
            plan,
            lease: None,
            tokens: 4_096,
            begun: BTreeMap::new(),
            ended: BTreeMap::new(),
            returned: BTreeMap::new(),
            due_at_change: BTreeSet::new(),
            violation: None,
        }
    }

    pub(crate) fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    pub(crate) fn record(&self) -> Option<ScheduleRecord> {
        ScheduleRecord::from_fields(&self.fields).unwrap()
    }

    /// Whose lease is held.
    pub(crate) fn holder(&self) -> Option<u64> {
        self.lease.filter(|(_, ends)| self.now < *ends).map(|(owner, _)| owner)
    }

    pub(crate) fn acquire(&mut self, owner: u64, if_match: Option<u64>) -> Option<FencingToken> {
        if self.holder().is_some() || if_match.is_some_and(|version| version != self.version) {
            return None;
        }
        self.lease = Some((owner, UtcSecond(self.now.0 + LEASE)));
        self.tokens += 4_096;
        FencingToken::from_u64(self.tokens)
    }

    pub(crate) fn renew(&mut self, owner: u64) -> bool {
        let held = self.holder() == Some(owner);
        if held {
            self.lease = Some((owner, UtcSecond(self.now.0 + LEASE)));
        }
        held
    }

    pub(crate) fn release(&mut self, owner: u64) {
        if self.holder() == Some(owner) {
            self.lease = None;
        }
    }

    /// Writes under the lease and with If-Match; `forced`: without either.
    pub(crate) fn write(
        &mut self,
        owner: u64,
        if_match: u64,
        record: &ScheduleRecord,
        forced: bool,
    ) -> bool {
        let allowed = self.holder() == Some(owner) && self.version == if_match;
        if !allowed && !forced {
            return false;
        }
        let before = self.record();
        self.fields = record.clone().into_fields(Fields::new());
        self.version += 1;
        let after = self.record().unwrap();
        if let Some(before) = before {
            if after.watermark < before.watermark || after.by_hand_done < before.by_hand_done {
                self.violate(format!("back from {} to {}", before.watermark, after.watermark));
            }
            if let Some(next) = after.next.filter(|next| *next <= after.watermark) {
                self.violate(format!("waits for {next}, which is final"));
            }
        }
        for ended in &after.ended {
            let Some(token) = ended.token else { continue };
            let key = (ended.occasion.clone(), token);
            if self.ended.insert(key, ended.outcome).is_none() && ended.outcome == Outcome::Returned
            {
                *self.returned.entry(ended.occasion.clone()).or_default() += 1;
            }
        }
        if let Some(run) = after.run {
            *self.begun.entry(run.occasion).or_default() += 1;
        }
        true
    }

    /// T16, by a subscriber that is new.
    pub(crate) fn redefine(&mut self, definition: &Definition) {
        let record = self.record();
        let subscribed = plan_of(Some(&self.plan), definition, true, record.as_ref(), self.now);
        let Some(plan) = subscribed.write else { return };
        self.due_at_change.extend(plan.due().map(|(due, _)| due));
        self.plan = Plan::from_text(&plan.to_text()).unwrap();
    }
}
