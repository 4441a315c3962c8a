//! Signs of a pause that the boot clock did not count (S3): what other clocks show beside it. Pure.
//!
//! A sign is a suspicion and not time. It asks for renewals, whose answers decide; one that they refute makes its
//! source's deviation the normal one, so that a wrong clock costs one round of renewals and not many.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Instant, UnixMillis};

/// A forward step of the wall clock over this is a sign.
const WALL_STEP: i128 = 1_000;
/// A store's date that runs ahead by more than this over the normal difference is a sign.
const STORE_LEAD: i128 = 2_000;
/// How long a refuted difference stays the normal one, and a source that was refuted too often is not heard.
const HOUR: Duration = Duration::from_secs(3_600);
/// Refutations within [`WINDOW`] after which a source is not heard for an hour.
const REFUTATIONS: usize = 3;
/// The longest lease.
const WINDOW: Duration = Duration::from_secs(60);

/// A clock beside the boot clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignSource {
    /// The machine's wall clock.
    WallClock,
    /// The dates of the store's answers.
    StoreDate,
}

impl SignSource {
    /// A stable name, for metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WallClock => "wall_clock",
            Self::StoreDate => "store_date",
        }
    }
}

/// What the clocks beside the boot clock have shown.
#[derive(Clone, Debug, Default)]
pub struct Suspicions {
    /// Wall clock less boot clock in milliseconds, when last looked at.
    wall: Option<i128>,
    store: StoreDates,
    wall_trust: Trust,
    store_trust: Trust,
    /// Not decided yet, the oldest first.
    open: VecDeque<Open>,
    /// Raised, and not asked for yet.
    raised: bool,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    source: SignSource,
    since: Instant,
    difference: i128,
}

/// The least that the store's clock is ahead of the boot clock, in milliseconds.
#[derive(Clone, Debug, Default)]
struct StoreDates {
    /// The normal difference where none was refuted lately: the first that was seen, or the latest after an hour.
    first: Option<i128>,
    refuted: VecDeque<(Instant, i128)>,
}

/// Whether a source is heard.
#[derive(Clone, Debug, Default)]
struct Trust {
    refuted: VecDeque<Instant>,
    not_heard_until: Option<Instant>,
}

impl Suspicions {
    /// Takes in a reading of the wall clock beside one of the boot clock.
    pub fn observe_wall(&mut self, now: Instant, wall: UnixMillis) {
        let difference = i128::from(wall.0) - millis(now);
        let step = difference - self.wall.replace(difference).unwrap_or(difference);
        if step > WALL_STEP && self.wall_trust.is_heard(now) {
            self.raise(Open { source: SignSource::WallClock, since: now, difference });
        }
    }

    /// Takes in the date of a store's answer that came at `now`. It is cut to the second.
    pub fn observe_store_date(&mut self, now: Instant, date: UnixMillis) {
        // The store read its clock before the answer came, and cut up to a second off: it is ahead by this at least.
        let difference = i128::from(date.seconds()) * 1_000 - millis(now);
        // What a front end has shown is not news before it is decided.
        let shown = self.open.iter().filter(|open| open.source == SignSource::StoreDate);
        let shown = shown.map(|open| open.difference).fold(i128::MIN, i128::max);
        let normal = self.store.normal(difference, now).max(shown);
        if difference > normal.saturating_add(STORE_LEAD) && self.store_trust.is_heard(now) {
            self.raise(Open { source: SignSource::StoreDate, since: now, difference });
        }
    }

    /// Whether a suspicion was raised since this was last asked.
    pub const fn take_raised(&mut self) -> bool {
        std::mem::replace(&mut self.raised, false)
    }

    /// A renewal that was sent at `sent` has succeeded: the suspicions from before are refuted. The source, if it is not
    /// heard any more after that.
    pub fn refute(&mut self, sent: Instant, now: Instant) -> Option<SignSource> {
        let mut muted = None;
        while let Some(open) = self.open.front().copied().filter(|open| sent >= open.since) {
            self.open.pop_front();
            let trust = match open.source {
                SignSource::WallClock => &mut self.wall_trust,
                SignSource::StoreDate => {
                    self.store.refuted.push_back((now, open.difference));
                    &mut self.store_trust
                }
            };
            if trust.refute(now) {
                muted = Some(open.source);
            }
        }
        muted
    }

    /// A lease was found to be lost: the suspicions, if there are any, were right.
    pub fn confirm(&mut self) {
        self.open.clear();
    }

    /// A pause may follow on another before the first is decided, and a renewal that was sent between the two says nothing
    /// of the second: each is asked about. No more are kept than the refutations that silence a source.
    fn raise(&mut self, sign: Open) {
        self.open.retain(|open| sign.since.saturating_since(open.since) < WINDOW);
        let mut same = self.open.iter().enumerate().filter(|(_, open)| open.source == sign.source);
        let oldest =
            same.next().map(|(place, _)| place).filter(|_| same.count() + 1 >= REFUTATIONS);
        if let Some(oldest) = oldest {
            self.open.remove(oldest);
        }
        self.open.push_back(sign);
        self.raised = true;
    }
}

impl StoreDates {
    /// The largest difference that was refuted in the last hour; else the first that was seen.
    fn normal(&mut self, difference: i128, now: Instant) -> i128 {
        let before = self.refuted.len();
        self.refuted.retain(|(at, _)| now.saturating_since(*at) < HOUR);
        if before > 0 && self.refuted.is_empty() {
            self.first = Some(difference);
        }
        let first = *self.first.get_or_insert(difference);
        self.refuted.iter().map(|(_, difference)| *difference).fold(first, i128::max)
    }
}

