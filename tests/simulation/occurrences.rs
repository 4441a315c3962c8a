//! Callers that name occurrences (T1, T2), and holders that say at their release how theirs has ended (T8):
//! decided by the product's own deciders, between the machine's question and its next event.
//!
//! What is told as recorded stays recorded: nobody is granted that occurrence any more, nor one before it,
//! until the store loses its record.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold::hold::{
    Action, CallerId, Event, Notice, SaveAsked, SaveId, SaveOutcome, Terms, WriteOf,
};
use leasehold::lock::FencingToken;
use leasehold::record::{CheckpointValue, Found, Verdict};
use leasehold::schedule::{
    Claimed, Concluded, Ended, Occasion, Occurrence, Outcome, Report, ScheduleRecord, claim_over,
    conclude_over,
};
use leasehold::timetable::UtcSecond;

use crate::simulation::chance::About;
use crate::simulation::planted::Bug;
use crate::simulation::world::World;

/// The numbers of saves that bring no checkpoint begin here: those before are the ledger's.
const OUTCOMES: u64 = 1 << 40;
/// The seconds between two occurrences.
const BETWEEN: i64 = 20;

/// Whether a save brings an outcome alone.
pub(crate) const fn is_outcome(id: SaveId) -> bool {
    id.0 >= OUTCOMES
}

/// How an occurrence has ended, as its holder says.
#[derive(Clone, Copy, Debug)]
struct Told {
    occurrence: Occurrence,
    report: Report,
}

