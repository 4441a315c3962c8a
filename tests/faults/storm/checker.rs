//! Proves from the workers' logs that nothing went wrong: all times are of one boot clock.

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
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) why: String,
}

/// What one worker believed of one hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Belief {
    pub(crate) worker: String,
    pub(crate) lock: String,
    pub(crate) token: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// The lines of each worker. A line that was cut off by a kill is the last one, and left out.
pub(crate) fn read(text: &str) -> Vec<Line> {
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// From the first to the last moment at which the worker was seen to believe.
pub(crate) fn beliefs(logs: &BTreeMap<String, Vec<Line>>) -> Vec<Belief> {
    let mut found: BTreeMap<(String, String, u64), (u64, u64)> = BTreeMap::new();
    for (worker, lines) in logs {
        for line in lines.iter().filter(|line| line.event == "look" && line.valid) {
            let hold = (worker.clone(), line.lock.clone(), line.token);
            let span = found.entry(hold).or_insert((line.at, line.at));
            span.1 = line.at.max(span.1);
        }
    }
    let belief =
        |((worker, lock, token), (first, last))| Belief { worker, lock, token, first, last };
    found.into_iter().map(belief).collect()
}

/// S1 and S5: no two believe in one lock at one moment, and who believes later has the greater token.
pub(crate) fn overlaps(beliefs: &[Belief]) -> Vec<String> {
    let mut by_lock: BTreeMap<&str, Vec<&Belief>> = BTreeMap::new();
    for belief in beliefs {
        by_lock.entry(&belief.lock).or_default().push(belief);
    }
    let mut problems = Vec::new();
    for (lock, mut beliefs) in by_lock {
        beliefs.sort_by_key(|belief| belief.first);
        for pair in beliefs.windows(2) {
            let [before, after] = pair else { continue };
            if after.first <= before.last {
                problems.push(format!("S1: {lock}: {before:?} and {after:?}"));
            }
            if after.token <= before.token {
                problems.push(format!("S5: {lock}: {before:?}, then {after:?}"));
            }
        }
    }
    problems
}

/// S5: each token was granted once.
pub(crate) fn granted_twice(logs: &BTreeMap<String, Vec<Line>>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let granted = logs.values().flatten().filter(|line| line.event == "granted");
    granted
        .filter(|line| !seen.insert((line.lock.clone(), line.token)))
        .map(|line| format!("S5: granted twice: {line:?}"))
        .collect()
}

/// S4 and S21: who lost a lock knew by the end of what it had last been told, but for the time in which it was stopped
/// and `slack` for a busy machine. `stops` are the spans in which each worker was.
pub(crate) fn late_losses(
    logs: &BTreeMap<String, Vec<Line>>,
    stops: &BTreeMap<String, Vec<(u64, u64)>>,
    slack: Duration,
) -> Vec<String> {
    let slack = u64::try_from(slack.as_nanos()).unwrap_or(u64::MAX);
    let mut problems = Vec::new();
    for (worker, lines) in logs {
        let none = Vec::new();
        let stops = stops.get(worker).unwrap_or(&none);
        let mut until = BTreeMap::new();
        for line in lines {
            let hold = (line.lock.clone(), line.token);
            match line.event.as_str() {
                "look" => {
                    until.insert(hold, line.until);
                }
                "lost" => {
                    let Some(until) = until.get(&hold) else { continue };
                    // Renewed since that look, at most for a whole lease.
                    let latest = until.saturating_add(super::LEASE_NANOS);
                    let went_on =
                        stops.iter().filter(|(from, _)| *from <= latest).map(|stop| stop.1);
                    let latest = went_on.fold(latest, u64::max).saturating_add(slack);
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

    fn logs(text: &[(&str, &str)]) -> BTreeMap<String, Vec<Line>> {
        text.iter().map(|(worker, text)| ((*worker).to_owned(), read(text))).collect()
    }

    fn look(at: u64, token: u64) -> String {
        format!(
            "{{\"event\":\"look\",\"at\":{at},\"lock\":\"a\",\"token\":{token},\"valid\":true,\"until\":99}}\n"
        )
    }

    #[test]
    fn s1_two_who_believe_at_once_are_found() {
        let first = look(1, 5) + &look(10, 5);
        let second = look(9, 6);
        let found = overlaps(&beliefs(&logs(&[("one", &first), ("two", &second)])));
        assert!(found.len() == 1 && found[0].starts_with("S1"), "{found:?}");
        let later = look(11, 6);
        assert_eq!(overlaps(&beliefs(&logs(&[("one", &first), ("two", &later)]))), [""; 0]);
    }

    #[test]
    fn s5_a_token_that_does_not_grow_is_found() {
        let found = overlaps(&beliefs(&logs(&[("one", &look(1, 5)), ("two", &look(2, 4))])));
        assert!(found.len() == 1 && found[0].starts_with("S5"), "{found:?}");
        let granted = "{\"event\":\"granted\",\"at\":1,\"lock\":\"a\",\"token\":5}\n";
        assert_eq!(granted_twice(&logs(&[("one", granted), ("two", granted)])).len(), 1);
        assert_eq!(granted_twice(&logs(&[("one", granted)])).len(), 0);
    }

    #[test]
    fn s4_who_knows_too_late_is_found() {
        let lost = |at: u64| {
            look(1, 5) + &format!("{{\"event\":\"lost\",\"at\":{at},\"lock\":\"a\",\"token\":5}}\n")
        };
        let late = super::super::LEASE_NANOS + 200;
        let check = |text: &str, stops: &[(u64, u64)]| {
            let stops = BTreeMap::from([("one".to_owned(), stops.to_vec())]);
            late_losses(&logs(&[("one", text)]), &stops, Duration::from_nanos(50)).len()
        };
        assert_eq!(check(&lost(late), &[]), 1);
        assert_eq!(check(&lost(late), &[(50, late - 10)]), 0, "it was stopped");
        assert_eq!(check(&lost(100), &[]), 0);
    }

    #[test]
    fn a_line_that_a_kill_cut_off_is_left_out() {
        let text = look(1, 5) + "{\"event\":\"lo";
        assert_eq!(read(&text).len(), 1);
    }
}
