//! What callers write beside their tokens, and at the end of their holds, as the product decides it (T6, T8).

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use leasehold::hold::{CallerId, SaveId, WriteOf};
use leasehold::lock::FencingToken;
use leasehold::record::{Found, Verdict};
use leasehold::schedule::{
    Beside, DecisionInput, Import, Occasion, Occurrence, Plan, Report, RunEnded, RunId, RunReport,
    ScheduleRecord, Spec, TakeOver, claim_over, conclude_over, start_over,
};
use leasehold::time::UnixMillis;
use leasehold::timetable::UtcSecond;

use crate::schedule::rig::{path, plan_of, spec};

/// When the schedule of these locks began: a quarter of an hour before the store's time.
const BEGAN: UtcSecond = UtcSecond(1_800_000_000 - 900);

static PLAN: LazyLock<Arc<Plan>> = LazyLock::new(|| {
    let spec = Spec { max_attempts: Some(2), ..spec("*/5 * * * *") };
    let definition = leasehold::schedule::Definition::new(spec).unwrap();
    Arc::new(plan_of(None, &definition, true, None, BEGAN).write.unwrap())
});

fn one_of<T: Copy>(choices: &[T], number: u64) -> T {
    let mut choices = choices.iter().cycle();
    *choices.nth(usize::try_from(number % 64).unwrap()).unwrap()
}

fn ground() -> DecisionInput {
    DecisionInput {
        path: path(),
        plan: Arc::clone(&PLAN),
        plan_at: None,
        newest: None,
        lease_duration: Duration::from_secs(15),
        queued: Duration::ZERO,
        store_time: UnixMillis(1_800_000_000_000),
    }
}

/// One of a few occurrences around the store's time: old ones, one that is now, one in the future.
fn occurrence(number: u64) -> Occurrence {
    let at =
        [BEGAN, UtcSecond(1_800_000_000 - 60), UtcSecond(1_800_000_000), UtcSecond(1_800_000_060)];
    let max_attempts = u32::try_from(number % 3).ok().filter(|most| *most > 0);
    Occurrence { at: one_of(&at, number), max_attempts }
}

const REPORTS: [Report; 6] = [
    Report::Succeeded,
    Report::Failed,
    Report::FailedFinal,
    Report::Returned,
    Report::TimedOut,
    Report::Withdrawn,
];

/// How the run that stands in the record has ended, or one that never was.
fn report(number: u64, found: &Found) -> RunReport {
    let record = ScheduleRecord::from_fields(&found.fields).ok().flatten();
    let (occasion, attempt, token) = match record.and_then(|record| record.run) {
        Some(run) => (run.occasion, run.attempt, run.token),
        None => (Occasion::Scheduled(BEGAN), 1, FencingToken::from_u64(4_096).unwrap()),
    };
    let run_id = RunId { path: path(), occasion, attempt, token };
    let ended = RunEnded { run_id, report: one_of(&REPORTS, number), at: UtcSecond(0) };
    RunReport { ground: ground(), ended }
}

/// What is written for a caller, or a save: by its number each way in turn.
pub(crate) fn decide(of: WriteOf, found: &Found) -> Verdict {
    match of {
        WriteOf::Grant(CallerId(number)) => match number % 5 {
            0 | 1 => claim_over(found, occurrence(number / 5), &[]).0,
            2 => start_over(found, &ground(), &Beside::default()).0,
            3 => report(number / 5, found).write_over(found, false, &Beside::default()).0,
            _ => {
                let take_over =
                    TakeOver { done_up_to: BEGAN, next: None, replace: number % 2 == 0 };
                let plan = (number % 3 == 0).then(|| ground().plan);
                Import { take_over, plan }.write_over(found).0
            }
        },
        WriteOf::Save(SaveId(number)) if number.is_multiple_of(2) => {
            conclude_over(found, occurrence(number / 2), one_of(&REPORTS, number / 2)).0
        }
        WriteOf::Save(SaveId(number)) => {
            report(number, found).write_over(found, true, &Beside::default()).0
        }
    }
}
