//! When the tasks of locks want to be called next: one task sleeps for all of them (S3).
//!
//! A timer of the runtime stops while the machine sleeps, so it is never trusted for longer than a second:
//! then the clock is read again, and everybody is called whose time has come. For a task a lock to do that by
//! itself, a hundred thousand of them would wake up each second to find that nothing is due.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::time::{Clock, Instant};
use tokio::sync::Notify;

/// The longest sleep while a deadline is set (S3).
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// Tasks that are called before others that are ready get their turn: a crowd of renewals must not keep a
/// call waiting. While more are due than were called, twice as many are called next: calls without end must
/// not keep renewals waiting (S7).
const AT_ONCE: usize = 32;

/// Whom a timer calls. Cheap to clone; the clones are one.
pub(crate) trait Alarm: Clone + fmt::Debug + Send + 'static {
    /// The clock has come to `deadline`. A look at the clocks in between names another: it is to do no harm.
    fn call(&self, deadline: Instant);
}

/// The deadlines of all tasks. Cheap to clone; the clones are one.
#[derive(Debug)]
pub(crate) struct Timers<A>(Arc<SharedTimers<A>>);

impl<A> Clone for Timers<A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// A task's place among them.
#[derive(Debug)]
pub(crate) struct Timer {
    number: u64,
    set: Option<Instant>,
}

#[derive(Debug)]
struct SharedTimers<A> {
    clock: Arc<dyn Clock>,
    queue: Mutex<TimerQueue<A>>,
    /// A deadline was set that is earlier than the end of the sleep, or the last one is gone.
    stirred: Notify,
}

#[derive(Debug)]
struct TimerQueue<A> {
    deadlines: BTreeMap<(Instant, u64), A>,
    timers: u64,
    /// A task sleeps for all, until `wakes_at` at the latest.
    is_served: bool,
    wakes_at: Instant,
    /// When somebody was last called, who looks for pauses then.
    called_at: Instant,
    /// How many are called next if so many are due.
    at_once: usize,
}

/// What is next for the task that sleeps for all.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Sleep(Duration),
    /// More are due; others come first.
    GoOn,
    /// No deadline is set.
    End,
}

impl Timer {
    /// This timer has called its task at `deadline`.
    pub(crate) fn called(&mut self, deadline: Instant) {
        self.set.take_if(|set| *set == deadline);
    }
}

impl<A: Alarm> Timers<A> {
    pub(in crate::coordinator) fn new(clock: Arc<dyn Clock>) -> Self {
        let queue = TimerQueue {
            deadlines: BTreeMap::new(),
            timers: 0,
            is_served: false,
            wakes_at: Instant::default(),
            called_at: Instant::default(),
            at_once: AT_ONCE,
        };
        Self(Arc::new(SharedTimers { clock, queue: Mutex::new(queue), stirred: Notify::new() }))
    }

    /// A timer that is not set.
    pub(crate) fn timer(&self) -> Timer {
        let mut queue = self.queue();
        queue.timers += 1;
        Timer { number: queue.timers, set: None }
    }

    /// Has `alarm` called when the clock reaches `deadline`, and not at what was set before.
    pub(crate) fn set(&self, timer: &mut Timer, deadline: Option<Instant>, alarm: &A) {
        if timer.set == deadline {
            return;
        }
        let former = std::mem::replace(&mut timer.set, deadline);
        let mut queue = self.queue();
        if let Some(former) = former {
            queue.deadlines.remove(&(former, timer.number));
        }
        let Some(deadline) = deadline else {
            if queue.deadlines.is_empty() {
                // Nobody sleeps for nobody.
                self.0.stirred.notify_one();
            }
            return;
        };
        queue.deadlines.insert((deadline, timer.number), alarm.clone());
        if !queue.is_served {
            queue.is_served = true;
            let now = self.0.clock.now();
            (queue.wakes_at, queue.called_at) = (now, now);
            tokio::spawn(self.clone().serve());
        } else if deadline < queue.wakes_at {
            queue.wakes_at = deadline;
            self.0.stirred.notify_one();
        }
    }

    /// Calls whoever is due, until no deadline is set any more.
    async fn serve(self) {
        loop {
            match self.call_due() {
                Next::Sleep(nap) => {
                    // However it ends, the clock is read again.
                    let _ = tokio::time::timeout(nap, self.0.stirred.notified()).await;
                }
                Next::GoOn => tokio::task::yield_now().await,
                Next::End => return,
            }
        }
    }

    fn call_due(&self) -> Next {
        let mut queue = self.queue();
        let now = self.0.clock.now();
        for _ in 0..queue.at_once {
            let due = queue.deadlines.first_entry().filter(|first| first.key().0 <= now);
            let Some(due) = due else { break };
            let ((deadline, _), alarm) = due.remove_entry();
            alarm.call(deadline);
            queue.called_at = now;
        }
        let first =
            queue.deadlines.first_key_value().map(|((first, _), alarm)| (*first, alarm.clone()));
        let behind = first.as_ref().is_some_and(|(first, _)| *first <= now);
        queue.at_once = if behind { queue.at_once.saturating_mul(2) } else { AT_ONCE };
        let Some((first, alarm)) = first else {
            queue.is_served = false;
            return Next::End;
        };
        // S3: somebody looks at the other clocks each second, for all.
        if now >= queue.called_at + LONGEST_SLEEP {
            alarm.call(Instant::default());
            queue.called_at = now;
        }
        queue.wakes_at = first.min(queue.called_at + LONGEST_SLEEP);
        let nap = queue.wakes_at.saturating_since(now);
        if nap.is_zero() { Next::GoOn } else { Next::Sleep(nap) }
    }

