//! What a write of a lock's record may change of its schedule (T2, T5, T7, T9, T11, T12, T18, T21).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::schedule::{
    Definition, Ended, Occasion, Outcome, Overlap, Plan, Report, Run, RunTimeout, ScheduleRecord,
};
use leasehold::timetable::UtcSecond;

use super::anew;
use super::judge::{Judge, RunKey, Seen, Written, earliest, latest};
use super::terms::{ALL, LONGEST_GAP, MOST_ATTEMPTS};
use crate::world::shared::World;

/// How often a run may be given back beside its attempts, by its caller and by its sidecar (T6, T11).
const MOST_RETURNS: usize = 20;
/// Two front ends differ by 3 s at the most, and each shows whole seconds.
pub(super) const APART: i64 = 4;
/// A run until the next is due lasts for two gaps at the most, and the spread.
const MOST_SPAN: i64 = 2 * LONGEST_GAP.as_secs().cast_signed() + 10;
/// Where what falls due beside it is skipped: a day, and these gaps are no longer (T10).
const MOST_SPAN_OF_SKIP: i64 = 86_400;

/// A record was written, and this is what it says now.
pub(super) fn written(
    world: &World,
    judge: &mut Judge,
    lock: &str,
    (made, after): (Duration, Option<ScheduleRecord>),
) -> Option<String> {
    let seen = judge.seen(lock);
    let definitions = std::mem::take(&mut seen.definitions);
    if seen.made != Some(made) {
        // The lock is another: nothing is known of what was before (T2).
        seen.was_lost |= seen.made.is_some();
        seen.made = Some(made);
        seen.record = None;
        seen.is_final.clear();
    }
    let before = std::mem::replace(&mut seen.record, after.clone());
    let mut wrong = None;
    match (&before, &after) {
        (Some(before), None) => wrong = Some(format!("T19: {before:?} is gone")),
        (before, Some(after)) => {
            let context = Context { world, lock, definitions: &definitions };
            wrong = anew::taken_in(seen, before.as_ref(), after)
                .or_else(|| context.written(seen, before.as_ref(), after));
        }
        (None, None) => {}
    }
    seen.definitions = definitions;
    let is_new_run = |it: &ScheduleRecord| {
        let run = before.as_ref().and_then(|before| before.run.as_ref());
        it.run.is_some() && it.run.as_ref() != run
    };
    if let Some(after) = &after {
        if is_new_run(after) {
            judge.count("runs written");
        }
        for (outcome, ended) in new_ends(before.as_ref(), after).map(|it| (it.outcome, it)) {
            let late = if ended.attempt > 1 { ", tried again" } else { "" };
            judge.count(&format!("ended {}{late}", outcome.as_str()));
        }
        let missed = before.as_ref().map_or(0, |before| before.missed);
        if after.missed > missed {
            judge.count("missed");
        }
    }
    wrong
}

/// What ended since `before`.
fn new_ends<'a>(
    before: Option<&'a ScheduleRecord>,
    after: &'a ScheduleRecord,
) -> impl Iterator<Item = &'a Ended> {
    let known = before.and_then(|before| before.ended.first());
    after.ended.iter().take_while(move |ended| Some(*ended) != known)
}

/// A definition with the timetable of this hash: their policies change without the record (T16).
pub(super) fn of_timetable<'a>(
    definitions: &'a BTreeMap<String, Definition>,
    hash: &str,
) -> Option<&'a Definition> {
    definitions.values().find(|one| one.timetable_hash() == hash)
}

struct Context<'a> {
    world: &'a World,
    lock: &'a str,
    definitions: &'a BTreeMap<String, Definition>,
}

