//! Schedules that found something, and what must occur in a run.

/// A run in which one of these does not occur proves less than it seems to.
pub(crate) const MUST_OCCUR: &[&str] = &[
    "! Break",
    "! BreakNow",
    "! ContainerDeleted",
    "! Crash",
    "! CutOff",
    "! Denied",
    "! Drain",
    "! LockDeleted",
    "! Policy",
    "! Rotation",
    "! Throttled",
    "! WallStep",
    "fault: ClientPause",
    "fault: DelayAnswer",
    "fault: DelayMessage",
    "fault: DelayRequest",
    "fault: LoseAnswer",
    "fault: LoseReply",
    "fault: LoseRequest",
    "fault: OddAnswer",
    "fault: Refuse",
    "fault: RepeatRequest",
    "fault: Reset",
];
