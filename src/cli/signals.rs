//! The signals that end or pass through a command.

use std::io;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that arrive, as their numbers.
#[derive(Debug)]
pub(crate) struct Signals(Vec<(SignalKind, Signal)>);

impl Signals {
    /// Listens for `kinds`, but for those that whoever started this process wants ignored, as `nohup` does.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn listen(kinds: &[SignalKind]) -> io::Result<Self> {
        let ignored = ignored_at_start();
        let heard = kinds.iter().filter(|kind| ignored & bit(**kind) == 0);
        heard.map(|kind| Ok((*kind, signal(*kind)?))).collect::<io::Result<_>>().map(Self)
    }

    /// Listens for `kind` too, on the same terms.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn also(&mut self, kind: SignalKind) -> io::Result<()> {
        self.0.append(&mut Self::listen(&[kind])?.0);
        Ok(())
    }

    /// The number of the next signal.
    pub(crate) async fn next(&mut self) -> i32 {
        std::future::poll_fn(|context| {
            for (kind, signal) in &mut self.0 {
                if signal.poll_recv(context).is_ready() {
                    return Poll::Ready(kind.as_raw_value());
                }
            }
            Poll::Pending
        })
        .await
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
