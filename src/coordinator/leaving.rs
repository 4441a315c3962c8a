//! Holds that are left to another sidecar: they end here, and are not over (S15, S16).

use super::error::CallError;
use super::hold_event::HoldEvent;
use super::journal::{HappeningKind, News};
use super::observe::{HoldEnd, Observation};
use super::task::Task;
use super::trace::TraceEnd;
use crate::hold::CallerId;
use crate::lock::FencingToken;

impl Task {
    /// The hold goes on at another sidecar (S16): calls about it are answered as those about a hold that was
    /// never here.
    pub(super) fn tell_moved(&mut self, id: CallerId) {
        let path = self.path_at(id);
        tracing::info!(lock = %path, "a hold continues at another sidecar");
        self.happened(News::of(HappeningKind::ResumedElsewhere, &path));
        self.tell_gone(id, HoldEnd::ResumedElsewhere, &CallError::Superseded);
    }

    /// The sidecar ends, and the hold does not: it goes on at the replacement, or its lease runs out (S15,
    /// S16).
    pub(super) fn tell_interrupted(&mut self, id: CallerId) {
        let token = self.callers.get(&id).and_then(|caller| caller.token);
        let path = self.path_at(id);
        self.happened(News::of(HappeningKind::HandedOver, &path).to("", token));
        let token = token.map(FencingToken::value);
        tracing::info!(lock = %path, token, "left to the replacement");
        self.tell_gone(id, HoldEnd::HandedOver, &CallError::handed_over());
    }

    /// Nothing of a hold is left here, though it may not be over.
    fn tell_gone(&mut self, id: CallerId, end: HoldEnd, why: &CallError) {
        self.forget_grant(id);
        if let Some(aside) = &mut self.aside {
            aside.releases.retain(|(caller, _)| *caller != id);
        }
        let Some(mut caller) = self.callers.remove(&id) else { return };
        let now = self.shared.clock.now();
        let held = caller.granted.map(|at| now.saturating_since(at));
        self.shared.observer.observe(&Observation::HoldEnded { end, held });
        self.shared.trace_end(caller.trace.as_ref(), TraceEnd::Ended(end));
        {
            let mut registry = self.shared.registry();
            registry.forget_hold(caller.lease_id, id);
            if std::mem::take(&mut caller.waits) {
                registry.waiter_gone();
            }
            registry.changed(&self.path.permit(caller.permit));
        }
        caller.sink.event(HoldEvent::Failed(why.clone()));
        caller.sink.answer(Err(why.clone()));
    }
}
