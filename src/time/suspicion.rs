//! Signs of a pause that the boot clock did not count (S3): what other clocks show beside it. Pure.
//!
//! A sign is a suspicion and not time. It asks for renewals, whose answers decide; once it is decided its
//! source's deviation is the normal one, so that a wrong clock costs one round of renewals and not many.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Instant, UnixMillis};

/// A forward step of the wall clock over this is a sign.
const WALL_STEP: i128 = 1_000;
/// A store's date that runs ahead by more than this over the normal difference is a sign.
const STORE_LEAD: i128 = 2_000;
/// How long a difference stays the normal one, and a source that was refuted too often is not heard.
const HOUR: Duration = Duration::from_secs(3_600);
/// Differences within it count as one, the largest, so that few are kept.
const MINUTE: Duration = Duration::from_secs(60);
/// The part of its age that is added to the newest difference, however old it is: 200 millionths, more than
/// clocks drift.
const DRIFT: i128 = 5_000;
/// Refutations within [`WINDOW`] after which a source is not heard for an hour.
const REFUTATIONS: usize = 3;
/// The longest lease: none from before a suspicion of then is left.
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
    dates: StoreDates,
    wall_trust: Trust,
    store_trust: Trust,
    /// Not decided yet, the oldest first.
    open: VecDeque<Open>,
    /// How many were raised so far.
    raised: u64,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    source: SignSource,
    since: Instant,
    difference: i128,
}

/// The least that the store's clock was ahead of the boot clock, in milliseconds: the largest difference of
/// each minute of the last hour that had any, the oldest first, and the newest whatever its age.
#[derive(Clone, Debug, Default)]
struct StoreDates(VecDeque<Largest>);

/// The largest difference of a minute.
#[derive(Clone, Copy, Debug)]
struct Largest {
    difference: i128,
    /// When the first and the last of them were seen.
    since: Instant,
    at: Instant,
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
        self.end_overdue(now);
        // The store read its clock before the answer came, and cut up to a second off: it is ahead by this at
        // least.
        let difference = i128::from(date.seconds()) * 1_000 - millis(now);
        let leads = |than: i128| difference > than.saturating_add(STORE_LEAD);
        if !self.dates.normal(now).is_some_and(leads) || !self.store_trust.is_heard(now) {
            return self.dates.note(now, difference);
        }
        // What a front end has shown is not news before it is decided.
        let mut shown = self.open.iter().filter(|open| open.source == SignSource::StoreDate);
        if shown.all(|open| leads(open.difference)) {
            self.raise(Open { source: SignSource::StoreDate, since: now, difference });
        }
    }

    /// How many pauses have come under suspicion so far.
    #[must_use]
    pub const fn raised(&self) -> u64 {
        self.raised
    }

    /// A renewal that was sent at `sent` has succeeded: the suspicions from before are refuted. The source,
    /// if it is not heard any more after that.
    pub fn refute(&mut self, sent: Instant, now: Instant) -> Option<SignSource> {
        let mut muted = None;
        while let Some(open) = self.open.front().copied().filter(|open| sent >= open.since) {
            self.open.pop_front();
            let trust = match open.source {
                SignSource::WallClock => &mut self.wall_trust,
                SignSource::StoreDate => &mut self.store_trust,
            };
            if trust.refute(now) {
                muted = Some(open.source);
            }
            self.ended(open, now);
        }
        muted
    }

    /// A lease was found to be lost: the suspicions, if there are any, were right.
    pub fn confirm(&mut self, now: Instant) {
        for open in std::mem::take(&mut self.open) {
            self.ended(open, now);
        }
    }

    /// A pause may follow on another before the first is decided, and a renewal that was sent between the two
    /// says nothing of the second: each is asked about. No more are kept than the refutations that silence a
    /// source.
    fn raise(&mut self, sign: Open) {
        self.end_overdue(sign.since);
        let mut same = self.open.iter().enumerate().filter(|(_, open)| open.source == sign.source);
        let oldest =
            same.next().map(|(place, _)| place).filter(|_| same.count() + 1 >= REFUTATIONS);
        if let Some(oldest) = oldest {
            self.open.remove(oldest);
        }
        self.open.push_back(sign);
        self.raised += 1;
    }

    /// Where nobody holds, nothing is decided. After the longest lease it does not matter any more, and must
    /// neither be suspected again and again nor hide what comes.
    fn end_overdue(&mut self, now: Instant) {
        let is_over = |open: &Open| now.saturating_since(open.since) >= WINDOW;
        while let Some(open) = self.open.front().copied().filter(is_over) {
            self.open.pop_front();
            self.ended(open, now);
        }
    }

    /// A suspicion is over, right or wrong: what its source shows is the normal from now on.
    fn ended(&mut self, open: Open, now: Instant) {
        if open.source == SignSource::StoreDate {
            self.dates.note(now, open.difference);
        }
    }
}

