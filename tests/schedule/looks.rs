//! When a sidecar looks (T17).

use std::time::Duration;

use leasehold::schedule::{Fraction, after_busy, until_due};

use crate::schedule::rig::seconds;

#[test]
fn t17_the_last_runner_acquires_at_once_and_others_read_after_200_to_1200_ms() {
    let due = Some(seconds(90));
    assert_eq!(until_due(due, true, Fraction(500)), seconds(90));
    assert_eq!(until_due(due, false, Fraction(0)), Duration::from_millis(90_200));
    assert_eq!(until_due(due, false, Fraction(1_000)), Duration::from_millis(91_200));
    assert_eq!(until_due(due, false, Fraction(u16::MAX)), Duration::from_millis(91_200));
}

#[test]
fn t17_there_is_a_read_each_ten_minutes() {
    for wait in [None, Some(seconds(601)), Some(seconds(86_400))] {
        assert_eq!(until_due(wait, true, Fraction(0)), seconds(600));
        assert_eq!(until_due(wait, false, Fraction(1_000)), seconds(540));
    }
}

#[test]
fn t17_who_saw_it_running_looks_after_d_2d_4d() {
    let after = |looks| after_busy(looks, seconds(30), None, Fraction(0)).as_secs();
    assert_eq!([0, 1, 2, 3, 4, 5, 99].map(after), [30, 60, 120, 240, 480, 600, 600]);
    assert_eq!(after_busy(4, seconds(30), Some(seconds(45)), Fraction(0)), seconds(45));
    assert_eq!(after_busy(0, seconds(30), Some(seconds(45)), Fraction(0)), seconds(30));
    assert_eq!(after_busy(1, seconds(30), None, Fraction(1_000)), seconds(54));
}
