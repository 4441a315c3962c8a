//! Which faults there are, which come in every run, and what must have come of them.

use crate::faults::proxy::Weather;

/// What this storm does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    KillSidecar,
    KillClient,
    /// The sidecar of a save that is under way.
    KillSidecarOfSave,
    /// The client of a save that is under way.
    KillClientOfSave,
    StopSidecar,
    StopClient,
    /// It is told to end, and its replacement follows at the same address (S15).
    Replace,
    /// A job elsewhere is led to another sidecar, and what it had there breaks.
    Move,
    /// The lease of a lock that somebody works under is to run out (S17).
    Break,
    /// The same, and it ends at once.
    BreakAtOnce,
    Weather(Weather),
    /// A holder that has read and not yet saved stands still until others have counted on.
    MakeLate,
}

/// What is done first in every run, one after the other, each as soon as it can act. Notices come with
/// renewals, so breaks come before most kills.
pub(super) const FIRST: [Fault; 13] = [
    Fault::MakeLate,
    Fault::Break,
    Fault::BreakAtOnce,
    Fault::Weather(Weather::Stormy),
    Fault::KillClientOfSave,
    Fault::KillSidecarOfSave,
    Fault::Move,
    Fault::Replace,
    Fault::StopClient,
    Fault::KillClient,
    Fault::StopSidecar,
    Fault::Move,
    Fault::Weather(Weather::Gone),
];

/// What must have happened, or the storm was too gentle to prove anything.
pub(super) const MUST_OCCUR: [&str; 22] = [
    "killed: a sidecar",
    "killed: a client",
    "fault: killed while a save was under way",
    "fault: a sidecar was stopped",
    "fault: a client was stopped",
    "fault: a holder was late",
    "fault: a sidecar was replaced",
    "fault: a job was moved",
    "fault: a lock was broken to run out",
    "fault: a lock was broken at once",
    "fault: weather Stormy",
    "request: cut",
    "request: sent twice",
    "not saved: save_failed HOLD_LOST",
    "told: revoked",
    "saved after a notice",
    "with a release: saved",
    "ended: released",
    "told: interrupted",
    "told: resumed",
    "permit 0 of 2",
    "permit 1 of 2",
];
