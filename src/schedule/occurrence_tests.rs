use super::*;
use crate::record::Fields;

const SIX: UtcSecond = UtcSecond(1_795_240_800);
const SEVEN: UtcSecond = UtcSecond(SIX.0 + 3_600);
const EIGHT: UtcSecond = UtcSecond(SIX.0 + 7_200);
const NOW: UtcSecond = EIGHT;

fn token(number: u64) -> FencingToken {
    FencingToken::from_u64(number << 12).unwrap()
}

/// A record that is written and read again at each step, as the store does.
#[derive(Default)]
struct Lock {
    fields: Fields,
    grants: u64,
}

impl Lock {
    fn record(&self) -> Option<ScheduleRecord> {
        ScheduleRecord::from_fields(&self.fields).unwrap()
    }

    fn write(&mut self, record: ScheduleRecord) {
        self.fields = record.into_fields(Fields::new());
    }

    /// What becomes of a caller that names an occurrence, and whether something was written for it.
    fn claim_within(&mut self, at: UtcSecond, max_attempts: Option<u32>) -> (Claimed, bool) {
        self.grants += 1;
        let occurrence = Occurrence { at, max_attempts };
        let granted = token(self.grants);
        let (write, claimed) = claim(self.record().as_ref(), occurrence, granted, &[], NOW);
        let writes = write.is_some();
        if let Some(record) = write {
            self.write(record);
        }
        (claimed, writes)
    }

    fn granted(&mut self, at: UtcSecond) -> u32 {
        let claim = self.claim_within(at, None);
        let (Claimed::Granted { attempt, .. }, true) = claim else { panic!("{claim:?}") };
        attempt
    }

    fn done(&mut self, at: UtcSecond) -> Ended {
        let claim = self.claim_within(at, None);
        let (Claimed::AlreadyDone(ended), false) = claim else { panic!("{claim:?}") };
        ended
    }

    /// Of the latest grant.
    fn conclude(&mut self, at: UtcSecond, report: Report) -> Concluded {
        self.conclude_of(at, None, self.grants, report)
    }

    fn conclude_of(
        &mut self,
        at: UtcSecond,
        max_attempts: Option<u32>,
        grant: u64,
        report: Report,
    ) -> Concluded {
        let occurrence = Occurrence { at, max_attempts };
        let concluded = conclude(self.record().as_ref(), occurrence, token(grant), report);
        if let Concluded::Write(record) = &concluded {
            self.write(record.as_ref().clone());
        }
        concluded
    }
}

#[test]
fn t2_an_occurrence_is_granted_until_an_outcome_is_recorded_and_never_after() {
    for report in [Report::Succeeded, Report::FailedFinal, Report::TimedOut] {
        let mut lock = Lock::default();
        assert_eq!(lock.granted(SIX), 1);
        assert!(matches!(lock.conclude(SIX, report), Concluded::Write(_)));
        let ended = lock.done(SIX);
        assert_eq!((ended.outcome, ended.attempt), (report.into(), 1));
        assert_eq!(ended.token, Some(token(1)));
        assert_eq!(lock.record().unwrap().watermark, SIX);
    }
}

#[test]
fn t2_who_dies_without_an_outcome_is_followed_by_attempt_2() {
    let mut lock = Lock::default();
    assert_eq!(lock.granted(SIX), 1);
    assert_eq!(lock.record().unwrap().outcome, None, "nothing is final before the work is done");
    assert_eq!(lock.granted(SIX), 2);
    assert_eq!(lock.granted(SIX), 3);
    let record = lock.record().unwrap();
    assert_eq!(record.run.unwrap().attempt, 3);
    assert_eq!(record.ended.len(), 1, "one entry for each occurrence: {:?}", record.ended);
}

#[test]
fn t11_a_failure_counts_and_a_return_does_not() {
    let mut lock = Lock::default();
    lock.granted(SIX);
    lock.conclude(SIX, Report::Failed);
    assert_eq!(lock.granted(SIX), 2);
    lock.conclude(SIX, Report::Returned);
    assert_eq!(lock.granted(SIX), 2);
    lock.conclude(SIX, Report::Succeeded);
    assert_eq!(lock.done(SIX).attempt, 2);
}

#[test]
fn t11_an_occurrence_that_is_returned_eleven_times_in_a_row_has_failed_once() {
    let mut lock = Lock::default();
    for _ in 0..MAX_RETURNED {
        assert_eq!(lock.granted(SIX), 1);
        lock.conclude(SIX, Report::Returned);
    }
    assert_eq!(lock.granted(SIX), 1);
    lock.conclude(SIX, Report::Returned);
    assert_eq!(lock.conclude(SIX, Report::Returned), Concluded::Recorded, "the same again");
    assert_eq!(lock.granted(SIX), 2);
}

#[test]
fn t11_attempts_that_are_used_up_are_a_final_failure() {
    let mut lock = Lock::default();
    for _ in 0..2 {
        assert!(matches!(lock.claim_within(SIX, Some(2)), (Claimed::Granted { .. }, true)));
    }
    let (Claimed::AlreadyDone(ended), true) = lock.claim_within(SIX, Some(2)) else {
        panic!("{:?}", lock.record());
    };
    assert_eq!((ended.outcome, ended.attempt), (Outcome::Failed, 2));
    assert_eq!(lock.done(SIX), ended);

    let claim = lock.claim_within(SEVEN, Some(1));
    assert!(matches!(claim, (Claimed::Granted { attempt: 1, .. }, true)), "{claim:?}");
    lock.conclude_of(SEVEN, Some(1), lock.grants, Report::Failed);
    assert_eq!(lock.done(SEVEN).outcome, Outcome::Failed, "known at the release already");
}