/// What became of occurrences.
#[derive(Debug, Default)]
pub(crate) struct Occurrences {
    last: u64,
    /// What was decided last for each caller.
    claimed: BTreeMap<CallerId, (Occurrence, Claimed)>,
    /// With which tokens callers were to be granted each occurrence; and who else has ended such a start.
    starts: BTreeMap<UtcSecond, Vec<(CallerId, Option<FencingToken>)>>,
    /// The saves that were not answered, and what was decided last of each.
    asked: BTreeMap<SaveId, (Told, Option<Concluded>)>,
    /// Those that are final, as was told, and how.
    recorded: BTreeMap<UtcSecond, Outcome>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl Occurrences {
    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// `counts_its_own`: a mistake.
    fn claim(
        &mut self,
        caller: CallerId,
        occurrence: Occurrence,
        found: &Found,
        counts_its_own: bool,
    ) -> Verdict {
        let starts = self.starts.entry(occurrence.at).or_default();
        let own = starts.iter().filter(|(of, _)| *of == caller && !counts_its_own);
        let ungranted: Vec<_> = own.filter_map(|(_, token)| *token).collect();
        let (verdict, claimed) = claim_over(found, occurrence, &ungranted);
        if let Claimed::Granted { token, .. } = claimed {
            if !ungranted.is_empty() {
                *self.counts.entry("occurrences: claimed again").or_default() += 1;
            }
            starts.push((caller, Some(token)));
        }
        if verdict != Verdict::Nothing {
            self.end_start(caller, found);
        }
        self.claimed.insert(caller, (occurrence, claimed));
        verdict
    }

    /// What is written ends the run that is there, whichever it is of.
    fn end_start(&mut self, caller: CallerId, found: &Found) {
        let record = ScheduleRecord::from_fields(&found.fields).ok().flatten();
        let run = record.and_then(|record| record.run).map(|run| run.token);
        for starts in self.starts.values_mut() {
            if starts.iter().any(|(_, token)| token.is_some() && *token == run) {
                starts.push((caller, None));
            }
        }
    }

    /// T6: so many attempts before are counted. What this caller was not granted since the last of others
    /// counts for none; they cannot tell what was granted before.
    fn counts_others(&self, caller: CallerId, at: UtcSecond, before: u32) -> Result<(), String> {
        let starts = self.starts.get(&at).map_or(&[][..], Vec::as_slice);
        let last = starts.iter().rposition(|(of, _)| *of != caller);
        let most = last.map_or(0, |last| last + 1);
        if before as usize <= most {
            return Ok(());
        }
        Err(format!("T6: {at} counts {before} attempts for {caller:?}, and {most} may have been"))
    }

    fn conclude(&mut self, id: SaveId, found: &Found) -> Verdict {
        let Some((told, concluded)) = self.asked.get_mut(&id) else { return Verdict::Nothing };
        let (verdict, now) = conclude_over(found, told.occurrence, told.report);
        *concluded = Some(now);
        verdict
    }

    /// The store has lost its record, or fallen back to an older one: what is there counts.
    pub(crate) fn reset(&mut self) {
        self.recorded.clear();
        for (_, concluded) in self.asked.values_mut() {
            *concluded = None;
        }
    }

    /// `may_be_late`: what is granted comes too late to be held, for all that its sidecar knows (S3, S17).
    pub(crate) fn told(&mut self, action: &Action, may_be_late: bool) -> Result<(), String> {
        match action {
            Action::Tell { caller, notice: Notice::Granted(grant) } if !grant.resumed => {
                self.granted(*caller, grant.token, may_be_late)
            }
            Action::Tell { caller, notice: Notice::Settled { written } } => {
                self.settled(*caller, *written)
            }
            Action::Saved { id, outcome } => self.saved(*id, outcome),
            _ => Ok(()),
        }
    }

    fn granted(
        &mut self,
        caller: CallerId,
        token: FencingToken,
        may_be_late: bool,
    ) -> Result<(), String> {
        let Some((occurrence, claimed)) = self.claimed.remove(&caller) else { return Ok(()) };
        let Claimed::Granted { token: of, attempt } = claimed else {
            return Err(format!(
                "T6: {caller:?} is granted the lock, and was decided: {claimed:?}"
            ));
        };
        if of != token {
            return Err(format!("T6: {caller:?} has {token}, and its occurrence is for {of}"));
        }
        self.count("occurrences: granted");
        if attempt > 1 {
            self.count("occurrences: granted again");
        }
        self.counts_others(caller, occurrence.at, attempt - 1)?;
        let newest = self.recorded.last_key_value();
        match newest.filter(|(at, _)| **at >= occurrence.at) {
            // Another may have held the lock by then, and said how it ended.
            Some(_) if may_be_late => {
                self.count("occurrences: granted too late");
                Ok(())
            }
            Some((at, outcome)) => Err(format!(
                "T2: {caller:?} is granted {}, and {at} was told as {outcome:?}",
                occurrence.at
            )),
            None => Ok(()),
        }
    }

    fn settled(&mut self, caller: CallerId, written: bool) -> Result<(), String> {
        let Some((occurrence, claimed)) = self.claimed.remove(&caller) else {
            return Err(format!("T6: {caller:?} is settled, and nothing was decided for it"));
        };
        match claimed {
            Claimed::Granted { .. } => {
                Err(format!("T6: {caller:?} was to be granted its occurrence, and is settled"))
            }
            Claimed::AlreadyDone(ended) => {
                self.count(if written { "occurrences: given up" } else { "occurrences: done" });
                self.counts_others(caller, occurrence.at, ended.attempt)?;
                match self.recorded.get(&occurrence.at).filter(|told| **told != ended.outcome) {
                    Some(told) => Err(format!(
                        "T8: {} was told as {told:?}, and now as {:?}",
                        occurrence.at, ended.outcome
                    )),
                    None => Ok(()),
                }
            }
            Claimed::Skipped { .. }
            | Claimed::InFuture { .. }
            | Claimed::HasSchedule
            | Claimed::Unreadable(_)
                if written =>
            {
                Err(format!("T6: {caller:?} is turned away, and something was written"))
            }
            Claimed::Skipped { .. } => {
                self.count("occurrences: skipped");
                Ok(())
            }
            Claimed::InFuture { .. } => Ok(()),
            Claimed::HasSchedule | Claimed::Unreadable(_) => {
                Err(format!("T2: the record of {} is another's", occurrence.at))
            }
        }
    }

    fn saved(&mut self, id: SaveId, outcome: &SaveOutcome) -> Result<(), String> {
        let Some((told, concluded)) = self.asked.remove(&id) else { return Ok(()) };
        let Told { occurrence, report } = told;
        match (outcome, concluded) {
            (SaveOutcome::Saved { .. }, Some(Concluded::Write(record))) => {
                self.count("occurrences: recorded");
                if record.watermark >= occurrence.at {
                    let occasion = Occasion::Scheduled(occurrence.at);
                    let is_it = |ended: &&Ended| ended.occasion == occasion;
                    let ended = record.ended.iter().find(is_it).map(|ended| ended.outcome);
                    self.recorded.insert(occurrence.at, ended.unwrap_or_else(|| report.into()));
                }
                Ok(())
            }
            (SaveOutcome::Nothing, Some(Concluded::Write(_))) => {
                Err(format!("T8: {} was to be written, and nothing was", occurrence.at))
            }
            (SaveOutcome::Unknown, _) => {
                self.count("occurrences: unknown");
                Ok(())
            }
            (
                SaveOutcome::Saved { .. }
                | SaveOutcome::Nothing
                | SaveOutcome::NotSaved(_)
                | SaveOutcome::Ended,
                _,
            ) => Ok(()),
        }
    }
}

impl World {
    /// A client that comes names an occurrence, where clients do: one of now, or one of just before. Who
    /// calls again and again names none.
    pub(crate) fn name_occurrence(&mut self, index: usize, terms: Arc<Terms>) -> Arc<Terms> {
        let mut random = self.chance.of(About::Arrival, 3, index as u64);
        let is_plain = self.clients[index].calls.is_some() || terms.share().is_some();
        if !self.plan.crossing.occurrences || self.calm || is_plain || random.chance(200) {
            return terms;
        }
        let now = UtcSecond::from(self.storage.date(self.now)).0;
        let back = BETWEEN * i64::try_from(random.below(3)).unwrap();
        let max_attempts = random.chance(400).then(|| 1 + u32::from(random.chance(500)));
        let at = UtcSecond(now - now.rem_euclid(BETWEEN) - back);
        let terms = Arc::new(Terms { decides: true, ..Terms::clone(&terms) });
        let client = &mut self.clients[index];
        client.occurrence = Some(Occurrence { at, max_attempts });
        client.terms = Arc::clone(&terms);
        terms
    }

