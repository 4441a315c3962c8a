//! The way to standard error: a thread of its own writes, so that a reader that stalls or a disk that is full
//! stops nobody. What does not fit into the queue is dropped and counted.

use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Bytes that wait at most: some 4,000 lines, which a store's outage with a thousand holds does not fill.
const MAX_PENDING_BYTES: usize = 1024 * 1024;
/// Room that is kept between two batches.
const KEPT_BYTES: usize = 16 * 1024;
/// How long lines are gathered that come soon after others: a thread that wakes for each takes more time than
/// the lines.
const GATHERED_FOR: Duration = Duration::from_millis(5);
/// How long a standard error that cannot take anything now, and does not wait by itself, is left alone.
const NAP: Duration = Duration::from_millis(10);
/// The longest that the end of the process waits for its last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The queue of the process; none where no thread could be started.
static QUEUE: OnceLock<Option<LineQueue>> = OnceLock::new();

/// Writes to standard error without ever waiting for whoever reads it. Each write is one line, or several
/// whole ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stderr;

impl Write for Stderr {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        match QUEUE
            .get_or_init(|| LineQueue::start(MAX_PENDING_BYTES, GATHERED_FOR, io::stderr()).ok())
        {
            Some(queue) => queue.push(lines),
            None => io::stderr().write_all(lines)?,
        }
        Ok(lines.len())
    }

    /// Does nothing: see [`flush`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits until standard error has everything that was written, for a second at most. For the end of the
/// process.
pub fn flush() {
    if let Some(Some(queue)) = QUEUE.get() {
        queue.flush(LAST_LINES);
    }
}

/// Lines that standard error did not get, because it took them too slowly or not at all.
#[must_use]
pub fn lines_dropped() -> u64 {
    QUEUE.get().and_then(Option::as_ref).map_or(0, LineQueue::dropped)
}

/// Lines on their way to an output.
#[derive(Clone, Debug)]
struct LineQueue {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    pending_bytes_max: usize,
    gathered_for: Duration,
    state: Mutex<PendingLines>,
    /// Something is pending, or enough of it, or the end is near.
    filled: Condvar,
    /// Nothing is pending, and nothing is being written.
    emptied: Condvar,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct PendingLines {
    pending: Vec<u8>,
    writing: bool,
    /// Somebody waits for the last line.
    flushing: bool,
}

impl LineQueue {
    /// Starts the thread, which ends with the process.
    fn start(
        pending_bytes_max: usize,
        gathered_for: Duration,
        output: impl Write + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            pending_bytes_max,
            gathered_for,
            state: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            dropped: AtomicU64::new(0),
        });
        let writer = Writer { shared: Arc::clone(&shared), output, in_a_line: false, told: 0 };
        std::thread::Builder::new().name("stderr".to_owned()).spawn(|| writer.run())?;
        Ok(Self { shared })
    }

    fn push(&self, lines: &[u8]) {
        let mut state = self.shared.state();
        if state.pending.len() + lines.len() > self.shared.pending_bytes_max {
            self.shared.drop_lines(lines);
            return;
        }
        let before = state.pending.len();
        state.pending.extend_from_slice(lines);
        if before == 0 || (before < KEPT_BYTES && state.pending.len() >= KEPT_BYTES) {
            self.shared.filled.notify_one();
        }
    }

    fn flush(&self, timeout: Duration) {
        let busy = |state: &mut PendingLines| state.writing || !state.pending.is_empty();
        let mut state = self.shared.state();
        state.flushing = true;
        self.shared.filled.notify_one();
        // That it took too long is all that could be told, and there is nobody to tell.
        let waited = self.shared.emptied.wait_timeout_while(state, timeout, busy);
        waited.unwrap_or_else(PoisonError::into_inner).0.flushing = false;
    }

    fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, PendingLines> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drop_lines(&self, lines: &[u8]) {
        let count = lines.iter().filter(|byte| **byte == b'\n').count();
        self.dropped.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// What the thread has.
struct Writer<W> {
    shared: Arc<Shared>,
    output: W,
    /// A line was cut short: the next one must not continue it.
    in_a_line: bool,
    /// Of the lines that were dropped, those that the log says.
    told: u64,
}

impl<W: Write> Writer<W> {
    fn run(mut self) {
        let mut batch = Vec::new();
        loop {
            self.take(&mut batch);
            if self.write(&batch) {
                self.tell_dropped();
            }
        }
    }

    /// Waits for lines: the first after a while is written at once, and what comes soon after it together.
    fn take(&self, batch: &mut Vec<u8>) {
        let wrote = !batch.is_empty();
        batch.clear();
        batch.shrink_to(KEPT_BYTES);
        let mut state = self.shared.state();
        state.writing = false;
        if state.pending.is_empty() {
            self.shared.emptied.notify_all();
        }
        if wrote {
            let few =
                |state: &mut PendingLines| !state.flushing && state.pending.len() < KEPT_BYTES;
            let filled = &self.shared.filled;
            let gathered = filled.wait_timeout_while(state, self.shared.gathered_for, few);
            state = gathered.unwrap_or_else(PoisonError::into_inner).0;
        }
        let empty = |state: &mut PendingLines| state.pending.is_empty();
        let waited = self.shared.filled.wait_while(state, empty);
        state = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(batch, &mut state.pending);
        state.writing = true;
    }

    /// Whether all of it was written. What the output refuses is dropped.
    fn write(&mut self, batch: &[u8]) -> bool {
        if self.in_a_line && self.write_all(b"\n").is_err() {
            self.shared.drop_lines(batch);
            return false;
        }
        self.in_a_line = false;
        let Err(rest) = self.write_all(batch) else { return true };
        self.in_a_line = batch.len() > rest.len() && !ends_a_line(batch, rest);
        self.shared.drop_lines(rest);
        false
    }

    /// What could not be written, if so.
    fn write_all<'a>(&mut self, mut bytes: &'a [u8]) -> Result<(), &'a [u8]> {
        while !bytes.is_empty() {
            match self.output.write(bytes) {
                Ok(count) if count > 0 => bytes = bytes.get(count..).unwrap_or_default(),
                Ok(_) => return Err(bytes),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::park_timeout(NAP);
                }
                Err(_) => return Err(bytes),
            }
        }
        Ok(())
    }

    fn tell_dropped(&mut self) {
        let dropped = self.shared.dropped.load(Ordering::Relaxed);
        // Behind a stall the queue is still full: this line would be dropped too.
        let has_room = self.shared.state().pending.len() < self.shared.pending_bytes_max / 2;
        if dropped > self.told && has_room {
            let lines = dropped - self.told;
            self.told = dropped;
            tracing::warn!(
                lines,
                "log lines were dropped: standard error did not take them in time"
            );
        }
    }
}

