//! A fault inside one path's task, or in a request that it polls: it ends the holds of its path and harms no
//! other.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

use super::inbox::Commands;
use super::task::{Command, Task};
use crate::coordinator::call::{CallError, HeldEvent, HoldEvent};
use crate::coordinator::observe::{AcquireResult, EndFacts, HoldEnd, LockEvent, LockEventKind};
use crate::hold::{LossReason, Memory, StoreFailureKind};
use crate::lock::Permit;

/// What callers are told; the fault itself is in the log.
const DETAIL: &str = "an internal error of the sidecar ended this hold; its lease expires";

/// Runs `task` to its end. A panic ends its holds as lost and its waits as failed.
pub(super) async fn run(mut task: Box<Task>, mut commands: Commands) {
    let running = AssertUnwindSafe(task.run(&mut commands));
    if running.catch_unwind().await.is_err() {
        task.give_up(commands);
    }
}

impl Task {
    /// Leaves nothing behind. The lease is left to expire, since nobody renews it any more (S13). What may
    /// panic again comes last.
    fn give_up(mut self: Box<Self>, mut commands: Commands) {
        self.set_timer(None);
        let shared = std::sync::Arc::clone(&self.shared);
        // S6: nor does this cut what is under way.
        std::mem::take(&mut self.requests).finish_alone();
        shared.shares.forget(&self.path);
        let mut registry = shared.registry();
        while let Some(command) = commands.try_next() {
            if let Command::Arrive(caller, _) | Command::Resume(caller, ..) = command {
                self.callers.insert(caller.id, caller);
            }
        }
        let mut memories: BTreeMap<Permit, Memory> = BTreeMap::new();
        for (permit, token) in self.queue.highest() {
            let memory = memories.entry(permit).or_default();
            memory.highest = Some(token);
            // S17: which breaks were under way is lost with the task.
            memory.may_break_arrive = true;
        }
        let mut ended = Vec::new();
        let now = shared.clock.now();
        for mut caller in std::mem::take(&mut self.callers).into_values() {
            caller.wait = None;
            let Some(granted) = caller.granted else {
                let kind = StoreFailureKind::Unavailable;
                let result = AcquireResult::Failed(kind);
                let waited = now.saturating_since(caller.arrived);
                caller.sink.end(Err(CallError::failed(kind, DETAIL)));
                ended.push((caller, LockEventKind::NotGranted { result, waited, busy: None }));
                continue;
            };
            let reason = LossReason::Expired;
            let memory = memories.entry(caller.permit).or_default();
            if let Some(entry) = registry.holds.get(&caller.lease_id) {
                memory.believe(entry.valid_until);
            }
            registry.end_hold(caller.lease_id, caller.id, HoldEnd::Lost(reason));
            registry.watchers.changed(&self.path.permit(caller.permit));
            let lost = HoldEvent::Held(HeldEvent::Lost {
                reason,
                detail: DETAIL.to_owned(),
                break_note: None,
            });
            caller.sink.event(lost);
            let facts = EndFacts {
                end: HoldEnd::Lost(reason),
                held: Some(now.saturating_since(granted)),
                waited: now.saturating_since(caller.arrived),
                detail: DETAIL,
                is_run: caller.is_run,
            };
            ended.push((caller, LockEventKind::Ended(facts)));
        }
        let memories = memories.into_iter();
        let memories = memories.map(|(permit, memory)| (self.path_of(permit), memory));
        let forgotten = registry.retire(&self.path, memories, now);
        drop(registry);
        shared.observe_forgotten(forgotten);
        shared.observe(&LockEvent::of(&self.path, LockEventKind::TaskFailed));
        for (caller, kind) in &ended {
            shared.observe_caller(&self.path.permit(caller.permit), caller, *kind);
        }
    }
}