    /// What a holder's release saves: how its occurrence has ended, in one write with the checkpoint if it
    /// has one.
    pub(crate) fn conclusion(
        &mut self,
        index: usize,
        heard: bool,
        save: Option<(SaveId, CheckpointValue)>,
    ) -> Option<SaveAsked> {
        let client = &self.clients[index];
        let mut random = self.chance.of(About::Save, index, client.acts + (3 << 32));
        // Who has not heard of its grant has nothing to say.
        let occurrence = client.occurrence.filter(|_| heard && random.chance(800));
        let (id, value) = match save {
            Some((id, value)) => (id, Some(value)),
            None => {
                occurrence?;
                self.checks.occurrences.last += 1;
                (SaveId(OUTCOMES + self.checks.occurrences.last), None)
            }
        };
        if let Some(occurrence) = occurrence {
            let reports = [
                Report::Succeeded,
                Report::Succeeded,
                Report::Failed,
                Report::Returned,
                Report::FailedFinal,
            ];
            let place = usize::try_from(random.below(reports.len() as u64)).unwrap();
            let told = Told { occurrence, report: reports[place] };
            self.checks.occurrences.asked.insert(id, (told, None));
        }
        Some(SaveAsked { id, value, decides: occurrence.is_some() })
    }

    /// As the coordinator's task does: what is asked is answered before anything else happens.
    pub(crate) fn decide(&mut self, index: usize, of: WriteOf, found: &Found) {
        let verdict = match of {
            WriteOf::Grant(caller) => {
                let occurrence = self.clients[self.whose[&caller]].occurrence.unwrap();
                let counts_its_own = self.bug == Some(Bug::CountsItsOwnStart);
                self.checks.occurrences.claim(caller, occurrence, found, counts_its_own)
            }
            WriteOf::Save(id) => self.checks.occurrences.conclude(id, found),
        };
        self.handle(index, Event::Decided { of, verdict });
    }
}
