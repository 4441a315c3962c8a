//! The reasons that a sidecar gives with an error.

use crate::proto::ErrorReason;

/// What the names of `ErrorReason` have before the reason.
const PREFIX: &str = "ERROR_REASON_";

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// Why the sidecar refused: stable names, those of `ErrorReason` in the proto.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$doc])* $variant,)*
            /// One that this version of the client does not know.
            Other(String),
        }

        impl Reason {
            pub(crate) fn parse(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)*
                    other => Self::Other(other.to_owned()),
                }
            }

            /// The reason of this number.
            pub(crate) fn from_wire(number: i32) -> Self {
                let known = ErrorReason::try_from(number).ok();
                let name = known.and_then(|reason| reason.as_str_name().strip_prefix(PREFIX));
                name.map_or_else(|| Self::Other(number.to_string()), Self::parse)
            }

            /// The reason as it is on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Other(text) => text,
                }
            }
        }
    };
}

reasons! {
    /// A field is missing or out of its range: see [`Refusal::violations`](crate::Refusal::violations).
    InvalidField = "INVALID_FIELD",
    /// No hold of this sidecar has this lease id, or it was forgotten.
    UnknownLease = "UNKNOWN_LEASE",
    /// The lock to be broken does not exist in the store.
    UnknownLock = "UNKNOWN_LOCK",
    /// The hold is lost: see [`Refusal::loss_reason`](crate::Refusal::loss_reason).
    HoldLost = "HOLD_LOST",
    /// The hold was released.
    HoldReleased = "HOLD_RELEASED",
    /// The operator has not enabled breaking.
    BreakNotEnabled = "BREAK_NOT_ENABLED",
    /// The grant to break is over, and the lock has another holder.
    OtherHolder = "OTHER_HOLDER",
    /// The container does not exist and the sidecar may not make it.
    ContainerMissing = "CONTAINER_MISSING",
    /// No rule of the operator allows this caller to do this with this lock.
    AccessDenied = "ACCESS_DENIED",
    /// The operator forbids host id and host type in requests.
    OverrideForbidden = "OVERRIDE_FORBIDDEN",
    /// The store refuses the sidecar's credentials.
    StoreDenied = "STORE_DENIED",
    /// The bearer token is missing or wrong.
    Unauthenticated = "UNAUTHENTICATED",
    /// The user of this process is not among those whom the socket lets in.
    UserNotAllowed = "USER_NOT_ALLOWED",
    /// The store could not be reached in time.
    StoreUnavailable = "STORE_UNAVAILABLE",
    /// The store asks for patience.
    StoreThrottled = "STORE_THROTTLED",
    /// The sidecar is going away.
    ShuttingDown = "SHUTTING_DOWN",
    /// The store is damaged or misconfigured, or its disk is full.
    StoreFailed = "STORE_FAILED",
    /// The store has as many locks as it may, and this would be another.
    StoreFull = "STORE_FULL",
    /// The store fell back to an older copy of the lock.
    TokenNotGrowing = "TOKEN_NOT_GROWING",
    /// The lock's stored fencing token is there and cannot be read.
    TokenUnreadable = "TOKEN_UNREADABLE",
    /// The sidecar has as many holds as it may.
    TooManyHolds = "TOO_MANY_HOLDS",
    /// The sidecar has as many waiters as it may.
    TooManyWaiters = "TOO_MANY_WAITERS",
    /// The sidecar is at a limit, which the message names.
    LimitReached = "LIMIT_REACHED",
    /// Another stream has resumed the hold.
    Superseded = "SUPERSEDED",
    /// This client did not read its events in time; the hold may be resumed.
    StreamBehind = "STREAM_BEHIND",
    /// The validity ended before the store answered a save: the old checkpoint stands or the new one (S27).
    CheckpointUnknown = "CHECKPOINT_UNKNOWN",
    /// The sidecar that answered does not know a field that this caller has set (S37).
    Unsupported = "UNSUPPORTED",
    /// Nobody ever subscribed to a schedule on this lock.
    UnknownSchedule = "UNKNOWN_SCHEDULE",
    /// The occurrence is more than 5 s after the store's time: the caller's clock may be wrong.
    OccurrenceInFuture = "OCCURRENCE_IN_FUTURE",
    /// The operator has not enabled changes of schedules.
    ScheduleChangesNotEnabled = "SCHEDULE_CHANGES_NOT_ENABLED",
    /// 8 runs by hand wait already.
    TooManyTriggers = "TOO_MANY_TRIGGERS",
    /// The schedule's stored plan or record cannot be read, so nothing is run.
    ScheduleUnreadable = "SCHEDULE_UNREADABLE",
    /// An operator has removed the schedule; a new subscription begins it anew.
    ScheduleRemoved = "SCHEDULE_REMOVED",
    /// The schedule has subscribers at this sidecar, and is removed only by force.
    ScheduleHasSubscribers = "SCHEDULE_HAS_SUBSCRIBERS",
    /// The lock has a schedule, and the caller named an occurrence of its own.
    LockHasSchedule = "LOCK_HAS_SCHEDULE",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_reason_keeps_its_name() {
        assert_eq!(Reason::parse("NEW_ONE").as_str(), "NEW_ONE");
        assert_eq!(Reason::parse("SUPERSEDED"), Reason::Superseded);
    }

    #[test]
    fn every_documented_reason_is_known() {
        let mut seen = 0;
        for number in (1..100).filter(|number| ErrorReason::try_from(*number).is_ok()) {
            let reason = Reason::from_wire(number);
            assert!(!matches!(reason, Reason::Other(_)), "{number}");
            seen += 1;
        }
        assert_eq!(seen, 35);
        assert_eq!(Reason::from_wire(13), Reason::StoreUnavailable);
        assert_eq!(Reason::from_wire(99), Reason::Other("99".to_owned()));
    }
}