impl StoreDates {
    /// The largest difference of the last hour. Clocks drift, so an older one says little, and a fast boot
    /// clock would hide a later pause behind it; but without any the first answer after an idle hour would
    /// make itself the normal.
    fn normal(&mut self, now: Instant) -> Option<i128> {
        let newest = *self.0.back()?;
        let is_old = |one: &Largest| now.saturating_since(one.at) >= HOUR;
        while self.0.len() > 1 && self.0.front().is_some_and(is_old) {
            self.0.pop_front();
        }
        let age = i128::try_from(now.saturating_since(newest.at).as_millis()).unwrap_or(i128::MAX);
        let newest = newest.difference.saturating_add(age / DRIFT);
        Some(self.0.iter().map(|one| one.difference).fold(newest, i128::max))
    }

    fn note(&mut self, now: Instant, difference: i128) {
        match self.0.back_mut().filter(|newest| now < newest.since + MINUTE) {
            Some(newest) => {
                newest.at = newest.at.max(now);
                newest.difference = newest.difference.max(difference);
            }
            None => self.0.push_back(Largest { difference, since: now, at: now }),
        }
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
    use std::ops::{Deref, DerefMut};

    use super::*;

    const WALL: u64 = 1_800_000_000_000;

    const fn at(seconds: u64) -> Instant {
        Instant::from_boot(Duration::from_secs(seconds))
    }

    const fn wall(seconds: u64) -> UnixMillis {
        UnixMillis(WALL + seconds * 1_000)
    }

    /// What a driver looks at, and how much of it it has seen.
    #[derive(Clone, Debug, Default)]
    struct Signs {
        all: Suspicions,
        seen: u64,
    }

    impl Deref for Signs {
        type Target = Suspicions;

        fn deref(&self) -> &Suspicions {
            &self.all
        }
    }

    impl DerefMut for Signs {
        fn deref_mut(&mut self) -> &mut Suspicions {
            &mut self.all
        }
    }

    impl Signs {
        fn take_raised(&mut self) -> bool {
            let raised = self.all.raised();
            std::mem::replace(&mut self.seen, raised) < raised
        }
    }

    fn started() -> Signs {
        let mut signs = Signs::default();
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
        signs.confirm(at(103));
        assert!(signs.open.is_empty());
        signs.observe_store_date(at(104), wall(134));
        assert!(!signs.take_raised(), "it is known, and not asked about again");
        signs.observe_store_date(at(105), wall(140));
        assert!(signs.take_raised(), "a pause more");
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

    /// A store's date beside a boot clock that is `ppm` millionths fast, and one front end of four that is 3
    /// s ahead, or none.
    #[derive(Clone, Copy, Debug)]
    struct Drift {
        ppm: i64,
        front_ends: bool,
        /// Seconds between two answers.
        every: u64,
        /// Whether a renewal decides what is suspected.
        decides: bool,
    }

    impl Drift {
        fn observe(self, signs: &mut Signs, boot_millis: u64, paused: u64) -> bool {
            let lost = i64::try_from(boot_millis).unwrap() * self.ppm / 1_000_000;
            let ahead =
                if self.front_ends && (boot_millis / 7_013).is_multiple_of(4) { 3_000 } else { 0 };
            let date = (WALL + boot_millis + ahead + paused * 1_000).saturating_add_signed(-lost);
            let now = Instant::from_boot(Duration::from_millis(boot_millis));
            signs.observe_store_date(now, UnixMillis(date));
            let raised = signs.take_raised();
            if raised && self.decides {
                signs.refute(now, now);
            }
            raised
        }

        /// Lets days pass; how often something was suspected in each.
        fn pass(self, signs: &mut Signs, days: u64) -> Vec<u32> {
            let mut rounds = vec![0; usize::try_from(days).unwrap()];
            // Answers come at any part of a second, and at night there are none for some hours.
            let awake = |second: &u64| second % 86_400 < 72_000;
            for second in (100..days * 86_400).step_by(usize::try_from(self.every).unwrap()) {
                if awake(&second) && self.observe(signs, second * 1_000 + second * 37 % 1_000, 0) {
                    rounds[usize::try_from(second / 86_400).unwrap()] += 1;
                }
            }
            rounds
        }
    }

    fn drifts() -> impl Iterator<Item = Drift> {
        [-50, -20, 0, 20, 50].into_iter().flat_map(|ppm| {
            [20, 600, 3_600].into_iter().flat_map(move |every| {
                [false, true].into_iter().flat_map(move |front_ends| {
                    let drift = move |decides| Drift { ppm, front_ends, every, decides };
                    [drift(true), drift(false)]
                })
            })
        })
    }

    #[test]
    fn s3_clocks_that_drift_for_weeks_cost_few_rounds_and_hide_no_pause() {
        for drift in drifts() {
            let mut signs = Signs::default();
            let rounds = drift.pass(&mut signs, 28);
            // Which front end answers after an idle hour is chance.
            let most = if drift.front_ends && drift.every > 20 { 12 } else { 1 };
            assert!(rounds.iter().all(|a_day| *a_day <= most), "{drift:?}: {rounds:?}");
            assert!(signs.all.dates.0.len() <= 61, "{drift:?}: a minute each");
            assert!(signs.all.open.len() <= REFUTATIONS, "{drift:?}");
            let end = 28 * 86_400_000;
            for pause in [5, 20, 45] {
                let mut moved = signs.clone();
                // A lease is renewed now and then, and each front end answers sooner or later.
                let before: Vec<_> = (0..60).map(|n| end - 1_213_131 + n * 20_011).collect();
                for millis in &before {
                    drift.observe(&mut moved, *millis, 0);
                }
                let mut after = (0..20).map(|n| end + n * 20_011);
                let seen = after.any(|millis| drift.observe(&mut moved, millis, pause));
                assert!(seen, "{drift:?}: a pause of {pause} s");
            }
        }
    }

    #[test]
    fn s3_the_first_answer_after_an_idle_time_does_not_make_itself_normal() {
        for (hours, pause) in [(1, 5), (2, 5), (12, 20), (48, 45)] {
            let mut signs = started();
            signs.observe_store_date(at(3_000), wall(3_000));
            let later = 3_000 + hours * 3_600;
            let mut idle = signs.clone();
            idle.observe_store_date(at(later), wall(later));
            assert!(!idle.take_raised(), "nothing has happened in {hours} h");
            signs.observe_store_date(at(later), wall(later + pause));
            assert!(signs.take_raised(), "{pause} s after {hours} h");
        }
    }

    /// A sidecar that only waits renews nothing: nothing there decides what the store's date shows.
    #[test]
    fn s3_a_date_that_nothing_decides_is_suspected_once_and_hides_nothing_after_an_hour() {
        let mut signs = started();
        let mut rounds = 0;
        for second in 101..10_000 {
            signs.observe_store_date(at(second), wall(second + 70));
            rounds += u32::from(signs.take_raised());
        }
        assert_eq!(rounds, 1);
        signs.observe_store_date(at(10_000), wall(10_000 + 90));
        assert!(signs.take_raised(), "a pause more");
        // One date is far off, and is forgotten.
        let mut signs = started();
        signs.observe_store_date(at(101), wall(100_000));
        assert!(signs.take_raised());
        for second in 102..3_900 {
            signs.observe_store_date(at(second), wall(second));
        }
        signs.observe_store_date(at(3_900), wall(3_905));
        assert!(signs.take_raised(), "hidden by a date of an hour ago");
    }
}