/// Whether `rest` of `batch` begins with a line.
fn ends_a_line(batch: &[u8], rest: &[u8]) -> bool {
    batch.get(..batch.len() - rest.len()).is_some_and(|written| written.ends_with(b"\n"))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    /// The longest that anything is waited for.
    const GENEROUS: Duration = Duration::from_secs(60);

    /// An output that takes a write when the test lets it, and then as much as the test says.
    struct Scripted {
        allowed: Receiver<io::Result<usize>>,
        written: SyncSender<Vec<u8>>,
    }

    impl Write for Scripted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let allowed = self.allowed.recv().unwrap_or(Ok(usize::MAX))?;
            let written = &bytes[..bytes.len().min(allowed)];
            self.written.send(written.to_vec()).unwrap();
            Ok(written.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct WriterRig {
        queue: LineQueue,
        allow: SyncSender<io::Result<usize>>,
        written: Receiver<Vec<u8>>,
    }

    fn rig(pending_bytes_max: usize) -> WriterRig {
        gathering_rig(pending_bytes_max, Duration::ZERO)
    }

    fn gathering_rig(pending_bytes_max: usize, gathered_for: Duration) -> WriterRig {
        let (allow, allowed) = sync_channel(100);
        let (writes, written) = sync_channel(100);
        let queue = LineQueue::start(
            pending_bytes_max,
            gathered_for,
            Scripted { allowed, written: writes },
        );
        WriterRig { queue: queue.unwrap(), allow, written }
    }

    impl WriterRig {
        fn next(&self) -> String {
            String::from_utf8(self.written.recv_timeout(GENEROUS).unwrap()).unwrap()
        }

        fn is_writing(&self) {
            while !self.queue.shared.state().writing {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn what_an_output_that_stalls_leaves_no_room_for_is_dropped_and_counted() {
        let rig = rig(20);
        rig.queue.push(b"first\n");
        rig.is_writing();
        for _ in 0..10 {
            rig.queue.push(b"23456789\n");
        }
        assert_eq!(rig.queue.dropped(), 8);
        // Bounded, also while it stalls.
        rig.queue.flush(Duration::from_millis(1));
        for _ in 0..2 {
            rig.allow.send(Ok(usize::MAX)).unwrap();
        }
        assert_eq!((rig.next(), rig.next()), ("first\n".into(), "23456789\n23456789\n".into()));
        rig.queue.flush(GENEROUS);
        assert!(!rig.queue.shared.state().writing);
        rig.queue.push(b"after\n");
        rig.allow.send(Ok(usize::MAX)).unwrap();
        assert_eq!((rig.next().as_str(), rig.queue.dropped()), ("after\n", 8));
    }

    #[test]
    fn what_an_output_refuses_is_counted_and_breaks_no_later_line() {
        let rig = rig(1_000);
        rig.allow.send(Ok(3)).unwrap();
        rig.allow.send(Err(ErrorKind::StorageFull.into())).unwrap();
        rig.queue.push(b"first\nsecond\n");
        assert_eq!(rig.next(), "fir");
        rig.queue.flush(GENEROUS);
        assert_eq!(rig.queue.dropped(), 2);
        for refusal in [ErrorKind::Interrupted, ErrorKind::WouldBlock] {
            rig.allow.send(Err(refusal.into())).unwrap();
        }
        rig.allow.send(Ok(usize::MAX)).unwrap();
        rig.allow.send(Ok(usize::MAX)).unwrap();
        rig.queue.push(b"third\n");
        assert_eq!((rig.next(), rig.next()), ("\n".into(), "third\n".into()));
        rig.queue.flush(GENEROUS);
        assert_eq!(rig.queue.dropped(), 2);
    }

    #[test]
    fn the_first_line_is_written_at_once_and_those_soon_after_it_together() {
        let rig = gathering_rig(1_000_000, GENEROUS * 60);
        let allow = || rig.allow.send(Ok(usize::MAX)).unwrap();
        allow();
        rig.queue.push(b"first\n");
        assert_eq!(rig.next(), "first\n");
        rig.queue.push(b"second\n");
        let long = "x".repeat(KEPT_BYTES) + "\n";
        rig.queue.push(long.as_bytes());
        allow();
        assert_eq!(rig.next(), format!("second\n{long}"), "when they are many");
        rig.queue.push(b"third\n");
        rig.queue.push(b"fourth\n");
        allow();
        rig.queue.flush(GENEROUS);
        assert_eq!(rig.next(), "third\nfourth\n", "or when the process ends");
    }
}
