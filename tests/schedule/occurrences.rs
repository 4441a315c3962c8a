//! Callers with schedulers of their own in a simulated world: they name occurrences, die, come late and
//! repeat themselves, with clocks that are wrong (T1, T2). The simulator must find each planted bug.

use std::collections::BTreeMap;

use leasehold::lock::FencingToken;
use leasehold::record::Fields;
use leasehold::schedule::{
    Claimed, Concluded, Occasion, Occurrence, Outcome, Report, ScheduleRecord, claim, conclude,
};
use leasehold::testing::SeededRandom;
use leasehold::timetable::UtcSecond;

/// The occurrences are a minute apart.
const MINUTE: i64 = 60;
const START: i64 = 1_800_000_000;
const STEPS: u32 = 400;
const SEEDS: u64 = 60;
/// After so many failures an occurrence is final.
const ATTEMPTS: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// An occurrence of a fast caller is accepted, however far it is ahead.
    FutureAccepted,
    /// The start does not store the attempt.
    AttemptNotStored,
    /// The outcome is written when the occurrence is granted.
    WatermarkBeforeWork,
    /// An outcome counts for whichever run stands there.
    OutcomeOfAnother,
    /// A failure is taken for the end.
    FailureIsFinal,
}

const BUGS: [Bug; 5] = [
    Bug::FutureAccepted,
    Bug::AttemptNotStored,
    Bug::WatermarkBeforeWork,
    Bug::OutcomeOfAnother,
    Bug::FailureIsFinal,
];

/// What really happened to an occurrence.
#[derive(Debug, Default)]
struct Fate {
    /// Failures and deaths.
    failures: u32,
    done: bool,
    is_final: bool,
}

struct World {
    random: SeededRandom,
    bug: Option<Bug>,
    fields: Fields,
    token: u64,
    now: i64,
    fates: BTreeMap<UtcSecond, Fate>,
    /// Grants of callers that died, and may speak up late.
    dead: Vec<(UtcSecond, FencingToken)>,
}

impl World {
    fn new(seed: u64, bug: Option<Bug>) -> Self {
        let fields = Fields::new();
        Self {
            random: SeededRandom::new(seed),
            bug,
            fields,
            token: 0,
            now: START,
            fates: BTreeMap::new(),
            dead: Vec::new(),
        }
    }

    fn record(&self) -> Option<ScheduleRecord> {
        ScheduleRecord::from_fields(&self.fields).unwrap()
    }

