//! Signals of the processes that tests start.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use tokio::signal::unix::{SignalKind, signal};

/// Commands start with no signal ignored, also where these tests run under `nohup` or in the background of a
/// script: exec leaves ignored signals ignored, and sets those with a handler to their default. So they are
/// given one.
pub(crate) fn undo_ignored() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
        let ignored = u64::from_str_radix(mask.trim(), 16).unwrap();
        for kind in [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit()] {
            if ignored >> (kind.as_raw_value() - 1) & 1 == 1 {
                // The handler stays when this is dropped.
                drop(signal(kind).unwrap());
            }
        }
    });
}
