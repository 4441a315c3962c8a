//! A storm's logs as traces of its locks, for the monitor that knows the rules alone.

use std::collections::{BTreeMap, BTreeSet};

use leasehold::testing::{TraceEvent, Traced, accepts};
use serde_json::Value;

/// Everything that the workers' logs say about their locks. `killed` ends what the process before it
/// believed.
pub(crate) fn traces(logs: &BTreeMap<String, String>) -> Vec<TraceEvent> {
    let mut all = Vec::new();
    for (worker, text) in logs {
        // What this process was told of a lock: a kill ends it.
        let mut locks: Vec<String> = Vec::new();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        for line in whole {
            let line: Value = serde_json::from_str(line).unwrap();
            let lock = line["lock"].as_str().unwrap_or_default().to_owned();
            let mut add = |path: &str, what| {
                let (at, process) = (line["at"].as_u64().unwrap() / 1_000, worker.clone());
                all.push(TraceEvent { at, process, path: path.to_owned(), what });
            };
            if line["event"] == "killed" {
                locks.iter().for_each(|lock| add(lock, Traced::Died));
            } else if let Some(what) = of_line(&line) {
                add(&lock, what);
                if !locks.contains(&lock) {
                    locks.push(lock);
                }
            }
        }
    }
    all
}

/// The model accepts each lock's trace, and no longer does once it is spoilt: how many traces that are.
pub(crate) fn check(traced: &[TraceEvent]) -> usize {
    let locks: BTreeSet<&str> = traced.iter().map(|event| event.path.as_str()).collect();
    for lock in &locks {
        let mut trace: Vec<_> =
            traced.iter().filter(|event| event.path == *lock).cloned().collect();
        trace.sort_by_key(|event| event.at);
        assert_eq!(accepts(&trace), Ok(()), "the model does not allow it");
        for (rule, spoilt) in [("S1", overlapping(&trace)), ("S5", repeated(&trace))] {
            let refused = accepts(&spoilt).map_err(|rejected| rejected.rule);
            assert_eq!(refused, Err(rule), "{lock}: a spoilt trace");
        }
    }
    println!(
        "{} traces with {} events are accepted, and refused once spoilt",
        locks.len(),
        traced.len()
    );
    locks.len()
}

/// The places of two grants in a row, of which the first is believed in.
fn two_grants(trace: &[TraceEvent]) -> (usize, usize) {
    let is_grant = |index: &usize| {
        matches!(trace[*index].what, Traced::Granted { resumed: false, valid_until, .. }
            if valid_until > trace[*index].at + 1)
    };
    let grants: Vec<usize> = (0..trace.len()).filter(is_grant).take(2).collect();
    (grants[0], grants[1])
}

/// The second grant comes right after the first.
fn overlapping(trace: &[TraceEvent]) -> Vec<TraceEvent> {
    let (first, second) = two_grants(trace);
    let mut spoilt = trace.to_vec();
    spoilt[second].at = spoilt[first].at + 1;
    spoilt
}

/// The second grant has the token of the first.
fn repeated(trace: &[TraceEvent]) -> Vec<TraceEvent> {
    let (first, second) = two_grants(trace);
    let mut spoilt = trace.to_vec();
    let Traced::Granted { token: former, .. } = trace[first].what else { return spoilt };
    if let Traced::Granted { token, .. } = &mut spoilt[second].what {
        *token = former;
    }
    spoilt
}

fn of_line(line: &Value) -> Option<Traced> {
    let token = line["token"].as_u64()?;
    // The validity is exclusive, and rounded down: a monitor that is told less can only be stricter about
    // renewals.
    let valid_until = line["until"].as_u64().unwrap_or_default() / 1_000;
    Some(match line["event"].as_str()? {
        "granted" => Traced::Granted {
            token,
            generation: line["generation"].as_u64(),
            lease: None,
            resumed: line["resumed"].as_bool().unwrap_or_default(),
            valid_until,
        },
        "told" | "at_risk" => Traced::Told { token, valid_until },
        "look" if line["valid"] == true => Traced::Told { token, valid_until },
        "release_asked" => Traced::Ending { token },
        "lost" => Traced::Lost { token },
        "released" => {
            Traced::Released { token, released: line["outcome"] == "RELEASE_OUTCOME_RELEASED" }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(first: &str, second: &str) -> Option<&'static str> {
        let logs = [("one", first), ("two", second)];
        let logs = logs.map(|(worker, text)| (worker.to_owned(), text.to_owned()));
        accepts(&traces(&logs.into())).err().map(|rejected| rejected.rule)
    }

    fn line(event: &str, at_ms: u64, token: u64, more: &str) -> String {
        let at = at_ms * 1_000_000;
        format!("{{\"event\":\"{event}\",\"at\":{at},\"lock\":\"a\",\"token\":{token}{more}}}\n")
    }

    fn granted(at_ms: u64, token: u64, until_ms: u64) -> String {
        let until = until_ms * 1_000_000;
        line("granted", at_ms, token, &format!(",\"until\":{until},\"resumed\":false"))
    }

    #[test]
    fn s1_s13_a_log_is_read_as_a_trace() {
        let first = granted(1, 4_096, 50);
        assert_eq!(rule(&first, &granted(49, 8_192, 90)), Some("S1"));
        assert_eq!(rule(&first, &granted(51, 8_192, 90)), None);
        let asked = first.clone() + &line("release_asked", 20, 4_096, "");
        assert_eq!(rule(&asked, &granted(21, 4_097, 90)), None);
        let killed = first.clone() + "{\"event\":\"killed\",\"at\":20000000}\n";
        assert_eq!(rule(&killed, &granted(21, 4_097, 90)), None);
        let outcome = ",\"outcome\":\"RELEASE_OUTCOME_RELEASED\"";
        let late =
            first + &line("release_asked", 60, 4_096, "") + &line("released", 61, 4_096, outcome);
        assert_eq!(rule(&late, &granted(55, 8_192, 90)), Some("S13"));
    }
}
