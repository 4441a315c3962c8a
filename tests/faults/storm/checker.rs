//! Proves from the workers' logs that nothing went wrong: all times are of one boot clock. The head of
//! `worker.rs` says what the lines mean.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;

/// One line of a worker's log.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Line {
    /// Nanoseconds on the boot clock.
    pub(crate) at: u64,
    pub(crate) event: String,
    #[serde(default)]
    pub(crate) lock: String,
    #[serde(default)]
    pub(crate) token: u64,
    /// Whether the worker believed at that moment.
    #[serde(default)]
    pub(crate) valid: bool,
    /// Until when it could believe if nothing more came.
    #[serde(default)]
    pub(crate) until: u64,
    #[serde(default)]
    pub(crate) resumed: bool,
    #[serde(default)]
    pub(crate) wall_ahead_ms: i64,
    #[serde(default)]
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) outcome: String,
}

/// The lines of each worker.
pub(crate) type Logs = BTreeMap<String, Vec<Line>>;

/// What one worker was promised of one hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Promise {
    pub(crate) worker: String,
    pub(crate) lock: String,
    pub(crate) token: u64,
    /// The first look at the grant.
    pub(crate) first: u64,
    /// The end of the last validity that was told, or of the belief, if that was earlier.
    pub(crate) end: u64,
    /// The belief ended before the validity did: by a release, a loss, or a death.
    pub(crate) ended: bool,
}

/// The lines of a worker. A line that was cut off is the last one, and left out.
pub(crate) fn read(text: &str) -> Vec<Line> {
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Each hold from its first look to the end of what was promised: not to the last look, since the holder may
/// act until the end of what it was told whether or not it looks again.
pub(crate) fn promises(logs: &Logs) -> Vec<Promise> {
    let mut all = Vec::new();
    for (worker, lines) in logs {
        let mut open: BTreeMap<(&str, u64), Promise> = BTreeMap::new();
        for line in lines {
            if line.event == "killed" {
                for promise in open.values_mut().filter(|promise| !promise.ended) {
                    promise.end_at(line.at);
                }
                all.extend(std::mem::take(&mut open).into_values());
                continue;
            }
            let hold = (line.lock.as_str(), line.token);
            if line.event == "granted" && !line.resumed {
                let (worker, lock) = (worker.clone(), line.lock.clone());
                let (token, first, end) = (line.token, line.at, line.until);
                open.insert(hold, Promise { worker, lock, token, first, end, ended: false });
            }
            let Some(promise) = open.get_mut(&hold).filter(|promise| !promise.ended) else {
                continue;
            };
            match line.event.as_str() {
                "granted" | "told" | "at_risk" => promise.end = promise.end.max(line.until),
                "look" if line.valid => promise.end = promise.end.max(line.until),
                "lost" | "release_asked" => promise.end_at(line.at),
                _ => {}
            }
        }
        all.extend(open.into_values());
    }
    // Stopped between the grant and the first look, it found its validity over, and never acted.
    all.retain(|promise| promise.first < promise.end);
    all
}

impl Promise {
    fn end_at(&mut self, at: u64) {
        self.end = self.end.min(at);
        self.ended = true;
    }
}

/// S1 and S5: no two are promised one lock for one moment, and who is promised it later has the greater
/// token.
pub(crate) fn overlaps(promises: &[Promise]) -> Vec<String> {
    let mut by_lock: BTreeMap<&str, Vec<&Promise>> = BTreeMap::new();
    for promise in promises {
        by_lock.entry(&promise.lock).or_default().push(promise);
    }
    let mut problems = Vec::new();
    for (lock, mut promises) in by_lock {
        promises.sort_by_key(|promise| promise.first);
        let mut longest: Option<&Promise> = None;
        for after in promises {
            if let Some(before) = longest {
                if after.first <= before.end {
                    problems.push(format!("S1: {lock}: {before:?} and {after:?}"));
                }
                if after.token <= before.token {
                    problems.push(format!("S5: {lock}: {before:?}, then {after:?}"));
                }
            }
            if longest.is_none_or(|before| before.end < after.end) {
                longest = Some(after);
            }
        }
    }
    problems
}

/// S21: nobody who looked was told that it may act after the end of what it was promised.
pub(crate) fn late_beliefs(logs: &Logs, promises: &[Promise]) -> Vec<String> {
    let mut ends = BTreeMap::new();
    for promise in promises {
        ends.insert((promise.worker.as_str(), promise.lock.as_str(), promise.token), promise.end);
    }
    let mut problems = Vec::new();
    for (worker, lines) in logs {
        for line in lines.iter().filter(|line| line.event == "look" && line.valid) {
            let end = ends.get(&(worker.as_str(), line.lock.as_str(), line.token));
            if end.is_none_or(|end| line.at > *end) {
                problems.push(format!("S21: {worker} believed too long: {line:?}, until {end:?}"));
            }
        }
    }
    problems
}

/// S5: each token was granted once.
pub(crate) fn granted_twice(logs: &Logs) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let granted = logs.values().flatten().filter(|line| line.event == "granted" && !line.resumed);
    granted
        .filter(|line| !seen.insert((line.lock.clone(), line.token)))
        .map(|line| format!("S5: granted twice: {line:?}"))
        .collect()
}

