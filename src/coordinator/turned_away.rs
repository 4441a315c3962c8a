//! Callers whose wait ends though nobody says anything about the lock: another has taken their place, or
//! their own part has had them granted nothing (T6).

use super::error::CallError;
use super::hold_event::HoldEvent;
use super::observe::AcquireResult;
use super::occurrences::settled_event;
use super::task::Task;
use crate::hold::CallerId;

impl Task {
    pub(super) fn tell_superseded(&mut self, id: CallerId, by: CallerId) {
        let Some(mut caller) = self.callers.remove(&id) else { return };
        self.shared.registry().supersede(caller.lease_id, id, by);
        self.trace_resumed(&caller, by);
        self.end_wait(&mut caller, AcquireResult::Left);
        caller.sink.event(HoldEvent::Failed(CallError::Superseded));
        caller.sink.answer(Err(CallError::Superseded));
    }

    pub(super) fn tell_settled(&mut self, id: CallerId, written: bool) {
        let path = self.path_at(id);
        let answer = self.settled_answer(id, written);
        let Some(mut caller) = self.callers.remove(&id) else { return };
        tracing::debug!(lock = %path, written, "settled: granted to nobody");
        self.shared.registry().forget_hold(caller.lease_id, id);
        self.end_wait(&mut caller, AcquireResult::Settled);
        caller.sink.event(settled_event(answer.clone()));
        caller.sink.answer(answer);
        self.shared.registry().changed(&path);
    }
}
