//! What chance decides in a schedule. The numbers of these belong to the choices of a seed.

use crate::kit::{self, Topic};
use crate::simulation::rivals::RIVALS;

/// What a choice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum About {
    /// How the whole schedule is.
    Plan,
    /// A client comes.
    Arrival,
    /// What a client does next.
    Act,
    /// How long something takes.
    Delay,
    /// Something happens to a sidecar, a machine or the store.
    Trouble,
    LoseRequest,
    LoseAnswer,
    RepeatRequest,
    DelayRequest,
    DelayAnswer,
    /// The connection is reset: the outcome is unknown at once.
    Reset,
    DelayMessage,
    /// A record write is held up (S13).
    LateWrite,
    /// A renewal is answered after its time-out (S2).
    SlowAnswer,
    /// The store's clock is set (S5, S11).
    StoreClock,
    /// A client saves, and how it takes a notice (S22, S23).
    Save,
    /// A lock is broken, now or with a delay (S17, S22).
    Break,
    /// A client that has released resumes all the same (S16).
    Ghost,
    /// A renewal waits for its turn (S7).
    HeldBack,
    /// A request is done, and its sender told to have patience (S8).
    DoneThrottled,
}

impl Topic for About {
    fn number(self) -> u8 {
        self as u8
    }
}

pub(crate) type Chance = kit::Chance<About>;

impl Chance {
    /// Whether callers have priorities (S33).
    pub(crate) const fn has_rivals(&self) -> bool {
        self.seed >= RIVALS
    }
}