impl Trust {
    fn is_heard(&self, now: Instant) -> bool {
        self.not_heard_until.is_none_or(|until| now >= until)
    }

    /// Whether the source is not heard from now on.
    fn refute(&mut self, now: Instant) -> bool {
        self.refuted.retain(|at| now.saturating_since(*at) < WINDOW);
        self.refuted.push_back(now);
        let too_often = self.refuted.len() >= REFUTATIONS;
        if too_often {
            self.not_heard_until = Some(now + HOUR);
            self.refuted.clear();
        }
        too_often
    }
}

fn millis(at: Instant) -> i128 {
    i128::try_from(at.since_boot().as_millis()).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: u64 = 1_800_000_000_000;

    const fn at(seconds: u64) -> Instant {
        Instant::from_boot(Duration::from_secs(seconds))
    }

    const fn wall(seconds: u64) -> UnixMillis {
        UnixMillis(WALL + seconds * 1_000)
    }

    fn started() -> Suspicions {
        let mut signs = Suspicions::default();
        signs.observe_wall(at(100), wall(100));
        signs.observe_store_date(at(100), wall(100));
        assert!(!signs.take_raised());
        signs
    }

    #[test]
    fn s3_a_forward_step_of_the_wall_clock_is_suspected_once() {
        let mut signs = started();
        signs.observe_wall(at(101), wall(3_701));
        assert!(signs.take_raised());
        assert!(!signs.take_raised(), "asked for once");
        signs.observe_wall(at(102), wall(3_702));
        assert!(!signs.take_raised(), "a step counts once");
        assert_eq!(signs.refute(at(100), at(103)), None, "what was sent before decides nothing");
        assert_eq!(signs.refute(at(102), at(103)), None);
        assert!(signs.open.is_empty());
    }

    #[test]
    fn s3_a_second_pause_before_the_first_is_decided_is_suspected_too() {
        let mut signs = started();
        signs.observe_wall(at(101), wall(131));
        assert!(signs.take_raised());
        signs.observe_wall(at(103), wall(163));
        assert!(signs.take_raised(), "what was sent at 102 says nothing of it");
        signs.refute(at(102), at(104));
        assert_eq!(signs.open.len(), 1);
        signs.refute(at(104), at(105));
        assert!(signs.open.is_empty());
    }

    #[test]
    fn s3_a_date_that_was_seen_is_not_suspected_again_before_it_is_decided() {
        let mut signs = started();
        for _ in 0..100 {
            signs.observe_store_date(at(102), wall(132));
        }
        assert!(signs.take_raised());
        signs.observe_store_date(at(103), wall(133));
        assert!(!signs.take_raised());
        signs.observe_store_date(at(104), wall(164));
        assert!(signs.take_raised(), "a pause more");
    }

    /// Where nobody holds, nothing is renewed and nothing decided.
    #[test]
    fn s3_steps_that_nobody_could_decide_do_not_hide_a_pause() {
        let mut signs = started();
        for second in 101..111 {
            signs.observe_wall(at(second), wall(second * 100));
            assert!(signs.take_raised());
        }
        assert_eq!(signs.open.len(), REFUTATIONS);
        assert_eq!(signs.refute(at(111), at(111)), Some(SignSource::WallClock));
    }

    #[test]
    fn s3_suspicions_that_nothing_decides_do_not_stay() {
        let mut signs = started();
        signs.observe_wall(at(101), wall(10_100));
        signs.observe_wall(at(102), wall(20_200));
        signs.observe_wall(at(170), wall(30_300));
        assert_eq!(signs.open.len(), 1, "no lease lasts longer");
        assert_eq!(signs.refute(at(170), at(171)), None, "what is forgotten was not refuted");
    }

    #[test]
    fn s3_steps_back_slewing_and_small_steps_are_no_signs() {
        let mut signs = started();
        for second in 101..2_000 {
            // Slewed by a hundredth, and a step of a second now and then.
            let wall = WALL + 100_000 + (second - 100) * 1_010 + ((second - 100) / 100) * 900;
            signs.observe_wall(at(second), UnixMillis(wall));
            assert!(!signs.take_raised(), "{second}");
        }
        signs.observe_wall(at(2_001), wall(5));
        assert!(!signs.take_raised());
    }

    #[test]
    fn s3_front_ends_that_differ_cost_one_round() {
        let mut signs = started();
        let mut rounds = 0;
        for second in 101..1_000 {
            let ahead = if second % 2 == 0 { 3 } else { 0 };
            signs.observe_store_date(at(second), wall(second + ahead));
            if signs.take_raised() {
                rounds += 1;
                signs.refute(at(second), at(second));
            }
        }
        assert_eq!(rounds, 1);
    }

    #[test]
    fn s3_a_pause_that_no_clock_here_counted_shows_in_the_stores_date() {
        let mut signs = started();
        signs.observe_store_date(at(102), wall(132));
        assert!(signs.take_raised());
        signs.confirm();
        assert!(signs.open.is_empty());
    }

    #[test]
    fn s3_a_source_that_is_refuted_three_times_is_not_heard_for_an_hour() {
        let mut signs = started();
        let mut rounds = 0;
        let mut muted = 0;
        for second in 101..3_700 {
            // A wall clock that swings by 2 s, each second.
            signs.observe_wall(at(second), wall(second + 2 * (second % 2)));
            if signs.take_raised() {
                rounds += 1;
                muted += usize::from(signs.refute(at(second), at(second)).is_some());
            }
        }
        assert_eq!((rounds, muted), (3, 1));
        signs.observe_wall(at(3_800), wall(3_800));
        signs.observe_wall(at(3_801), wall(7_401));
        assert!(signs.take_raised(), "after an hour it is heard again");
    }
}
