//! A sidecar that ends and is followed by a replacement (S15): what it may tell and send then, and what is
//! left to clients.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::hold::{Action, Answer, CallerId, Event, LossReason, Notice, Request, RequestId};
use leasehold::lock::LeaseId;
use leasehold::time::Instant;

use crate::simulation::client::Stage;
use crate::simulation::world::World;

/// The sidecars that end so, and the holds that they have left to their clients.
#[derive(Debug, Default)]
pub(crate) struct HandOvers {
    /// Since when, by the sidecar's clock.
    since: BTreeMap<usize, Instant>,
    /// The renewals of each that were not answered yet, and when the latest that succeeded was sent.
    renewals: BTreeMap<(usize, RequestId), Instant>,
    renewed: BTreeMap<usize, Instant>,
    left: BTreeSet<LeaseId>,
    /// Holds that went on elsewhere after that.
    pub(crate) resumed: u64,
}

impl HandOvers {
    pub(crate) fn came_in(&mut self, sidecar: usize, event: &Event, local: Instant) {
        match event {
            Event::HandOverStarted { .. } => {
                self.since.entry(sidecar).or_insert(local);
            }
            Event::Answer { request, answer: Answer::Renew(answer) } => {
                let sent = self.renewals.remove(&(sidecar, *request));
                if let Some(sent) = sent.filter(|_| answer.is_ok()) {
                    let renewed = self.renewed.entry(sidecar).or_insert(sent);
                    *renewed = (*renewed).max(sent);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn restarted(&mut self, sidecar: usize) {
        self.since.remove(&sidecar);
        self.renewed.remove(&sidecar);
        self.renewals.retain(|(at, _), _| *at != sidecar);
    }
}

impl World {
    /// S15: nobody is told draining or lost, and nobody is told to resume before its hold was renewed once
    /// more, as far as the store answers.
    pub(crate) fn check_hand_over(&mut self, index: usize, action: &Action) {
        if let Action::Tell { notice: Notice::Granted(grant), .. } = action
            && grant.resumed
            && self.checks.hand_overs.left.remove(&grant.lease_id)
        {
            self.checks.hand_overs.resumed += 1;
        }
        let Some(since) = self.checks.hand_overs.since.get(&index).copied() else { return };
        match action {
            Action::Tell {
                notice:
                    Notice::Draining { .. }
                    | Notice::Lost { reason: LossReason::Shutdown, .. }
                    | Notice::Granted(_),
                ..
            } => {
                let text =
                    format!("S15: sidecar {index} is followed by another, and yet {action:?}");
                self.checks.fail(text);
            }
            Action::Tell { caller, notice: Notice::Interrupted } => {
                self.check_left(index, *caller, since)
            }
            _ => {}
        }
    }

    fn check_left(&mut self, index: usize, caller: CallerId, since: Instant) {
        let Some(client) = self.callers.get(&caller).map(|client| &self.clients[*client]) else {
            return;
        };
        let Some(grant) = client.grant.as_ref().filter(|_| client.stage == Stage::Holding) else {
            return;
        };
        let lease = grant.lease_duration;
        let renewed = self.checks.hand_overs.renewed.get(&index);
        // A try that was under way, and not cut off yet, is as good as another.
        let cut_off = (lease / 6).min(Duration::from_secs(5));
        let once_more = renewed.is_some_and(|sent| *sent + cut_off >= since);
        let waited = self.time_at(index).saturating_since(since) >= lease / 6;
        if client.terms.auto_renew && !once_more && !waited {
            let text = format!("S15: the hold of {caller:?} is left without another renewal");
            return self.checks.fail(text);
        }
        self.checks.hand_overs.left.insert(grant.lease_id);
    }

    /// S13, S15: nothing is released in which a client believes.
    pub(crate) fn check_release_at_hand_over(&mut self, index: usize, action: &Action) {
        if let Action::Store { request, what: Request::Renew { .. }, .. } = action {
            let now = self.time_at(index);
            self.checks.hand_overs.renewals.insert((index, *request), now);
        }
        let Action::Store { what: Request::Release { lease_id, .. }, .. } = action else { return };
        if !self.checks.hand_overs.since.contains_key(&index)
            || self.checks.truth.is_over(*lease_id)
        {
            return;
        }
        let believes = (0..self.clients.len()).find(|client| {
            let own = self.clients[*client].grant.as_ref();
            own.is_some_and(|grant| grant.lease_id == *lease_id) && self.believes(*client)
        });
        if let Some(client) = believes.filter(|client| self.clients[*client].former.is_empty()) {
            let text = format!("S15: sidecar {index} releases what client {client} believes in");
            self.checks.fail(text);
        }
    }
}
