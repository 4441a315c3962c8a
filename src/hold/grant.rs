//! What a grant makes of a lease, and of a hold that is resumed (S4, S5, S11, S16, S25).

use std::time::Duration;

use super::action::Notice;
use super::bounds::Bounds;
use super::event::{CallerId, Resume};
use super::granting::Leased;
use super::held::{Held, Phase, StoreClock};
use super::output::Output;
use super::renewal::Renewal;
use super::{Hold, Known, State};
use crate::lock::FencingToken;
use crate::time::Instant;

/// A hold that its client goes on with (S16).
#[derive(Debug)]
pub(super) struct Resumed {
    pub(super) caller: CallerId,
    pub(super) resume: Resume,
    pub(super) bounds: Bounds,
    pub(super) store_clock: StoreClock,
    /// When the renewal of its lease was sent.
    pub(super) renewed: Instant,
}

impl Hold {
    /// Grants the lock under a new lease to the caller at the front, which the record was written for; for
    /// `max_hold` at the most, if its part says so, and else on its own terms (T12).
    pub(super) fn grant_new(
        &mut self,
        lease: Leased,
        token: FencingToken,
        max_hold: Option<Duration>,
        output: &mut Output,
    ) {
        debug_assert!(output.now < lease.valid_until(), "S2: the lease has run out");
        debug_assert!(Some(token) >= self.memory.highest, "S5: {token} does not grow");
        let Some(waiter) = self.waiters.pop() else {
            return self.release_unused(lease, output);
        };
        self.memory.highest = self.memory.highest.max(Some(token));
        self.memory.handed = None;
        self.late.forget(lease.lease_id);
        self.end_overruling();
        self.note_had();
        let held = Held {
            lease_id: lease.lease_id,
            renewal: Renewal::new(lease.duration, lease.good_sent, output.now, &mut self.jitter),
            token,
            generation: self.generation_stored(),
            attempt: Box::default(),
            settled_at: None,
            written_at: output.now,
            settling: None,
            caller: waiter.caller,
            // S11: `max_hold` and the rest run from the grant.
            bounds: Bounds::new(&waiter.terms, max_hold.or(waiter.terms.max_hold), output.now),
            terms: waiter.terms,
            acquired_at: lease.time,
            granted_at: output.now,
            store_clock: StoreClock { heard: lease.heard, time: lease.time },
            told_until: output.now,
            believed_until: output.now,
            phase: Phase::Active,
            notice: None,
            saving: None,
            record_at: None,
        };
        self.tell_granted(held, false, output);
    }

    /// The generation that the record has, as we wrote it (S16).
    fn generation_stored(&self) -> u64 {
        self.memory.known.as_ref().map_or(1, |known| known.generation().max(1))
    }

    /// Goes on with a hold whose lease was renewed, and whose record was just written again (S16).
    pub(super) fn grant_resumed(&mut self, resumed: Resumed, output: &mut Output) {
        let Resumed { caller, resume, bounds, store_clock, renewed } = resumed;
        self.memory.handed = None;
        let lease_duration = resume.terms.lease_duration;
        let held = Held {
            lease_id: resume.lease_id,
            renewal: Renewal::new(lease_duration, renewed, output.now, &mut self.jitter),
            token: resume.token,
            generation: self.generation_stored(),
            attempt: resume.attempt.into(),
            // Renewals elsewhere carry If-Match on a version from before our write, so no validity that was
            // told elsewhere outlives it by D.
            settled_at: Some(output.now + lease_duration),
            written_at: output.now,
            settling: None,
            caller,
            bounds,
            terms: resume.terms,
            acquired_at: resume.acquired_at,
            granted_at: output.now,
            store_clock,
            told_until: output.now,
            // S13: what it was told before it came here counts too.
            believed_until: resume.believed_until.max(output.now),
            phase: Phase::Active,
            notice: None,
            saving: None,
            record_at: None,
        };
        self.tell_granted(held, true, output);
    }

    pub(super) fn tell_granted(&mut self, mut held: Held, resumed: bool, output: &mut Output) {
        debug_assert!(
            !self.shutdown.is_under_way(),
            "S15: nothing is granted while the sidecar shuts down"
        );
        debug_assert!(
            !self.is_unproven(held.renewal.good_sent()),
            "S3: a lease that was sent for before a suspected pause is renewed before it is granted"
        );
        self.store_failure = None;
        let checkpoint = self.memory.known.as_ref().and_then(Known::checkpoint);
        output.tell(held.caller, Notice::Granted(held.granted(resumed, checkpoint, output.now)));
        self.state = State::Held(Box::new(held));
        self.tell_taken(output);
    }
}
