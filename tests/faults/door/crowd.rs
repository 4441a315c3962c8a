//! Crowds that come at a rate, and how others fare meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::time::{BootClock, Clock as _};
use tokio::io::AsyncWriteExt as _;

use super::Way;
use crate::faults::process::PATIENCE;

/// Connections a second.
pub(super) const RATE: u64 = 500;

/// What each of a crowd does once it is connected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    pub(super) says: &'static [u8],
    /// Whether it goes at once, to come again, or stays for as long as it may.
    pub(super) leaves: bool,
}

pub(super) const SILENT: Manner = Manner { says: b"", leaves: false };

/// Connections by these ways, at the rate. Returns how many came.
pub(super) async fn flood(ways: Vec<Way>, manner: Manner, over: Arc<AtomicBool>) -> u64 {
    /// As many as 6 s have: by then a sidecar has closed them.
    const KEPT: usize = 3_000;
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    let (mut open, mut came) = (VecDeque::new(), 0);
    let mut next = ways.iter().cycle();
    while !over.load(Ordering::Relaxed) {
        ticks.tick().await;
        for way in next.by_ref().take(usize::try_from(RATE / 50).unwrap()) {
            let connected = tokio::time::timeout(Duration::from_secs(5), way.connect()).await;
            let Ok(Ok(mut line)) = connected else { continue };
            came += 1;
            // A sidecar may have closed it by now.
            let _ = line.write_all(manner.says).await;
            if !manner.leaves {
                open.push_back(line);
            }
        }
        while open.len() > KEPT {
            open.pop_front();
        }
    }
    came
}

/// How the honest fare: the longest time to an answer, which all get, and how many there were.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fared {
    pub(super) what: &'static str,
    pub(super) longest: Duration,
    pub(super) calls: u64,
}

pub(super) async fn honest(
    what: &'static str,
    over: Arc<AtomicBool>,
    mut call: impl AsyncFnMut() -> Result<(), String>,
) -> Fared {
    let clock = BootClock::new();
    let mut fared = Fared { what, longest: Duration::ZERO, calls: 0 };
    while !over.load(Ordering::Relaxed) {
        let begun = clock.now();
        let answered = tokio::time::timeout(PATIENCE, call()).await;
        answered
            .unwrap_or_else(|_| panic!("{what}: no answer"))
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        fared.longest = fared.longest.max(clock.now() - begun);
        fared.calls += 1;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    fared
}
