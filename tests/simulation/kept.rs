//! What a resume token says of a hold's bounds, as the coordinator makes it and reads it (S16).

use std::time::Duration;

use leasehold::hold::{Granted, Terms};
use leasehold::time::{Instant, UnixMillis};

/// The clocks of a sidecar's machine at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here {
    /// Which machine: its boot id, so to speak.
    pub(crate) machine: usize,
    pub(crate) boot: Instant,
    pub(crate) wall: UnixMillis,
}

/// When a bound ends: on the boot clock where that is the same, else by the wall clock, and never more than was left.
#[derive(Clone, Copy, Debug)]
struct End {
    machine: usize,
    boot: Instant,
    wall: UnixMillis,
    left: Duration,
}

impl End {
    fn new(at: Instant, here: Here) -> Self {
        let left = at.saturating_since(here.boot);
        Self { machine: here.machine, boot: at, wall: here.wall + left, left }
    }

    fn left(&self, here: Here) -> Duration {
        let left = match self.machine == here.machine {
            true => self.boot.saturating_since(here.boot),
            false => self.wall.saturating_since(here.wall),
        };
        left.min(self.left)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    max_hold: Option<End>,
    min_hold: End,
}

impl Kept {
    pub(crate) fn made(grant: &Granted, here: Here) -> Self {
        Self {
            max_hold: grant.max_hold_ends.map(|at| End::new(at, here)),
            min_hold: End::new(grant.min_hold_ends, here),
        }
    }

    /// The newest one, after `max_hold` was set anew.
    pub(crate) fn extended(self, ends: Instant, here: Here) -> Self {
        Self { max_hold: Some(End::new(ends, here)), ..self }
    }

    /// The terms to go on with; `believed` is how long the client may still believe.
    pub(crate) fn terms(&self, terms: &Terms, here: Here, believed: Duration) -> Terms {
        let mut max_hold = self.max_hold.map(|end| end.left(here));
        if !terms.auto_renew {
            max_hold = Some(max_hold.map_or(believed, |span| span.min(believed)));
        }
        Terms { max_hold, min_hold: self.min_hold.left(here), ..terms.clone() }
    }
}
