//! A clock that tests set.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::time::{BootReading, Clock, Instant, Suspicions, UnixMillis};

/// A [`Clock`] that stands still until it is told to move, or moves with tokio's clock.
///
/// It begins 1,000 s after boot, at Unix time 1,800,000,000 s (January 2027), with the boot id `sim-boot`.
#[derive(Debug)]
pub struct SimClock {
    state: Mutex<ClockState>,
    suspicions: Mutex<Suspicions>,
}

#[derive(Debug)]
struct ClockState {
    now: Instant,
    wall: UnixMillis,
    boot_id: String,
    /// What tokio's clock showed when `now` and `wall` were last set; `None` if it is not followed.
    tokio: Option<tokio::time::Instant>,
}

impl SimClock {
    /// A clock that moves by [`SimClock::advance`] only.
    #[must_use]
    pub fn new() -> Self {
        Self::with_tokio(None)
    }

    /// A clock that moves with tokio's, for `#[tokio::test(start_paused = true)]`, where timers and clock
    /// then agree; what [`SimClock::advance`] adds, timers do not notice: a suspended machine.
    ///
    /// # Panics
    /// Outside a tokio runtime with its time driver.
    #[must_use]
    pub fn following_tokio() -> Self {
        Self::with_tokio(Some(tokio_now()))
    }

    fn with_tokio(tokio: Option<tokio::time::Instant>) -> Self {
        Self {
            state: Mutex::new(ClockState {
                now: Instant::from_boot(Duration::from_secs(1_000)),
                wall: UnixMillis(1_800_000_000_000),
                boot_id: "sim-boot".to_owned(),
                tokio,
            }),
            suspicions: Mutex::default(),
        }
    }

    /// Lets time pass on both clocks.
    pub fn advance(&self, span: Duration) {
        let mut state = self.state();
        state.now = state.now + span;
        state.wall = state.wall + span;
    }

    /// Sets the time since boot, backwards too, which a boot clock only does by a reboot.
    pub fn set_now(&self, now: Instant) {
        self.state().now = now;
    }

    /// Sets the wall clock alone, as a correction of the time does.
    pub fn set_wall(&self, wall: UnixMillis) {
        self.state().wall = wall;
    }

    /// Starts the machine anew: another boot id, and time since boot from zero. The wall clock goes on.
    pub fn reboot(&self, boot_id: &str) {
        let mut state = self.state();
        state.now = Instant::default();
        state.boot_id = boot_id.to_owned();
    }

    /// The state, brought up to tokio's clock.
    fn state(&self) -> MutexGuard<'_, ClockState> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = state.tokio {
            let tokio = tokio_now();
            let passed = tokio.saturating_duration_since(seen);
            // The wall clock counts whole milliseconds; what is left of one counts at the next look.
            let passed =
                passed - Duration::from_nanos(u64::from(passed.subsec_nanos() % 1_000_000));
            state.now = state.now + passed;
            state.wall = state.wall + passed;
            state.tokio = Some(seen + passed);
        }
        state
    }
}

impl Default for SimClock {
    fn default() -> Self {
        Self::new()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests with tokio's paused clock read it here, and only here"
)]
fn tokio_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

impl Clock for SimClock {
    fn now(&self) -> Instant {
        self.state().now
    }

    fn wall(&self) -> UnixMillis {
        self.state().wall
    }

    fn boot_reading(&self, at: Instant) -> BootReading {
        BootReading { boot_id: self.state().boot_id.clone(), since_boot: at.since_boot() }
    }

    fn suspicions(&self) -> MutexGuard<'_, Suspicions> {
        self.suspicions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_still_until_it_is_moved() {
        let clock = SimClock::new();
        let (now, wall) = (clock.now(), clock.wall());
        assert_eq!((clock.now(), clock.wall()), (now, wall));
        clock.advance(Duration::from_millis(1_500));
        assert_eq!(clock.now() - now, Duration::from_millis(1_500));
        assert_eq!(clock.wall().0 - wall.0, 1_500);
    }

    #[tokio::test(start_paused = true)]
    async fn it_follows_tokio() {
        let clock = SimClock::following_tokio();
        let (now, wall) = (clock.now(), clock.wall());
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(clock.now() - now, Duration::from_secs(20));
        clock.advance(Duration::from_secs(30));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(clock.now() - now, Duration::from_secs(51));
        assert_eq!(clock.wall().saturating_since(wall), Duration::from_secs(51));
    }

    #[test]
    fn s3_a_wall_clock_step_moves_nothing_else() {
        let clock = SimClock::new();
        let now = clock.now();
        clock.set_wall(UnixMillis(5));
        assert_eq!((clock.now(), clock.wall()), (now, UnixMillis(5)));
    }
}
