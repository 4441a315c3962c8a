//! What happened: a timeline to read, and numbers that show that enough has happened.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::hold::{Action, Answer, Event, Failure, LossReason, Notice};
use leasehold::testing::{TraceEvent, Traced};

use crate::kit::Counts;

/// What happens to a sidecar, to clients, or to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Happening {
    CutOff,
    Throttled,
    Denied,
    ShortPause,
    LongPause,
    ClientPause,
    Crash,
    Drain,
    /// A drain after which a replacement follows (S15).
    HandOver,
    Break,
    BreakNow,
    /// First so that the lease runs out, then at once (S22).
    BreakTwice,
    /// Through a sidecar.
    BreakHere,
    /// By another tool, with a period and without a note.
    ForeignBreak,
    Deletion,
    OlderCopy,
    TokenGarbled,
    /// A virtual machine stands still, and no clock of it counts that.
    MachineMoved,
    WallSteps,
    WallSwings,
    WallSlews,
    /// The store's clock goes back (S5, S11).
    StoreClockBack,
}

impl Happening {
    /// What happens to clocks only.
    pub(crate) const CLOCKS: [Self; 3] = [Self::WallSteps, Self::WallSwings, Self::WallSlews];

    /// What happens to locks where breaks are looked at (S17, S22).
    pub(crate) const BREAKS: [Self; 5] =
        [Self::Break, Self::Break, Self::BreakTwice, Self::BreakHere, Self::ForeignBreak];

    pub(crate) const ALL: [Self; 17] = [
        Self::CutOff,
        Self::Throttled,
        Self::Denied,
        Self::ShortPause,
        Self::LongPause,
        Self::ClientPause,
        Self::Crash,
        Self::Drain,
        Self::Break,
        Self::BreakNow,
        Self::Deletion,
        Self::OlderCopy,
        Self::TokenGarbled,
        Self::MachineMoved,
        Self::WallSteps,
        Self::WallSwings,
        Self::WallSlews,
    ];
}

#[derive(Debug, Default)]
pub(crate) struct Story {
    /// The timeline, if it is wanted.
    pub(crate) lines: Option<Vec<String>>,
    /// What clients were told, for the model's monitor, if it is wanted.
    pub(crate) trace: Option<Vec<TraceEvent>>,
    transitions: BTreeMap<(&'static str, &'static str), u64>,
    happenings: BTreeMap<Happening, u64>,
    losses: BTreeMap<LossReason, u64>,
    told: BTreeMap<&'static str, u64>,
    failures: BTreeMap<&'static str, u64>,
    /// Pauses that were suspected (S3).
    suspected: u64,
    /// Pauses that no boot clock counted, and that another clock showed.
    pub(crate) shown: u64,
    /// Clocks that were not heard any more after that.
    pub(crate) not_heard: u64,
}

impl Story {
    pub(crate) fn told() -> Self {
        Self { lines: Some(Vec::new()), trace: Some(Vec::new()), ..Self::default() }
    }

    pub(crate) fn note(&mut self, now: Duration, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:10.3}  {}", now.as_secs_f64(), line()));
        }
    }

    /// Notes what a client was told or did, on the true clock.
    pub(crate) fn trace(&mut self, now: Duration, client: usize, what: Traced) {
        if let Some(trace) = &mut self.trace {
            let at = u64::try_from(now.as_micros()).unwrap();
            let process = format!("client {client}");
            trace.push(TraceEvent { at, process, path: "lock".to_owned(), what });
        }
    }

    pub(crate) fn transition(&mut self, before: &'static str, after: &'static str) {
        if before != after {
            *self.transitions.entry((before, after)).or_default() += 1;
        }
    }

    pub(crate) fn happens(&mut self, now: Duration, what: Happening, sidecar: usize) {
        self.note(now, || format!("!           {what:?} ({sidecar})"));
        *self.happenings.entry(what).or_default() += 1;
    }

    pub(crate) fn count_event(&mut self, event: &Event) {
        self.suspected += u64::from(matches!(event, Event::PauseSuspected));
    }

    pub(crate) fn count_action(&mut self, action: &Action) {
        let name = match action {
            Action::Tell { notice: Notice::Granted(grant), .. } if grant.resumed => "resumed",
            Action::Tell { notice: Notice::Granted(grant), .. } if grant.token.hand_offs() > 0 => {
                "handed on"
            }
            Action::Tell { notice: Notice::Granted(_), .. } => "granted",
            Action::Tell { notice: Notice::Renewed { .. }, .. } => "renewed",
            Action::Tell { notice: Notice::AtRisk { .. }, .. } => "at risk",
            Action::Tell { notice: Notice::Recovered { .. }, .. } => "recovered",
            Action::Tell { notice: Notice::Revoked { .. }, .. } => "revoked",
            Action::Tell { notice: Notice::Draining { .. }, .. } => "draining",
            Action::Tell { notice: Notice::Released { .. }, .. } => "released",
            Action::Tell { notice: Notice::NotConfirmed { .. }, .. } => "release not confirmed",
            Action::Tell { notice: Notice::Moved, .. } => "moved",
            Action::Tell { notice: Notice::Superseded { .. }, .. } => "superseded",
            Action::Tell { notice: Notice::Interrupted, .. } => "interrupted",
            Action::Tell { notice: Notice::Extended { .. }, .. } => "extended",
            Action::Tell { notice: Notice::Busy(_), .. } => "busy",
            Action::Tell { notice: Notice::Failed(_), .. } => "failed",
            Action::Tell { notice: Notice::Settled { .. }, .. } => "settled",
            Action::Tell { notice: Notice::ResumeRefused { .. }, .. } => "resume refused",
            Action::Tell { notice: Notice::Lost { reason, .. }, .. } => {
                *self.losses.entry(*reason).or_default() += 1;
                return;
            }
            _ => return,
        };
        *self.told.entry(name).or_default() += 1;
    }

    pub(crate) fn count_answer(&mut self, event: &Event) {
        let Event::Answer {
            answer:
                Answer::Acquire { lease: Err(failure), .. }
                | Answer::Read(Err(failure))
                | Answer::Write(Err(failure))
                | Answer::Renew(Err(failure))
                | Answer::Release(Err(failure))
                | Answer::Look(Err(failure)),
            ..
        } = event
        else {
            return;
        };
        let name = match failure {
            Failure::Contended => "contended",
            Failure::Taken => "taken",
            Failure::Broken => "broken",
            Failure::Deleted => "deleted",
            Failure::Changed => "changed",
            Failure::Unknown(_) | Failure::NotDone(_) | Failure::Refused(_) => return,
        };
        *self.failures.entry(name).or_default() += 1;
    }

    /// Everything that was counted.
    pub(crate) fn counts(&self) -> Counts {
        let transitions =
            self.transitions.iter().map(|((from, to), count)| (format!("{from} → {to}"), *count));
        let happenings =
            self.happenings.iter().map(|(what, count)| (format!("! {what:?}"), *count));
        let losses =
            self.losses.iter().map(|(why, count)| (format!("lost: {}", why.as_str()), *count));
        let told = self.told.iter().map(|(what, count)| (format!("told: {what}"), *count));
        let failures = self.failures.iter().map(|(what, count)| (format!("store: {what}"), *count));
        let clocks = [
            ("pauses suspected", self.suspected),
            ("pauses shown", self.shown),
            ("clocks not heard", self.not_heard),
        ];
        let clocks = clocks.into_iter().map(|(name, count)| (name.to_owned(), count));
        transitions
            .chain(happenings)
            .chain(losses)
            .chain(told)
            .chain(failures)
            .chain(clocks)
            .collect()
    }
}