    fn queue(&self) -> MutexGuard<'_, TimerQueue<A>> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::actor::inbox::{Commands, Inbox};
    use crate::coordinator::actor::task::Command;
    use crate::testing::SimClock;

    const SECOND: Duration = Duration::from_secs(1);

    struct Rig {
        clock: Arc<SimClock>,
        timers: Timers<Inbox>,
        start: Instant,
    }

    /// A task that is called.
    struct Called {
        timer: Timer,
        inbox: Inbox,
        commands: Commands,
    }

    impl Rig {
        fn new() -> Self {
            let clock = Arc::new(SimClock::following_tokio());
            let timers = Timers::new(Arc::clone(&clock) as _);
            Self { start: clock.now(), clock, timers }
        }

        fn set(&self, called: &mut Called, after: Option<Duration>) {
            let deadline = after.map(|after| self.start + after);
            self.timers.set(&mut called.timer, deadline, &called.inbox);
        }

        fn called(&self, after: Duration) -> Called {
            let (inbox, commands) = Inbox::new();
            let mut called = Called { timer: self.timers.timer(), inbox, commands };
            self.set(&mut called, Some(after));
            called
        }

        fn passed(&self) -> Duration {
            self.clock.now() - self.start
        }
    }

    impl Called {
        /// The deadline of which this was told since it was last asked; looks at the clock count in `looks`.
        fn told(&mut self, looks: &mut usize) -> Option<Instant> {
            while let Some(command) = self.commands.try_next() {
                let Command::TimePassed(deadline) = command else { panic!("{command:?}") };
                if deadline != Instant::default() {
                    return Some(deadline);
                }
                *looks += 1;
            }
            None
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_is_called_at_its_deadline_and_at_no_other() {
        let rig = Rig::new();
        let mut looks = 0;
        let mut late = rig.called(90 * SECOND);
        let mut moved = rig.called(40 * SECOND);
        let mut cleared = rig.called(50 * SECOND);
        rig.set(&mut moved, Some(SECOND / 2));
        rig.set(&mut cleared, None);
        tokio::time::sleep(SECOND * 3 / 4).await;
        assert_eq!(moved.told(&mut looks), Some(rig.start + SECOND / 2));
        assert_eq!(late.told(&mut looks), None);
        tokio::time::sleep(100 * SECOND).await;
        assert_eq!(late.told(&mut looks), Some(rig.start + 90 * SECOND));
        assert_eq!((moved.told(&mut looks), cleared.told(&mut looks)), (None, None));
        assert!(rig.timers.queue().deadlines.is_empty());
        assert!(!rig.timers.queue().is_served, "nobody sleeps for nobody");
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_that_has_called_can_be_set_to_the_same_moment_again() {
        let rig = Rig::new();
        let mut called = rig.called(SECOND);
        tokio::time::sleep(2 * SECOND).await;
        let deadline = called.told(&mut 0).expect("it was due");
        called.timer.called(deadline);
        rig.set(&mut called, Some(SECOND));
        tokio::time::sleep(SECOND / 100).await;
        assert_eq!(called.told(&mut 0), Some(deadline));
    }

    /// A timer of the runtime does not see the time for which the machine slept.
    #[tokio::test(start_paused = true)]
    async fn s3_after_a_suspend_everybody_is_called_within_a_second() {
        let rig = Rig::new();
        let mut all: Vec<_> = (0..100).map(|n| rig.called((50 + n) * SECOND)).collect();
        tokio::time::sleep(SECOND / 2).await;
        rig.clock.advance(3_600 * SECOND);
        tokio::time::sleep(SECOND + SECOND / 100).await;
        assert!(all.iter_mut().all(|called| called.told(&mut 0).is_some()));
    }

    #[tokio::test(start_paused = true)]
    async fn s3_one_looks_at_the_clocks_each_second_and_not_all() {
        let rig = Rig::new();
        let mut all: Vec<_> = (0..100).map(|n| rig.called((50 + n) * SECOND)).collect();
        tokio::time::sleep(40 * SECOND + SECOND / 2).await;
        let mut looks = 0;
        assert!(all.iter_mut().all(|called| called.told(&mut looks).is_none()));
        assert!((38..=40).contains(&looks), "{looks} in {:?}", rig.passed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_that_is_due_together_lets_others_come_between() {
        let rig = Rig::new();
        let _crowd: Vec<_> = (0..10 * AT_ONCE).map(|_| rig.called(SECOND)).collect();
        rig.clock.advance(2 * SECOND);
        assert_eq!(rig.timers.call_due(), Next::GoOn);
        assert_eq!(rig.timers.queue().deadlines.len(), 9 * AT_ONCE);
    }

    /// Between two rounds all others get a turn, which takes long while many call: as many come due again
    /// meanwhile.
    #[tokio::test(start_paused = true)]
    async fn s7_a_crowd_that_comes_faster_than_it_is_called_is_caught_up_with() {
        let rig = Rig::new();
        let mut crowd = Vec::new();
        for round in 0..20 {
            crowd.extend((0..4 * AT_ONCE).map(|_| rig.called(SECOND)));
            rig.clock.advance(2 * SECOND);
            let next = rig.timers.call_due();
            let left = rig.timers.queue().deadlines.len();
            assert!(left <= 12 * AT_ONCE, "{left} after round {round}");
            if next == Next::End {
                return;
            }
        }
        panic!("never caught up with");
    }
}
