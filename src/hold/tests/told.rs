//! What was told, looked through.

use crate::hold::{
    Action, Busy, CallerId, LossReason, NotConfirmed, Notice, SaveId, SaveOutcome, StoreFailureKind,
};
use crate::record::Checkpoint;
use crate::time::Instant;

/// A checkpoint's value as text, and its version.
pub(super) fn text(checkpoint: &Checkpoint) -> (String, u64) {
    let value = String::from_utf8_lossy(checkpoint.value.as_bytes()).into_owned();
    (value, checkpoint.version)
}

/// What the save `id` was answered.
pub(super) fn saved(told: &[Action], id: u64) -> Option<SaveOutcome> {
    told.iter().find_map(|action| match action {
        Action::Saved { id: which, outcome } if *which == SaveId(id) => Some(outcome.clone()),
        _ => None,
    })
}

/// The deadline that `caller` was told when its lease was broken.
pub(super) fn revoked(told: &[Action], caller: CallerId) -> Option<Instant> {
    told.iter().find_map(|action| match action {
        Action::Tell { caller: whom, notice: Notice::Revoked { valid_until } }
            if *whom == caller =>
        {
            Some(*valid_until)
        }
        _ => None,
    })
}

/// Why `caller` was told that its hold is lost; none if it was not.
pub(super) fn loss(told: &[Action], caller: CallerId) -> Option<LossReason> {
    told.iter().find_map(|action| match action {
        Action::Tell {
            caller: whom,
            notice: Notice::Lost { reason, .. } | Notice::ResumeRefused { reason, .. },
        } if *whom == caller => Some(*reason),
        _ => None,
    })
}

/// In which words `caller` was told that; none if it was not.
pub(super) fn loss_detail(told: &[Action], caller: CallerId) -> Option<&str> {
    told.iter().find_map(|action| match action {
        Action::Tell {
            caller: whom,
            notice: Notice::Lost { detail, .. } | Notice::ResumeRefused { detail, .. },
        } if *whom == caller => Some(&**detail),
        _ => None,
    })
}

pub(super) fn is_granted(told: &[Action], caller: CallerId) -> bool {
    told.iter()
        .any(|action| matches!(action, Action::Tell { caller: whom, notice: Notice::Granted(_) } if *whom == caller))
}

/// What `caller` was told that found the lock to be another's.
pub(super) fn busy(told: &[Action], caller: CallerId) -> Option<&Busy> {
    told.iter().find_map(|action| match action {
        Action::Tell { caller: whom, notice: Notice::Busy(busy) } if *whom == caller => {
            Some(&**busy)
        }
        _ => None,
    })
}

pub(super) fn is_busy(told: &[Action], caller: CallerId) -> bool {
    busy(told, caller).is_some()
}

pub(super) fn store_failure(told: &[Action], caller: CallerId) -> Option<StoreFailureKind> {
    told.iter().find_map(|action| match action {
        Action::Tell { caller: whom, notice: Notice::Failed(store_failure) } if *whom == caller => {
            Some(store_failure.kind)
        }
        _ => None,
    })
}

pub(super) fn released(told: &[Action], caller: CallerId) -> Option<Option<Instant>> {
    told.iter().find_map(|action| match action {
        Action::Tell { caller: whom, notice: Notice::Released { resting_until } }
            if *whom == caller =>
        {
            Some(*resting_until)
        }
        _ => None,
    })
}

/// Why `caller` was told that its release was not confirmed; none if it was not.
pub(super) fn not_confirmed(told: &[Action], caller: CallerId) -> Option<NotConfirmed> {
    told.iter().find_map(|action| match action {
        Action::Tell { caller: whom, notice: Notice::NotConfirmed { why, .. } }
            if *whom == caller =>
        {
            Some(*why)
        }
        _ => None,
    })
}
