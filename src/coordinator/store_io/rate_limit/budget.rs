//! The rate at which requests go out while the store throttles (S7). Pure: the time and the needs are
//! arguments.
//!
//! Each second is judged by its answers: one in which the store throttled sets the rate to what was accepted,
//! any other doubles it. What the leases need is a floor: a rate that starves them was measured when they
//! asked for nothing.

use std::time::Duration;

use super::needs::Needs;
use crate::time::Instant;

/// Requests a second that find out whether a store that accepts nothing has changed its mind.
const LEAST: f64 = 1.0;
/// Requests a second at which a budget begins at the least: a sidecar that asks little is not what the store
/// suffers from.
const LEAST_AT_FIRST: f64 = 10.0;
/// Requests a second beyond which a budget holds nothing back: some times what an account takes.
const MOST: f64 = 100_000.0;
/// A second has throttled if more than one of so many answers was.
const ONE_IN: u32 = 10;
/// What the rate becomes then, as a share of what was accepted. More than is refused without notice, so that
/// a rate that is steadily a little too high stays as it is and is not doubled each other second.
const ABOVE_ACCEPTED: f64 = 1.2;
/// How much may go out at once after a pause, as a share of a second's requests; one request at the least.
const BURST: f64 = 0.1;
/// The budget ends when nothing was throttled and nothing had to wait for this long.
const QUIET: Duration = Duration::from_secs(10);
/// How long the floor is used before the needs are asked again.
const FLOOR_LASTS: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(super) struct RequestBudget {
    second: Second,
    limit: Option<Limit>,
}

/// The answers of one second.
#[derive(Debug, Default)]
struct Second {
    number: u64,
    accepted: u32,
    throttled: u32,
    /// Those that were accepted in the second before.
    before: u32,
}

#[derive(Debug)]
struct Limit {
    /// Requests a second, as the answers have it.
    rate: f64,
    /// Requests a second that the leases need.
    floor: f64,
    floor_at: Instant,
    /// Requests that may go out now.
    room: f64,
    /// When `room` was last updated.
    at: Instant,
    /// When something was throttled, or had to wait, last.
    pressed: Instant,
}

impl RequestBudget {
    /// The store accepted a request, whatever it answered.
    pub(super) fn accepted(&mut self, now: Instant) {
        self.turn_to(now);
        self.second.accepted = self.second.accepted.saturating_add(1);
    }

    /// The store throttled a request; whether the budget begins with it.
    pub(super) fn throttled(&mut self, needs: &Needs, now: Instant) -> bool {
        self.turn_to(now);
        self.second.throttled = self.second.throttled.saturating_add(1);
        let begins = self.limit.is_none();
        let accepted = f64::from(self.second.accepted.max(self.second.before));
        let limit = self.limit.get_or_insert_with(|| Limit {
            rate: accepted.max(needs.in_peace()).max(LEAST_AT_FIRST),
            floor: needs.least(now),
            floor_at: now,
            room: 0.0,
            at: now,
            pressed: now,
        });
        limit.pressed = limit.pressed.max(now);
        begins
    }

    /// Whether a request may go out now; then it is counted.
    pub(super) fn take(&mut self, needs: &Needs, now: Instant) -> bool {
        self.turn_to(now);
        let Some(limit) = &mut self.limit else { return true };
        limit.advance(needs, now);
        let takes = limit.room >= 1.0;
        if takes {
            limit.room -= 1.0;
        } else {
            limit.pressed = limit.pressed.max(now);
        }
        takes
    }

    /// How long until there is room for one request more.
    pub(super) fn wait(&self) -> Duration {
        let missing = |limit: &Limit| (1.0 - limit.room).max(0.0) / limit.rate();
        self.limit.as_ref().map_or(Duration::ZERO, |limit| Duration::from_secs_f64(missing(limit)))
    }

    /// Requests a second at the most; none while there is no budget.
    pub(super) fn rate(&self) -> Option<f64> {
        self.limit.as_ref().map(Limit::rate)
    }

    /// Ends the budget when it has not been needed for a while; whether it did.
    pub(super) fn end_if_quiet(&mut self, now: Instant) -> bool {
        self.limit.take_if(|limit| now.saturating_since(limit.pressed) >= QUIET).is_some()
    }

    /// Judges the seconds that are over.
    fn turn_to(&mut self, now: Instant) {
        let number = now.since_boot().as_secs();
        // Readings of two threads may come in the wrong order: an earlier second takes nothing back.
        let Some(passed) = number.checked_sub(self.second.number).filter(|passed| *passed > 0)
        else {
            return;
        };
        let before = if passed == 1 { self.second.accepted } else { 0 };
        let over =
            std::mem::replace(&mut self.second, Second { number, before, ..Second::default() });
        if let Some(limit) = &mut self.limit {
            limit.judge(&over);
            // Nothing was answered in those between.
            for _ in 1..passed.min(64) {
                limit.judge(&Second::default());
            }
        }
    }
}

impl Limit {
    fn rate(&self) -> f64 {
        self.rate.max(self.floor)
    }

    fn judge(&mut self, second: &Second) {
        let answers = second.accepted.saturating_add(second.throttled);
        let throttled = second.throttled.saturating_mul(ONE_IN) > answers;
        let rate = match throttled {
            true => f64::from(second.accepted) * ABOVE_ACCEPTED,
            false => self.rate() * 2.0,
        };
        self.rate = rate.clamp(LEAST, MOST);
    }

