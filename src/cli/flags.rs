//! What the command line calls the fields of the API, for errors: nobody who gave `--lease-duration` knows
//! `spec.lease_duration`.

use std::error::Error as StdError;

use leasehold_client::{Error as ClientError, Reason, Refusal};

/// Fields whose flags have another name; the others are called like their flags.
const OTHERS: &[(&str, &str)] = &[
    ("broken_by", "--by"),
    ("catch_up_max", "--catch-up"),
    ("cron", "EXPRESSION"),
    ("fencing_token", "--token"),
    ("key", "--function and --scope"),
    ("labels", "--label"),
    ("lease_id", "LEASE_ID"),
    ("lock_path", "LOCK_PATH"),
    ("max_attempts", "--retry"),
    ("no_run_timeout", "--timeout"),
    ("occurrence_at", "--occurrence"),
    ("occurrence_max_attempts", "--max-attempts"),
    ("run_timeout", "--timeout"),
    ("stop_grace", "--kill-after"),
    ("time_zone", "--tz"),
    ("wait_without_end", "--wait forever"),
];

/// Fields that have flags of their own name.
const SAME: &[&str] = &[
    "backoff",
    "catch_up",
    "catch_up_window",
    "every",
    "first",
    "function",
    "grace",
    "holder",
    "host_id",
    "host_type",
    "lease_duration",
    "max_hold",
    "min_hold",
    "mode",
    "overlap",
    "permits",
    "prefix",
    "priority",
    "progress_timeout",
    "reason",
    "rebalance",
    "request_id",
    "revision",
    "scope",
    "share",
    "spread",
    "takeover_check",
    "value",
    "wait",
    "watermark",
    "yields",
];

/// The flag for the last part of a field's path.
fn of_field(field: &str) -> Option<String> {
    let name = field.rsplit('.').next().unwrap_or(field);
    let name = name.split('[').next().unwrap_or(name);
    let other = OTHERS.iter().find(|(other, _)| *other == name).map(|(_, flag)| (*flag).to_owned());
    let same = || SAME.contains(&name).then(|| format!("--{}", name.replace('_', "-")));
    other.or_else(same)
}

/// An error as the command line tells it.
pub(super) fn told(error: &(dyn StdError + 'static)) -> String {
    match error.downcast_ref::<ClientError>() {
        Some(ClientError::Refused(refusal)) => of_refusal(refusal),
        Some(_) | None => error.to_string(),
    }
}

fn of_refusal(refusal: &Refusal) -> String {
    if refusal.reason != Some(Reason::InvalidField) || refusal.violations.is_empty() {
        return refusal.to_string();
    }
    let lines = refusal.violations.iter().map(|violation| {
        let flag = of_field(&violation.field).unwrap_or_else(|| violation.field.clone());
        format!("{flag}: {}", with_flags(&violation.description))
    });
    lines.collect::<Vec<_>>().join("; ")
}

/// The text with flags where it names fields. A setting has a dot, and a plain word may mean anything.
fn with_flags(text: &str) -> String {
    let is_of_word = |char: char| char.is_ascii_alphanumeric() || "_.-".contains(char);
    let mut told = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|char| !is_of_word(char)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let name = word.trim_end_matches('.');
        let flag = if name.contains('_') && !name.contains('.') { of_field(name) } else { None };
        told.push_str(flag.as_deref().unwrap_or(name));
        told.push_str(word.get(name.len()..).unwrap_or_default());
        let next = after.chars().next().map_or(0, char::len_utf8);
        let (between, after) = after.split_at(next);
        told.push_str(between);
        rest = after;
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_that_is_named_exists() {
        let line = super::super::command_line();
        let mut flags = Vec::new();
        let mut groups = vec![line];
        while let Some(command) = groups.pop() {
            flags.extend(
                command.get_arguments().filter_map(|one| one.get_long().map(str::to_owned)),
            );
            groups.extend(command.get_subcommands().cloned());
        }
        let named = SAME.iter().copied().chain(OTHERS.iter().map(|(field, _)| *field));
        for flag in named.filter_map(of_field).filter(|flag| flag.starts_with("--")) {
            for one in flag.split(" and ").map(|flag| flag.split(' ').next().unwrap()) {
                let one = one.trim_start_matches("--");
                // `--every` is a flag of `schedule next`, and stands first in `every`.
                assert!(flags.iter().any(|flag| flag == one), "--{one}");
            }
        }
    }

    #[test]
    fn s19_fields_are_told_as_the_flags_that_were_given() {
        assert_eq!(of_field("spec.key.function").as_deref(), Some("--function"));
        assert_eq!(of_field("spec.lease_duration").as_deref(), Some("--lease-duration"));
        assert_eq!(of_field("states[1]"), None);
        let text = "is longer than max_hold, which is 1h (locks.max_hold_ceiling), or a_b.";
        let told = "is longer than --max-hold, which is 1h (locks.max_hold_ceiling), or a_b.";
        assert_eq!(with_flags(text), told);
    }
}