    fn write(&mut self, record: ScheduleRecord) {
        self.fields = record.into_fields(std::mem::take(&mut self.fields));
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// One caller, from its arrival to its end; nobody else has the lease meanwhile.
    fn step(&mut self) -> Result<(), String> {
        self.now += i64::try_from(self.random.below(40)).unwrap();
        if self.random.chance(200) {
            self.speak_late()?;
        }
        // Mostly the newest, at times one of the last, and at times one that is not due yet.
        let behind = if self.random.chance(600) { 0 } else { self.random.below(4) };
        let ahead = if self.random.chance(100) { self.random.below(4) } else { 0 };
        let minutes =
            self.now / MINUTE - i64::try_from(behind).unwrap() + i64::try_from(ahead).unwrap();
        let at = UtcSecond(minutes * MINUTE);
        self.token += 1;
        let token = FencingToken::from_u64(self.token << 12).unwrap();
        let occurrence = Occurrence { at, max_attempts: Some(ATTEMPTS) };
        let seen = if self.has(Bug::FutureAccepted) { i64::MAX } else { self.now };
        match claim(self.record().as_ref(), occurrence, token, &[], UtcSecond(seen)) {
            (Some(record), Claimed::Granted { attempt, .. }) => {
                self.work(record, occurrence, token, attempt)
            }
            (record, Claimed::AlreadyDone(_)) => {
                if let Some(record) = record {
                    self.write(record);
                    self.fates.entry(at).or_default().is_final = true;
                }
                self.over(at)
            }
            (None, Claimed::Skipped { watermark }) if watermark > at => Ok(()),
            (None, Claimed::InFuture { .. }) if at.0 > self.now + 5 => Ok(()),
            other => Err(format!("{at} at {}: {other:?}", self.now)),
        }
    }

    /// Who is told that an occurrence is done must be told the truth.
    fn over(&self, at: UtcSecond) -> Result<(), String> {
        let newer_is_final = self.fates.range(at..).skip(1).any(|(_, fate)| fate.is_final);
        match self.fates.get(&at) {
            Some(fate) if fate.is_final || newer_is_final => Ok(()),
            fate => Err(format!("{at} is told to be done, but {fate:?}")),
        }
    }

    fn work(
        &mut self,
        mut record: ScheduleRecord,
        occurrence: Occurrence,
        token: FencingToken,
        attempt: u32,
    ) -> Result<(), String> {
        let Occurrence { at, .. } = occurrence;
        if at.0 > self.now + 5 {
            return Err(format!("{at} is granted at {}", self.now));
        }
        let fate = self.fates.entry(at).or_default();
        if fate.done || fate.is_final {
            return Err(format!("{at} is granted again: {fate:?}"));
        }
        if attempt != fate.failures + 1 || attempt > ATTEMPTS {
            return Err(format!("{at} is told attempt {attempt}: {fate:?}"));
        }
        if self.has(Bug::AttemptNotStored) {
            record.run = None;
        }
        if self.has(Bug::WatermarkBeforeWork) {
            (record.watermark, record.outcome) = (at, Some(Outcome::Succeeded));
        }
        self.write(record);
        if self.random.chance(300) {
            self.fates.entry(at).or_default().failures += 1;
            self.dead.push((at, token));
            return Ok(());
        }
        let report = match self.random.below(6) {
            0 => Report::FailedFinal,
            1 | 2 if self.has(Bug::FailureIsFinal) => Report::FailedFinal,
            1 | 2 => Report::Failed,
            3 => Report::Returned,
            _ => Report::Succeeded,
        };
        let Concluded::Write(record) = conclude(self.record().as_ref(), occurrence, token, report)
        else {
            return if self.has(Bug::AttemptNotStored) {
                Err(format!("{at}: the run does not stand there"))
            } else {
                Err(format!("{at}: the outcome of the run that goes on is refused"))
            };
        };
        self.write(*record);
        let said_failed = matches!(report, Report::Failed | Report::FailedFinal);
        let really_final = match report {
            Report::Succeeded => true,
            Report::FailedFinal => !self.has(Bug::FailureIsFinal),
            Report::Failed => attempt >= ATTEMPTS,
            Report::Returned | Report::Withdrawn | Report::TimedOut => false,
        };
        let fate = self.fates.entry(at).or_default();
        fate.done |= report == Report::Succeeded;
        fate.is_final |= really_final;
        fate.failures += u32::from(said_failed);
        Ok(())
    }

    /// Somebody who was taken for dead reports its success after others were granted the lock.
    fn speak_late(&mut self) -> Result<(), String> {
        let Some((at, token)) = self.dead.pop() else { return Ok(()) };
        let record = self.record();
        let run = record.as_ref().and_then(|record| record.run.clone());
        let stands = run.as_ref().is_some_and(|run| run.token == token);
        if stands {
            // Its lease is over: nothing of it is written.
            return Ok(());
        }
        let token = match run {
            Some(run)
                if self.has(Bug::OutcomeOfAnother) && run.occasion == Occasion::Scheduled(at) =>
            {
                run.token
            }
            Some(_) | None => token,
        };
        let occurrence = Occurrence { at, max_attempts: None };
        match conclude(record.as_ref(), occurrence, token, Report::Succeeded) {
            Concluded::Write(_) => Err(format!("{at}: an outcome of an older run is recorded")),
            Concluded::Recorded | Concluded::NotThere => Ok(()),
        }
    }
}

/// The first thing that goes wrong.
fn run(seed: u64, bug: Option<Bug>) -> Result<(), String> {
    let mut world = World::new(seed, bug);
    for step in 0..STEPS {
        world.step().map_err(|wrong| format!("seed {seed}, step {step}: {wrong}"))?;
    }
    Ok(())
}

#[test]
fn t2_no_occurrence_is_granted_after_its_outcome_and_attempts_are_told() {
    for seed in 0..SEEDS {
        assert_eq!(run(seed, None), Ok(()));
    }
}

#[test]
fn t2_every_planted_bug_is_found() {
    for bug in BUGS {
        assert!((0..SEEDS).any(|seed| run(seed, Some(bug)).is_err()), "{bug:?} is not found");
    }
}
