//! The signals that end or pass through a command.

use std::io;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that ask a process to end.
const ENDING: [SignalKind; 4] =
    [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()];

/// Signals that arrive, as their numbers.
#[derive(Debug)]
pub(crate) struct Signals {
    heard: Vec<(SignalKind, Signal)>,
    ending: Option<i32>,
}

impl Signals {
    /// Listens for `kinds`, but for those that whoever started this process wants ignored, as `nohup` does.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn listen(kinds: &[SignalKind]) -> io::Result<Self> {
        let ignored = ignored_at_start();
        let heard = kinds.iter().filter(|kind| ignored & bit(**kind) == 0);
        let heard = heard.map(|kind| Ok((*kind, signal(*kind)?))).collect::<io::Result<_>>()?;
        Ok(Self { heard, ending: None })
    }

    /// Listens for `kind` too, on the same terms.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn also(&mut self, kind: SignalKind) -> io::Result<()> {
        if self.heard.iter().all(|(heard, _)| *heard != kind) {
            self.heard.append(&mut Self::listen(&[kind])?.heard);
        }
        Ok(())
    }

    /// The number of the next signal.
    pub(crate) async fn next(&mut self) -> i32 {
        let number = std::future::poll_fn(|context| {
            for (kind, signal) in &mut self.heard {
                if signal.poll_recv(context).is_ready() {
                    return Poll::Ready(kind.as_raw_value());
                }
            }
            Poll::Pending
        })
        .await;
        if ENDING.iter().any(|kind| kind.as_raw_value() == number) {
            self.ending = Some(number);
        }
        number
    }

    /// The newest signal so far that asks a process to end; `None` if there was none.
    pub(crate) const fn ending(&self) -> Option<i32> {
        self.ending
    }
}

const fn bit(kind: SignalKind) -> u64 {
    1 << (kind.as_raw_value() as u32 - 1)
}

/// The set of ignored signals; none where the kernel does not tell.
fn ignored_at_start() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default()
}
