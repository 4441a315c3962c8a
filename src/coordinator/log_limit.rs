//! Log lines that a stranger can cause: bounded, so that nobody fills the log.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::time::Instant;

/// The shortest time between two lines of a kind.
const PAUSE: Duration = Duration::from_secs(10);

/// A kind of line.
#[derive(Debug, Default)]
pub struct LogLimit(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    left_out: u64,
}

impl LogLimit {
    /// How many were left out since the last line, if there is to be a line now.
    #[must_use]
    pub fn line(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.is_some_and(|last| now.saturating_since(last) < PAUSE) {
            state.left_out += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s20_a_stranger_causes_a_line_in_ten_seconds_and_the_others_are_counted() {
        let limit = LogLimit::default();
        let at = |seconds| Instant::from_boot(Duration::from_secs(seconds));
        let lines: Vec<_> = [5, 6, 14, 15, 30].map(|seconds| limit.line(at(seconds))).into();
        assert_eq!(lines, [Some(0), None, None, Some(2), Some(0)]);
    }
}
