//! What happened: a timeline to read, and numbers that show that enough has happened.

use std::time::Duration;

use leasehold::coordinator::{HeldEvent, HoldEvent};

use crate::kit::Counts;

#[derive(Debug, Default)]
pub(crate) struct Story {
    /// The timeline, if it is wanted.
    pub(crate) lines: Option<Vec<String>>,
    pub(crate) counts: Counts,
}

impl Story {
    pub(crate) fn told() -> Self {
        Self { lines: Some(Vec::new()), ..Self::default() }
    }

    pub(crate) fn note(&mut self, now: Duration, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:10.3}  {}", now.as_secs_f64(), line()));
        }
    }

    pub(crate) fn count(&mut self, what: impl Into<String>) {
        *self.counts.entry(what.into()).or_default() += 1;
    }
}

/// What an event says, shortly.
pub(crate) fn told(event: &HoldEvent) -> String {
    match event {
        HoldEvent::Waiting { .. } => "waiting".to_owned(),
        HoldEvent::Granted(grant) => format!("granted: {}", grant.token),
        HoldEvent::Busy(_) => "busy".to_owned(),
        HoldEvent::Settled { .. } | HoldEvent::AlreadyDone(_) | HoldEvent::Skipped { .. } => {
            "settled".to_owned()
        }
        HoldEvent::Held(HeldEvent::Renewed(validity)) => {
            format!("renewed: {:?}", validity.valid_for)
        }
        HoldEvent::Held(HeldEvent::Extended(extended)) => {
            format!("extended: {:?}", extended.validity.valid_for)
        }
        HoldEvent::Held(HeldEvent::AtRisk { detail, .. }) => format!("at risk: {detail}"),
        HoldEvent::Held(HeldEvent::Recovered(_)) => "recovered".to_owned(),
        HoldEvent::Held(HeldEvent::Revoked { validity, .. }) => {
            format!("revoked: {:?}", validity.valid_for)
        }
        HoldEvent::Held(HeldEvent::Draining { .. }) => "draining".to_owned(),
        HoldEvent::Held(HeldEvent::Lost { reason, detail, .. }) => {
            format!("lost {}: {detail}", reason.as_str())
        }
        HoldEvent::Released(released) => format!("released: {released:?}"),
        HoldEvent::Failed(error) => format!("failed: {error}"),
    }
}
