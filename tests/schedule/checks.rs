//! What must hold of grants, answers, and the end.

use leasehold::lock::FencingToken;
use leasehold::schedule::{CatchUp, Definition, Occasion, Outcome, Overlap, Report, RunId, Told};
use leasehold::timetable::UtcSecond;

use crate::schedule::world::{Kind, World};

impl World {
    pub(crate) fn check_grant(&mut self, told: &Told, owner: u64) {
        let RunId { occasion, token, .. } = &told.run_id;
        let record = self.store.record();
        let stands = record.as_ref().and_then(|record| record.run.as_ref());
        let stands = stands.is_some_and(|run| run.token == *token && run.occasion == *occasion);
        let is_held = self.store.holder() == Some(owner);
        let is_final = |(id, how): &(RunId, Report)| {
            id.occasion == *occasion && !matches!(how, Report::Failed | Report::Returned)
        };
        let again = self.recorded.iter().any(is_final);
        if again {
            self.store.violate(format!("{occasion} was granted after its outcome was recorded"));
        }
        // A write whose answer came after the lease ended leaves a run that is abandoned at once.
        if !stands && is_held {
            self.store.violate(format!("{occasion} was granted and does not stand in the record"));
        }
        if let Occasion::Scheduled(at) = occasion {
            if *at > self.store.now {
                self.store.violate(format!("{occasion} was granted early"));
            }
            // T16: what came before or after its definition was in force was never due.
            let ends = self.definitions.iter().map(|(from, _)| Some(*from)).skip(1).chain([None]);
            let was_due = self.definitions.iter().zip(ends).any(|((from, definition), end)| {
                let is_real = definition.timetable.at_or_after(*at) == Some(*at);
                is_real && from < at && end.is_none_or(|end| *at <= end)
            });
            if !was_due {
                self.store.violate(format!("{occasion} is no occurrence of what was in force"));
            }
        }
        let others = self.granted.iter().filter(|(other, _)| other.run_id.occasion == *occasion);
        let same = others.filter(|(other, _)| other.attempt == told.attempt).count();
        let returned = self.store.returned.get(occasion).copied().unwrap_or(0);
        if told.attempt > told.max_attempts && self.definitions.len() == 1
            || same > returned as usize
        {
            self.store
                .violate(format!("{occasion} was granted too often: attempt {}", told.attempt));
        }
    }

    /// Nobody else was granted the occasion since a run whose report counts.
    pub(crate) fn check_recorded(&mut self, id: &RunId) {
        let since = |(told, _): &&(Told, u64)| {
            told.run_id.occasion == id.occasion && told.run_id.token > id.token
        };
        let stands = self.store.ended.contains_key(&(id.occasion.clone(), id.token));
        if !stands {
            let since = self.granted.iter().filter(since).count();
            self.store
                .violate(format!("{} was told recorded and is not ({since} since)", id.occasion));
        }
    }

    pub(crate) fn check_superseded(&mut self, id: &RunId, how: Report) {
        let stored = self.store.ended.get(&(id.occasion.clone(), id.token));
        if stored == Some(&Outcome::from(how)) {
            self.store.violate(format!("{} was told superseded and is recorded", id.occasion));
        }
    }

    /// Nothing is lost, and what was missed is counted once.
    pub(crate) fn check_end(&mut self) {
        if self.store.violation.is_some() {
            return;
        }
        if !self.is_quiet() {
            self.store.violate("it never comes to an end".to_owned());
        }
        for at in self.store.due_at_change.clone() {
            let is_settled = self.store.begun.contains_key(&Occasion::Scheduled(at));
            let skips = |(_, one): &(UtcSecond, Definition)| {
                one.catch_up == CatchUp::None || one.overlap == Overlap::Skip
            };
            let may_skip = self.counts.contains_key("a pause or a resume")
                || self.counts.contains_key("a reset")
                || self.definitions.iter().any(skips);
            if !is_settled && !may_skip {
                self.store.violate(format!("{at} was due as the definition changed, and was lost"));
            }
        }
        let (Some(record), true) = (self.store.record(), self.kind == Kind::Plain) else { return };
        let (_, definition) = &self.definitions[0];
        let all = definition.timetable.occurrences_after(self.store.plan.since());
        let all: Vec<UtcSecond> = all.take_while(|at| *at <= record.watermark).collect();
        let begun = |at: &&UtcSecond| self.store.begun.contains_key(&Occasion::Scheduled(**at));
        let run = all.iter().filter(begun).count() as u64;
        if run + record.missed != all.len() as u64 {
            let what =
                format!("of {} occurrences {run} ran, {} were missed", all.len(), record.missed);
            self.store.violate(what);
            return;
        }
        let is_all = matches!(definition.catch_up, CatchUp::All(_));
        for at in all.iter().filter(|_| is_all && record.missed == 0) {
            let occasion = Occasion::Scheduled(*at);
            let ends = |(key, outcome): (&(Occasion, FencingToken), &Outcome)| {
                key.0 == occasion && matches!(outcome, Outcome::Succeeded | Outcome::FailedFinal)
            };
            let attempts = self.store.begun.get(&occasion).copied().unwrap_or(0);
            if !self.store.ended.iter().any(ends) && attempts < definition.max_attempts() {
                self.store.violate(format!("{at} was lost after {attempts} attempts"));
                return;
            }
        }
    }
}
