//! What chance decides in a schedule. The numbers of these belong to the choices of a seed.

use crate::kit::{self, Topic};

/// What a choice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum About {
    /// How the whole schedule is.
    Plan,
    /// What a client does next.
    Act,
    /// How long something takes.
    Delay,
    /// Something happens to a sidecar or to the service.
    Trouble,
    LoseRequest,
    LoseAnswer,
    RepeatRequest,
    DelayRequest,
    DelayAnswer,
    /// The connection is reset: the outcome is unknown at once.
    Reset,
    /// The service says that it is busy, or fails.
    Refuse,
    /// The answer is none that counts.
    OddAnswer,
    DelayMessage,
    /// The answer of a sidecar does not reach its client.
    LoseReply,
    ClientPause,
    /// A client saves a checkpoint.
    Save,
    /// What the service says it is too busy for, or fails at, is done all the same.
    DoneRefused,
}

impl Topic for About {
    fn number(self) -> u8 {
        self as u8
    }
}

pub(crate) type Chance = kit::Chance<About>;
