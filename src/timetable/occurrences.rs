//! From times of no zone to instants: the gaps and the repeated hours of a zone (T14).
//!
//! A zone's clock is a sequence of [`Period`]s in which it is equally far ahead of UTC. In each of them the
//! times that fit are instants. What is special happens where one begins: the clock jumped forward over a
//! gap, or back, and shows a while again that it has shown before.

use super::cron::DAY;
use super::zone::{Period, Zone};
use super::{ClockJump, UtcSecond};

/// The first instant that schedules know: the Unix epoch.
pub(super) const FIRST: i64 = UtcSecond::FIRST.0;
/// The last instant that schedules know: 9999-12-30T00:00:00Z, which has a local time in every zone.
pub(super) const LAST: i64 = UtcSecond::LAST.0;

/// No clock jumps so far (a test looks at every zone).
const FURTHER_THAN_ANY_JUMP: i64 = 2 * DAY;

/// Times of no zone: what an expression says, before a zone is asked. Counted as if they were UTC.
pub(super) trait LocalTimes {
    /// The first one that is not before `local`.
    fn at_or_after(&self, local: i64) -> Option<i64>;

    /// The last one that is not after `local`.
    fn at_or_before(&self, local: i64) -> Option<i64>;

    /// Whether second, minute or hour is `*` or has a step (T14).
    fn is_interval(&self) -> bool;

    /// Whether there are hours without an occurrence (T14).
    fn restricts_the_hour(&self) -> bool;

    /// Whether one from `from` on and before `end` fits.
    fn fits_between(&self, from: i64, end: i64) -> bool {
        self.at_or_after(from).is_some_and(|time| time < end)
    }
}

/// The first occurrence that is not before `at`.
pub(super) fn at_or_after(times: &impl LocalTimes, zone: &Zone, at: i64) -> Option<i64> {
    let mut at = at.max(FIRST);
    while at <= LAST {
        let period = zone.period(at);
        if period.start == Some(at) && makes_up(times, &period) {
            return Some(at);
        }
        let from = (at + period.offset).max(first_local(times, &period));
        let found = times.at_or_after(from)? - period.offset;
        let Some(end) = period.end.filter(|end| *end <= found) else {
            return Some(found).filter(|found| *found <= LAST);
        };
        // Whole periods without an occurrence are left out; what a near jump repeats is not.
        let near = end - at < FURTHER_THAN_ANY_JUMP;
        at = if near { end } else { end.max(found - FURTHER_THAN_ANY_JUMP) };
    }
    None
}

/// The last occurrence that is not after `at`.
pub(super) fn at_or_before(times: &impl LocalTimes, zone: &Zone, at: i64) -> Option<i64> {
    let mut at = at.min(LAST);
    while at >= FIRST {
        let period = zone.period(at);
        let local = times.at_or_before(at + period.offset)?;
        let found = local - period.offset;
        if local >= first_local(times, &period) {
            return Some(found).filter(|found| *found >= FIRST);
        }
        let start = period.start?;
        if start >= FIRST && makes_up(times, &period) {
            return Some(start);
        }
        let near = at - start < FURTHER_THAN_ANY_JUMP;
        at = if near { start - 1 } else { (start - 1).min(found + FURTHER_THAN_ANY_JUMP) };
    }
    None
}

/// The first local time of a period that counts: what a repeated hour shows again does so for intervals only.
fn first_local(times: &impl LocalTimes, period: &Period) -> i64 {
    let Some(start) = period.start else { return i64::MIN };
    if times.is_interval() {
        start + period.offset
    } else {
        start + period.offset.max(period.offset_before)
    }
}

/// Whether a period begins with an occurrence for those in the gap before it: where the hour is restricted.
fn makes_up(times: &impl LocalTimes, period: &Period) -> bool {
    let Some(start) = period.start else { return false };
    period.offset > period.offset_before
        && times.restricts_the_hour()
        && times.fits_between(start + period.offset_before, start + period.offset)
}

/// What a jump of the zone's clock has to do with the occurrence `at`, if it has.
pub(super) fn clock_jump(times: &impl LocalTimes, zone: &Zone, at: i64) -> Option<ClockJump> {
    let period = zone.period(at);
    if period.start == Some(at) && makes_up(times, &period) {
        return Some(ClockJump::MadeUp);
    }
    let shown_until = period.start.map(|start| start + period.offset_before);
    if shown_until.is_some_and(|until| at + period.offset < until) {
        return Some(ClockJump::SecondPass);
    }
    let end = period.end.filter(|end| end - at < FURTHER_THAN_ANY_JUMP)?;
    (at + period.offset >= end + zone.period(end).offset).then_some(ClockJump::FirstPass)
}