#[test]
fn t2_an_older_occurrence_without_an_outcome_is_skipped_once_a_newer_one_is_final() {
    let mut lock = Lock::default();
    lock.granted(SIX);
    assert_eq!(lock.granted(SEVEN), 1, "an abandoned older one is in nobody's way");
    assert_eq!(lock.granted(SIX), 2, "nor does a newer one that is not final end the older");
    assert_eq!(lock.granted(SEVEN), 2);
    lock.conclude(SEVEN, Report::Succeeded);
    assert_eq!(lock.claim_within(SIX, None), (Claimed::Skipped { watermark: SEVEN }, false));
}

#[test]
fn t2_an_older_occurrence_with_an_outcome_is_already_done() {
    let mut lock = Lock::default();
    for (at, report) in
        [(SIX, Report::Succeeded), (SEVEN, Report::Failed), (EIGHT, Report::Succeeded)]
    {
        lock.granted(at);
        lock.conclude(at, report);
    }
    assert_eq!(lock.done(SIX).outcome, Outcome::Succeeded);
    assert_eq!(lock.done(SEVEN).outcome, Outcome::Failed, "it is not tried again");
}

#[test]
fn t2_the_newest_is_known_to_be_done_when_its_run_is_forgotten() {
    let mut lock = Lock::default();
    lock.granted(SIX);
    lock.conclude(SIX, Report::FailedFinal);
    let record = ScheduleRecord { ended: Vec::new(), ..lock.record().unwrap() };
    lock.write(record);
    let ended = lock.done(SIX);
    assert_eq!((ended.outcome, ended.attempt, ended.token), (Outcome::FailedFinal, 0, None));
}

#[test]
fn a_clock_that_is_ahead_by_more_than_5_s_cannot_finish_the_future() {
    let mut lock = Lock::default();
    let future = lock.claim_within(UtcSecond(NOW.0 + 6), None);
    assert_eq!(future, (Claimed::InFuture { now: NOW }, false));
    assert!(lock.record().is_none());
    assert_eq!(lock.granted(UtcSecond(NOW.0 + 5)), 1);
}

#[test]
fn t8_an_outcome_is_taken_once_and_from_the_run_that_stands_there_only() {
    let mut lock = Lock::default();
    lock.granted(SIX);
    assert!(matches!(lock.conclude(SIX, Report::Failed), Concluded::Write(_)));
    assert_eq!(lock.conclude(SIX, Report::Failed), Concluded::Recorded);
    assert_eq!(lock.conclude(SIX, Report::Succeeded), Concluded::NotThere);
    lock.granted(SIX);
    assert_eq!(lock.conclude_of(SIX, None, 1, Report::Succeeded), Concluded::NotThere);
    assert_eq!(lock.conclude(SEVEN, Report::Succeeded), Concluded::NotThere);
    let nothing = Lock::default().conclude_of(SIX, None, 1, Report::Succeeded);
    assert_eq!(nothing, Concluded::NotThere);
}

#[test]
fn a_lock_with_a_schedule_grants_no_occurrences_of_callers() {
    let mut lock = Lock::default();
    let plan = PlanVersion { number: 1, hash: "ff".to_owned() };
    lock.write(ScheduleRecord { plan, ..first() });
    assert_eq!(lock.claim_within(SIX, None), (Claimed::HasSchedule, false));
    assert_eq!(lock.conclude(SIX, Report::Succeeded), Concluded::NotThere);
}

#[test]
fn t16_a_schedule_that_begins_on_the_lock_keeps_what_is_final_and_runs_nothing_else() {
    let mut lock = Lock::default();
    lock.granted(SIX);
    lock.conclude(SIX, Report::Succeeded);
    lock.granted(SEVEN);
    let left = adopted(lock.record().unwrap());
    assert_eq!((left.watermark, left.run), (SIX, None));
    assert_eq!(left.plan, PlanVersion { number: 0, hash: String::new() });
}

#[test]
fn t3_the_record_of_many_occurrences_keeps_its_size_and_can_be_read() {
    let mut lock = Lock::default();
    for hour in 0..100 {
        let at = UtcSecond(SIX.0 - 100 * 3_600 + hour * 3_600);
        lock.granted(at);
        lock.conclude(at, Report::FailedFinal);
    }
    let size: usize = lock.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
    assert!(size <= crate::schedule::MAX_RECORD_BYTES, "{size}");
    assert!(lock.record().unwrap().ended.len() > 10);
}

#[test]
fn t6_t11_ten_starts_that_came_to_nothing_are_counted_for_themselves() {
    let mut lock = Lock::default();
    let withdrawn = |lock: &mut Lock| {
        assert_eq!(lock.granted(SIX), 1);
        withdraw(lock.record().as_ref(), &[token(lock.grants)])
    };
    for _ in 0..10 {
        let record = withdrawn(&mut lock).unwrap();
        assert_eq!((record.run.clone(), record.ended[0].outcome), (None, Outcome::Returned));
        lock.write(record);
    }
    for _ in 0..10 {
        assert_eq!(lock.granted(SIX), 1);
        let Concluded::Write(record) = lock.conclude(SIX, Report::Returned) else { panic!() };
        assert_eq!(record.ended[0].outcome, Outcome::Returned);
    }
    assert_eq!(withdrawn(&mut lock), None, "from now on each is an attempt");
    assert_eq!(lock.granted(SIX), 2);
}