    fn advance(&mut self, needs: &Needs, now: Instant) {
        if now.saturating_since(self.floor_at) >= FLOOR_LASTS {
            (self.floor, self.floor_at) = (needs.least(now), now);
        }
        let seconds = now.saturating_since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.room = (self.room + self.rate() * seconds).min((self.rate() * BURST).max(1.0));
    }
}

#[cfg(test)]
mod tests {
    use super::super::needs::Lease;
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_boot(Duration::from_millis(millis))
    }

    /// So many leases of 15 s whose validity ends in so many seconds.
    fn needs(leases: u32, seconds: u64) -> Needs {
        let mut needs = Needs::default();
        for _ in 0..leases {
            let lease_duration = Duration::from_secs(15);
            needs.add(Lease { valid_until: at(10_000 + seconds * 1_000), lease_duration });
        }
        needs
    }

    /// How many go out in the second from here, if there are always more.
    fn sent(budget: &mut RequestBudget, needs: &Needs, from: u64) -> u32 {
        (from..from + 1_000).map(|now| u32::from(budget.take(needs, at(now)))).sum()
    }

    #[test]
    fn s7_a_budget_begins_with_what_the_leases_need_though_nothing_was_asked_before() {
        let mut budget = RequestBudget::default();
        assert!(budget.throttled(&needs(200, 14), at(10_000)));
        assert_eq!(budget.rate(), Some(40.0));
        assert!(!budget.throttled(&needs(200, 14), at(10_001)), "it has begun");
        let mut alone = RequestBudget::default();
        alone.throttled(&Needs::default(), at(10_000));
        assert_eq!(alone.rate(), Some(LEAST_AT_FIRST));
    }

    #[test]
    fn s7_a_second_that_throttles_sets_the_rate_to_what_was_accepted_and_any_other_doubles_it() {
        let (mut budget, none) = (RequestBudget::default(), Needs::default());
        budget.throttled(&none, at(10_000));
        for _ in 0..100 {
            budget.accepted(at(11_500));
        }
        // One of ten is not more than a tenth.
        for _ in 0..11 {
            budget.throttled(&none, at(11_600));
        }
        budget.take(&none, at(12_000));
        assert_eq!(budget.rate(), Some(2.0), "one after a second that took nothing, then doubled");
        for _ in 0..50 {
            budget.accepted(at(12_500));
        }
        for _ in 0..6 {
            budget.throttled(&none, at(12_600));
        }
        budget.take(&none, at(13_000));
        assert_eq!(budget.rate(), Some(60.0));
        budget.take(&none, at(14_000));
        assert_eq!(budget.rate(), Some(120.0), "nothing was throttled");
        budget.take(&none, at(17_000));
        assert_eq!(budget.rate(), Some(960.0), "in three seconds");
        budget.take(&none, at(90_000));
        assert_eq!(budget.rate(), Some(MOST));
    }

    #[test]
    fn s7_a_rate_that_is_a_little_too_high_stays_as_it_is() {
        let (mut budget, none) = (RequestBudget::default(), Needs::default());
        budget.throttled(&none, at(10_000));
        let mut asked = Vec::new();
        for second in 11..40 {
            let sent = sent(&mut budget, &none, second * 1_000);
            for number in 0..sent {
                let now = at(second * 1_000 + 999);
                if number < 30 {
                    budget.accepted(now);
                } else {
                    budget.throttled(&none, now);
                }
            }
            asked.push(sent);
        }
        assert!(asked[10..].iter().all(|sent| (31..=40).contains(sent)), "{asked:?}");
    }

    #[test]
    fn s7_the_floor_holds_whatever_the_answers_are() {
        let (mut budget, needs) = (RequestBudget::default(), needs(200, 20));
        budget.throttled(&needs, at(10_000));
        for second in 10..26 {
            budget.throttled(&needs, at(second * 1_000 + 100));
        }
        // 200 in four fifths of 4.75 s.
        budget.take(&needs, at(25_250));
        assert!((52.0..=54.0).contains(&budget.rate().unwrap()), "{budget:?}");
        let sent = sent(&mut budget, &needs, 25_250);
        assert!((52..=80).contains(&sent), "{sent}");
        budget.take(&Needs::default(), at(26_900));
        assert_eq!(budget.rate(), Some(LEAST), "nothing needs it any more: {budget:?}");
    }

    #[test]
    fn s7_a_budget_ends_when_it_is_not_needed() {
        let (mut budget, none) = (RequestBudget::default(), Needs::default());
        budget.throttled(&none, at(10_000));
        assert!(!budget.end_if_quiet(at(19_999)));
        assert!(budget.end_if_quiet(at(20_000)) && budget.rate().is_none());
        assert!(budget.take(&none, at(20_000)) && budget.wait().is_zero());
    }

    #[test]
    fn s7_readings_of_two_threads_in_the_wrong_order_take_nothing_back() {
        let (mut budget, none) = (RequestBudget::default(), Needs::default());
        for _ in 0..100 {
            budget.accepted(at(9_500));
        }
        budget.accepted(at(10_000));
        budget.accepted(at(9_999));
        budget.throttled(&none, at(10_000));
        assert_eq!(budget.rate(), Some(100.0), "{budget:?}");
        budget.take(&none, at(11_000));
        budget.take(&none, at(10_999));
        assert_eq!(budget.limit.map(|limit| limit.at), Some(at(11_000)));
    }
}
