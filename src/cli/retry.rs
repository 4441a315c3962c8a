//! How long a command waits for a lock, and that it goes on waiting while its sidecar restarts.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::output;
use super::spec::duration;
use super::times::span;
use crate::time::{BootClock, Clock as _, Instant};

/// How often a wait is told of.
pub(crate) const TOLD_AGAIN: Duration = Duration::from_secs(60);

/// How long to wait while a lock is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// So long; zero is one try.
    For(Duration),
    /// Until it is granted.
    Forever,
}

impl FromStr for Wait {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "forever" { Ok(Self::Forever) } else { duration(text).map(Self::For) }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::For(duration) => formatter.write_str(&span(*duration)),
            Self::Forever => formatter.write_str("forever"),
        }
    }
}

/// What is left of a wait, for a command that tries again while its sidecar is away.
#[derive(Debug)]
pub(crate) struct Patience {
    clock: BootClock,
    /// `None` for ever.
    end: Option<Instant>,
    pause: Duration,
    told: bool,
}

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

impl Patience {
    /// Begins to wait now.
    pub(crate) fn new(wait: Wait) -> Self {
        let clock = BootClock::new();
        let end = match wait {
            Wait::For(duration) => Some(clock.now() + duration),
            Wait::Forever => None,
        };
        Self { clock, end, pause: FIRST_PAUSE, told: false }
    }

    /// What is left of the wait; `None` for ever.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.end.map(|end| end.saturating_since(self.clock.now()))
    }

    /// Waits a little before the next try.
    ///
    /// # Errors
    /// `error`, when trying again does not help or the wait is over.
    pub(crate) async fn after(&mut self, error: anyhow::Error) -> anyhow::Result<()> {
        let is_transient = error
            .downcast_ref::<leasehold_client::Error>()
            .is_some_and(leasehold_client::Error::is_transient);
        let left = self.left();
        if !is_transient || left.is_some_and(|left| left.is_zero()) {
            return Err(error);
        }
        if !std::mem::replace(&mut self.told, true) {
            let how_long = if self.end.is_some() { " while --wait lasts" } else { "" };
            output::note(&format!("{error:#}; trying again{how_long}"));
        }
        // The last try comes when the wait is over, and not earlier.
        tokio::time::sleep(left.map_or(self.pause, |left| left.min(self.pause))).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_a_duration_or_forever() {
        assert_eq!("forever".parse(), Ok(Wait::Forever));
        assert_eq!("90s".parse(), Ok(Wait::For(Duration::from_secs(90))));
        assert!("ever".parse::<Wait>().unwrap_err().contains("30s"));
        assert_eq!(Wait::Forever.to_string(), "forever");
    }

    #[tokio::test]
    async fn a_wait_while_no_sidecar_answers_lasts_to_its_end() {
        const WAIT: Duration = Duration::from_millis(250);
        let nobody = || leasehold_client::Error::Unreachable {
            endpoint: "http://127.0.0.1:1".to_owned(),
            source: "connection refused".into(),
        };
        let begun = BootClock::new().now();
        let mut patience = Patience::new(Wait::For(WAIT));
        while patience.after(nobody().into()).await.is_ok() {}
        assert!(BootClock::new().now() >= begun + WAIT);
    }

    #[tokio::test]
    async fn what_trying_again_does_not_mend_ends_the_wait() {
        let mut patience = Patience::new(Wait::Forever);
        assert!(patience.after(anyhow::anyhow!("no")).await.is_err());
    }
}