/// S13: who was told RELEASED had the lock until it asked: nobody was granted it in between, whatever the
/// holder believed.
pub(crate) fn false_releases(logs: &Logs) -> Vec<String> {
    let mut grants: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for line in logs.values().flatten().filter(|line| line.event == "granted" && !line.resumed) {
        grants.entry(&line.lock).or_default().push((line.token, line.at));
    }
    let mut problems = Vec::new();
    for (worker, lines) in logs {
        let mut asked = BTreeMap::new();
        for line in lines {
            let hold = (line.lock.as_str(), line.token);
            match (line.event.as_str(), line.outcome.as_str()) {
                ("release_asked", _) => {
                    asked.insert(hold, line.at);
                }
                ("released", "RELEASE_OUTCOME_RELEASED") => {
                    let Some(asked) = asked.get(&hold) else { continue };
                    let others = grants.get(hold.0).into_iter().flatten();
                    for (token, at) in others.filter(|(token, at)| *token > hold.1 && at < asked) {
                        problems.push(format!(
                            "S13: {worker} was told RELEASED of {line:?}, and {token} was granted at {at}"
                        ));
                    }
                }
                _ => {}
            }
        }
    }
    problems
}

/// S4 and S21: who lost a lock knew by the end of what it had last been told, but for the time in which it
/// was stopped and `slack` for a busy machine. `stops` are the spans in which each worker was.
pub(crate) fn late_losses(
    logs: &Logs,
    stops: &BTreeMap<String, Vec<(u64, u64)>>,
    slack: Duration,
) -> Vec<String> {
    let slack = u64::try_from(slack.as_nanos()).unwrap_or(u64::MAX);
    let mut problems = Vec::new();
    for (worker, lines) in logs {
        let none = Vec::new();
        let stops = stops.get(worker).unwrap_or(&none);
        let mut told = BTreeMap::new();
        for line in lines {
            let hold = (line.lock.clone(), line.token);
            match line.event.as_str() {
                "granted" | "told" | "at_risk" | "look" => {
                    let until = told.entry(hold).or_insert(line.until);
                    *until = line.until.max(*until);
                }
                "lost" => {
                    let Some(until) = told.get(&hold) else { continue };
                    // A busy machine may not have run it before it was stopped.
                    let due = until.saturating_add(slack);
                    let went_on = stops.iter().filter(|(from, _)| *from <= due).map(|stop| stop.1);
                    let latest = went_on.fold(*until, u64::max).saturating_add(slack);
                    if line.at > latest {
                        problems
                            .push(format!("S4: {worker} knew too late: {line:?}, until {until}"));
                    }
                }
                _ => {}
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(text: &[(&str, &str)]) -> Logs {
        text.iter().map(|(worker, text)| ((*worker).to_owned(), read(text))).collect()
    }

    /// A line about the hold of the lock `a` with this token.
    fn line(event: &str, at: u64, token: u64, more: &str) -> String {
        format!("{{\"event\":\"{event}\",\"at\":{at},\"lock\":\"a\",\"token\":{token}{more}}}\n")
    }

    fn granted(at: u64, token: u64, until: u64) -> String {
        line("granted", at, token, &format!(",\"until\":{until},\"resumed\":false"))
    }

    fn told(at: u64, token: u64, until: u64) -> String {
        line("told", at, token, &format!(",\"until\":{until},\"what\":\"renewed\""))
    }

    fn found(one: &str, two: &str) -> Vec<String> {
        overlaps(&promises(&logs(&[("one", one), ("two", two)])))
    }

    #[test]
    fn s1_two_promises_for_one_moment_are_found_though_nobody_looked_in_it() {
        let first = granted(1, 5, 20) + &told(5, 5, 30);
        let problems = found(&first, &granted(29, 6, 50));
        assert!(problems.len() == 1 && problems[0].starts_with("S1"), "{problems:?}");
        assert_eq!(found(&first, &granted(31, 6, 50)), [""; 0]);
    }

    #[test]
    fn s1_a_promise_within_a_longer_one_hides_nothing() {
        let first = granted(1, 5, 100);
        let problems = found(&first, &(granted(10, 6, 12) + &granted(50, 7, 60)));
        assert_eq!(problems.iter().filter(|problem| problem.starts_with("S1")).count(), 2);
    }

    #[test]
    fn s1_a_promise_ends_with_the_belief() {
        let first = granted(1, 5, 100);
        let killed = "{\"event\":\"killed\",\"at\":9}\n";
        for end in [line("release_asked", 9, 5, ""), line("lost", 9, 5, ""), killed.to_owned()] {
            let first = first.clone() + &end;
            assert_eq!(found(&first, &granted(10, 6, 50)), [""; 0], "{end}");
            assert_eq!(found(&first, &granted(9, 6, 50)).len(), 1, "{end}");
            // What comes after the end promises nothing.
            assert_eq!(found(&(first + &told(9, 5, 90)), &granted(10, 6, 50)), [""; 0], "{end}");
        }
    }

    #[test]
    fn s5_a_token_that_does_not_grow_is_found() {
        let found = found(&granted(1, 5, 2), &granted(3, 4, 9));
        assert!(found.len() == 1 && found[0].starts_with("S5"), "{found:?}");
        let twice = granted(1, 5, 9);
        assert_eq!(granted_twice(&logs(&[("one", &twice), ("two", &twice)])).len(), 1);
        assert_eq!(granted_twice(&logs(&[("one", &twice)])).len(), 0);
        let resumed = twice + &line("granted", 2, 5, ",\"until\":9,\"resumed\":true");
        assert_eq!(granted_twice(&logs(&[("one", &resumed)])).len(), 0);
    }

    #[test]
    fn s21_a_belief_after_its_end_is_found() {
        let look = |at: u64| line("look", at, 5, ",\"valid\":true,\"until\":20");
        let check = |text: String| {
            let logs = logs(&[("one", &text)]);
            late_beliefs(&logs, &promises(&logs)).len()
        };
        assert_eq!(check(granted(1, 5, 20) + &look(19)), 0);
        assert_eq!(check(granted(1, 5, 20) + &look(21)), 1);
        assert_eq!(check(granted(1, 5, 20) + &line("release_asked", 5, 5, "") + &look(19)), 1);
    }

    #[test]
    fn s13_a_release_of_what_another_had_by_then_is_found() {
        let released = |outcome: &str| {
            granted(1, 5, 20)
                + &line("release_asked", 15, 5, "")
                + &line("released", 16, 5, &format!(",\"outcome\":\"RELEASE_OUTCOME_{outcome}\""))
        };
        let check = |one: &str, at: u64| {
            false_releases(&logs(&[("one", one), ("two", &granted(at, 6, 30))])).len()
        };
        assert_eq!(check(&released("RELEASED"), 14), 1);
        assert_eq!(check(&released("RELEASED"), 16), 0);
        assert_eq!(check(&released("ALREADY_LOST"), 14), 0);
    }

    #[test]
    fn s4_who_knows_too_late_is_found() {
        let lost = |at: u64| granted(1, 5, 99) + &told(50, 5, 200) + &line("lost", at, 5, "");
        let check = |text: &str, stops: &[(u64, u64)]| {
            let stops = BTreeMap::from([("one".to_owned(), stops.to_vec())]);
            late_losses(&logs(&[("one", text)]), &stops, Duration::from_nanos(50)).len()
        };
        assert_eq!(check(&lost(251), &[]), 1);
        assert_eq!(check(&lost(250), &[]), 0);
        assert_eq!(check(&lost(400), &[(150, 390)]), 0, "it was stopped");
        assert_eq!(check(&lost(400), &[(251, 390)]), 1, "stopped when it should have known");
    }

    #[test]
    fn a_line_that_a_kill_cut_off_is_left_out() {
        let text = granted(1, 5, 9) + "{\"event\":\"lo";
        assert_eq!(read(&text).len(), 1);
    }
}