impl Context<'_> {
    fn written(
        &self,
        seen: &mut Seen,
        before: Option<&ScheduleRecord>,
        after: &ScheduleRecord,
    ) -> Option<String> {
        // What ended stands before what began since.
        let mut ends: Vec<&Ended> = new_ends(before, after).collect();
        ends.reverse();
        for ended in ends {
            if let Some(what) = self.ended(seen, ended) {
                return Some(what);
            }
        }
        let known = before.and_then(|before| before.run.as_ref());
        if let Some(run) = after.run.as_ref().filter(|run| known != Some(run)) {
            let wrong = anew::began(self.world, seen, after)
                .or_else(|| self.began(seen, (before, after.reset), run))
                .or_else(|| self.is_limited(after, run));
            if wrong.is_some() {
                return wrong;
            }
        }
        let before = before?;
        self.went_back(before, after).or_else(|| self.counted(seen, before, after))
    }

    /// T21: nothing goes back while the lock stands, but for a watermark by a reset (T25).
    fn went_back(&self, before: &ScheduleRecord, after: &ScheduleRecord) -> Option<String> {
        let figures = |it: &ScheduleRecord| (it.watermark, it.by_hand_done, it.missed);
        let (old, new) = (figures(before), figures(after));
        let back = new.0 < old.0 && before.reset == after.reset || new.1 < old.1 || new.2 < old.2;
        back.then(|| format!("T21: the record of {} goes back from {old:?} to {new:?}", self.lock))
    }

    /// A run, or what was skipped, has this outcome now.
    fn ended(&self, seen: &mut Seen, ended: &Ended) -> Option<String> {
        let Ended { occasion, outcome, attempt, token } = ended;
        let token = token.map(|token| token.value())?;
        let key: RunKey = (occasion.clone(), token);
        let reported = seen.reported.get(&key).cloned().unwrap_or_default();
        let was_lost = seen.was_lost;
        let Some(run) = seen.runs.get_mut(&key) else {
            let what =
                format!("T8: {occasion} of {token} ended {outcome:?}, and was never written");
            return (!was_lost).then_some(what);
        };
        if run.attempt != *attempt {
            return Some(format!("T11: {occasion} ended as attempt {attempt} of {}", run.attempt));
        }
        run.ended = Some(*outcome);
        let said = |report| reported.contains(&report);
        let is_right = match outcome {
            Outcome::Succeeded => said(Report::Succeeded),
            Outcome::Failed => said(Report::Failed),
            Outcome::FailedFinal => said(Report::FailedFinal),
            // A sidecar that drains, or whose run was revoked, says so for its runner (T12, T20).
            Outcome::Returned | Outcome::Abandoned => true,
            Outcome::TimedOut => run.deadline.is_some_and(|at| at <= latest(self.world)),
            Outcome::Skipped => false,
        };
        if !is_right {
            return Some(format!(
                "T12: {occasion} ended {outcome:?}, which nobody said ({reported:?}, {run:?})"
            ));
        }
        let is_final =
            matches!(outcome, Outcome::Succeeded | Outcome::FailedFinal | Outcome::TimedOut);
        let before = if is_final { seen.is_final.insert(occasion.clone(), token) } else { None };
        before.map(|before| format!("T2: {occasion} is final by {before}, and again by {token}"))
    }

    /// A run was written with its token.
    fn began(
        &self,
        seen: &mut Seen,
        (before, reset): (Option<&ScheduleRecord>, u64),
        run: &Run,
    ) -> Option<String> {
        let Run { occasion, attempt, token, deadline, .. } = run;
        let token = token.value();
        if let Some(by) = seen.is_final.get(occasion) {
            return Some(format!("T2: {occasion} is run again with {token}: it is final by {by}"));
        }
        // T25: requests for runs by hand outlast a reset.
        let is_by_hand = matches!(occasion, Occasion::ByHand { .. });
        let is_same =
            |it: &Occasion, run: &Written| it == occasion && (run.reset == reset || is_by_hand);
        let same = seen.runs.iter().filter(|((it, _), run)| is_same(it, run));
        let (mut runs, mut last) = (0, None);
        for ((_, token), written) in same {
            (runs, last) = (runs + 1, Some((*token, *written)));
        }
        let grows = last.is_none_or(|(_, last)| {
            *attempt > last.attempt
                || *attempt == last.attempt && last.ended == Some(Outcome::Returned)
        });
        if !seen.was_lost && (!grows || last.is_some_and(|(before, _)| before >= token)) {
            return Some(format!(
                "T11: {occasion} is tried as {attempt} of {token} after {last:?}"
            ));
        }
        if *attempt > MOST_ATTEMPTS || runs > MOST_ATTEMPTS as usize + MOST_RETURNS {
            return Some(format!("T11: {occasion} is tried too often: {run:?}, {runs} before"));
        }
        let written = Written { attempt: *attempt, deadline: *deadline, ended: None, reset };
        seen.runs.insert((occasion.clone(), token), written);
        let Occasion::Scheduled(at) = occasion else { return None };
        self.is_due(seen, *at, *attempt).or_else(|| {
            let (rule, watermark) = match before.filter(|before| before.reset == reset) {
                Some(before) => ("T5", Some(before.watermark)),
                None => ("T25, T5", seen.anew.begins.get(&reset).copied()),
            };
            let passed = watermark.is_some_and(|watermark| *at <= watermark);
            passed.then(|| format!("{rule}: {at} is run, and {watermark:?} is past it: {before:?}"))
        })
    }

    /// T5: the watermark waits for its outcome. T12: it has the deadline of its definition.
    fn is_limited(&self, after: &ScheduleRecord, run: &Run) -> Option<String> {
        if run.occasion <= Occasion::Scheduled(after.watermark) {
            return Some(format!("T5: the watermark is past a run without an outcome: {after:?}"));
        }
        let definition = of_timetable(self.definitions, &after.plan.hash)?;
        let span = run.deadline.map(|deadline| deadline.seconds_since(run.started));
        let is_right = match definition.run_timeout {
            RunTimeout::None => span.is_none(),
            RunTimeout::Duration(timeout) => span == Some(timeout.as_secs().cast_signed()),
            RunTimeout::NextDue => {
                let most = match definition.overlap {
                    Overlap::Follow => MOST_SPAN,
                    Overlap::Skip => MOST_SPAN_OF_SKIP,
                };
                span.is_some_and(|span| (1..=most).contains(&span))
            }
        };
        // What is due under the definition before runs by the one that is read (T16).
        let is_known = self.definitions.len() == 1;
        (is_known && !is_right).then(|| format!("T12: {run:?} has no deadline of {definition:?}"))
    }

    fn is_due(&self, seen: &Seen, at: UtcSecond, attempt: u32) -> Option<String> {
        let definition = seen.plan.as_ref().map(Plan::definition);
        // T25: it is due at once, whatever the timetable says.
        let is_first = seen.is_first(at);
        let mut all = self.definitions.values();
        if !is_first && !all.any(|one| one.timetable.at_or_after(at) == Some(at)) {
            return Some(format!("T5: {at} is no occurrence of any definition"));
        }
        // With one definition its spread is known.
        let spread = definition
            .filter(|_| self.definitions.len() == 1 && !is_first)
            .map(|one| one.timetable.spread_offset(self.lock.as_bytes(), one.spread, at).as_secs());
        let due = at.0.saturating_add_unsigned(spread.unwrap_or(0));
        if due > latest(self.world).0 {
            return Some(format!("T7: {at} is run before it is due"));
        }
        if attempt > 1 {
            return None;
        }
        let paused = |(from, to): &&(UtcSecond, Option<UtcSecond>)| {
            from.0 + APART < at.0 && to.is_none_or(|to| at.0 + APART < to.0)
        };
        let paused = seen.pauses.iter().find(paused);
        paused.map(|pause| format!("T18: {at} fell due in the pause {pause:?}, and is run"))
    }

    /// T9: each occurrence that is final was run or is counted as missed, and under ALL it was run.
    fn counted(
        &self,
        seen: &Seen,
        before: &ScheduleRecord,
        after: &ScheduleRecord,
    ) -> Option<String> {
        let definition = of_timetable(self.definitions, &after.plan.hash)?;
        let timetable = &definition.timetable;
        let is_anew = before.reset != after.reset;
        let begins = seen.anew.begins.get(&after.reset).filter(|_| is_anew);
        // T25: what was done before a reset counts no more; all of it begins where the reset says.
        let (old, is_it) = match begins {
            Some(begins) => {
                // What was due at once before the reset is not again.
                let first = seen.plan.as_ref().and_then(Plan::first);
                let first = first.filter(|first| first.0 == begins.0 + 1);
                let is_it = seen.plan.as_ref().is_some_and(|plan| plan.since() == *begins);
                (first.or_else(|| timetable.next(*begins)), is_it)
            }
            None => (before.next, before.plan == after.plan),
        };
        let (old, new) = (old?, after.next?);
        if !is_it {
            return None;
        }
        // T16: another timetable came and went before anybody took it in.
        let missed = after.missed - before.missed;
        let is_of_another = seen.dues.iter().any(|(due, passed, hash)| {
            (*due, *passed) == (new, missed) && *hash != after.plan.hash
        });
        if !is_anew && is_of_another {
            return None;
        }
        if !is_anew && new < old {
            return Some(format!("T5: {old} goes back to {new}: {after:?}"));
        }
        let passed: BTreeSet<UtcSecond> = timetable
            .at_or_after(old)
            .into_iter()
            .flat_map(|first| std::iter::once(first).chain(timetable.occurrences_after(first)))
            .take_while(|at| *at < new)
            .chain(Some(old).filter(|old| seen.is_first(*old) && *old < new))
            .collect();
        let was_run = |at: &&UtcSecond| {
            let mut ends = seen.runs.iter().filter(|((it, _), _)| *it == Occasion::Scheduled(**at));
            ends.any(|(_, run)| {
                run.reset == after.reset
                    && run.ended.is_some_and(|outcome| outcome != Outcome::Returned)
            })
        };
        let run = passed.iter().filter(was_run).count() as u64;
        let all = passed.len() as u64;
        let told = || {
            format!(
                "of {all} occurrences from {old} to {new} {run} were run, {missed} missed ({after:?})"
            )
        };
        let may_skip = seen.was_paused || !seen.pauses.is_empty() || seen.was_lost;
        // With the lock it was forgotten that one was tried before (T2): what was abandoned then is skipped
        // once more.
        let may_repeat = seen.was_lost;
        if run + missed > all && !may_repeat || run + missed < all && !may_skip {
            let rule = if is_anew { "T25, T9" } else { "T9" };
            return Some(format!("{rule}: {}", told()));
        }
        // Of those that differ in their policies alone any may be in force (T16).
        let is_all = self
            .definitions
            .values()
            .all(|one| one.catch_up == ALL && one.overlap == Overlap::Follow);
        let ran_all = is_all && missed > 0 && !may_skip && earliest(self.world) > old;
        // What was only ever given back, and is not any more, is counted as missed.
        let returned = passed.iter().any(|at| {
            let occasion = Occasion::Scheduled(*at);
            seen.runs.iter().any(|((it, _), run)| *it == occasion && run.reset == after.reset)
        });
        (ran_all && !returned).then(|| format!("T9, ALL: {}", told()))
    }
}
