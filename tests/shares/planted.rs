//! Bugs that the simulator must find. They act in what drives the machines, or between them and the store.

use std::time::Duration;

use leasehold::hold::{Action, Answer, Event, Look, Request, Stored};
use leasehold::record::Fields;

use crate::kit::{Planted, listed};
use crate::shares::directed;
use crate::shares::spread::{self, SIZES, Scenario};
use crate::shares::world::World;

listed! {
    /// A mistake that somebody could make.
    pub(crate) enum Bug {
        /// What stands in a record about an earlier holder's grant is believed of the one after it (S36).
        FormerFieldsBelieved,
        /// What is being acquired is not counted as had (S34).
        AcquiringNotCounted,
        /// Locks of a share are acquired side by side (S34).
        TurnIgnored,
        /// A free lock is left to nobody (S34).
        NoPatience,
        /// It is left for h × 500 ms only, as S34's plain words have it: others look up to a poll cap later.
        PlainPatience,
        /// The lock is not kept for who had it broken (S33).
        NoReservation,
        /// The note of an earlier break is not looked at (S33).
        BreaksEachPoll,
        /// Whoever waits takes locks from whoever has some (S35).
        BothSidesRevoke,
        /// A lock of another priority is moved too (S35).
        PriorityIgnored,
        /// What this sidecar has itself counts as somebody's move (S35).
        OwnRestartsMinute,
        /// One try has a lock broken (S33).
        OneTryBreaks,
        /// A holder that does not yield is broken (S33).
        ConsentIgnored,
    }
}

impl Bug {
    /// What a seed of the scenario that is to find it shows.
    pub(crate) fn shows(self, seed: u64) -> Option<String> {
        let world = match self {
            Self::FormerFieldsBelieved
            | Self::PriorityIgnored
            | Self::OneTryBreaks
            | Self::BothSidesRevoke
            | Self::ConsentIgnored => directed::mixed(seed, Some(self)),
            Self::TurnIgnored => directed::alone(seed, true, 5, Some(self)),
            Self::NoReservation => {
                let shown = directed::take_over(seed, 10, Some(self));
                shown.world
            }
            Self::BreaksEachPoll => directed::crash_loop(seed, Some(self)),
            Self::OwnRestartsMinute => {
                let shown = directed::scale_out(seed, 10, Some(self));
                let late = shown.after.is_none_or(|after| after > Duration::from_secs(600));
                return late.then(|| "S35: the new one has its part late".to_owned());
            }
            Self::AcquiringNotCounted | Self::NoPatience | Self::PlainPatience => {
                let world = spread::run(seed, SIZES[0], Scenario::ColdStart, Some(self), false);
                let spread = world.spread(SIZES[0].locks);
                return (spread > Some(1)).then(|| format!("S34: a spread of {spread:?}"));
            }
        };
        world.checks.violation
    }
}

impl Planted for Bug {}

const LEASE: &str = "leasehold_lease";
const PRIORITY: &str = "leasehold_priority";
const YIELDS: &str = "leasehold_yields";
const RESERVED: &str = "leasehold_reserved";
/// What an older build neither writes nor takes away.
const UNKNOWN_TO_OLD: [&str; 5] =
    ["leasehold_sidecar", PRIORITY, YIELDS, "leasehold_share", RESERVED];

impl World {
    /// A request as the sidecar sends it: an older build keeps what it does not know (S36).
    pub(crate) fn as_written(&self, at: usize, lock: usize, action: &Action) -> Action {
        let mut action = action.clone();
        if let Action::Store { what: Request::Write { fields, .. }, .. } = &mut action {
            if self.sidecars[at].is_old {
                let stored = self.store.fields(lock, self.now);
                for name in UNKNOWN_TO_OLD {
                    match stored.get(name) {
                        Some(value) => fields.insert(name.to_owned(), value.clone()),
                        None => fields.remove(name),
                    };
                }
            }
            if self.bug == Some(Bug::NoReservation) {
                fields.remove(RESERVED);
            }
        }
        action
    }

    /// An answer as the sidecar reads it.
    pub(crate) fn as_read(&self, at: usize, mut event: Event) -> Event {
        if self.bug.is_none() {
            return event;
        }
        match &mut event {
            Event::Answer {
                answer: Answer::Read(Ok(stored)) | Answer::Acquire { read: Some(Ok(stored)), .. },
                ..
            } => self.misread(at, stored),
            Event::Answer { answer: Answer::Look(Ok(Look { stored, note, .. })), .. } => {
                self.misread(at, stored);
                if self.bug == Some(Bug::BreaksEachPoll)
                    && let Some(note) = note
                {
                    note.for_priority = None;
                }
            }
            _ => {}
        }
        event
    }

    fn misread(&self, at: usize, stored: &mut Stored) {
        let fields = &mut stored.fields;
        let Some(lease) = fields.get(LEASE).cloned() else { return };
        match self.bug {
            Some(Bug::FormerFieldsBelieved) => believe(fields, &lease),
            Some(Bug::PriorityIgnored) => {
                let ours = self.clients.iter().find(|client| client.at == at);
                let priority = ours.map_or(0, |client| client.profile.priority);
                fields.insert(PRIORITY.to_owned(), format!("{lease}.{priority}"));
            }
            Some(Bug::ConsentIgnored) => {
                fields.insert(YIELDS.to_owned(), format!("{lease}.1"));
            }
            _ => {}
        }
    }
}

/// Takes what is about an earlier lease for what is about this one.
fn believe(fields: &mut Fields, lease: &str) {
    for name in UNKNOWN_TO_OLD {
        if let Some(value) = fields.get_mut(name)
            && let Some((_, said)) = value.split_once('.')
        {
            *value = format!("{lease}.{said}");
        }
    }
}

/// By how much clocks and the dates of answers may be off.
pub(crate) const SLACK: Duration = Duration::from_secs(2);
