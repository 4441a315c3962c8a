//! Locks as a table: within the width of a terminal, or with everything (`-o wide`).

use std::collections::{BTreeMap, BTreeSet};

use leasehold_client::{LockRecord, LockState};

use super::narrow::{CUT, common, fit};
use super::output;
use super::record::{self, holder, printable};
use super::sharing;
use super::times::age;
use crate::time::{BootClock, Clock as _, UnixMillis};
use crate::view::state;

/// The locks within `width` columns: what their paths have in common is said once, and the longest cells are
/// cut.
pub(super) fn narrow(records: &[LockRecord], width: usize) -> String {
    if records.is_empty() {
        return "no locks".to_owned();
    }
    let now = BootClock::new().wall();
    let places: Vec<(&str, &str)> =
        records.iter().map(|record| (record.lock_path.as_str(), record.host_id.as_str())).collect();
    let under = common(&places);
    let name = |record: &LockRecord| {
        let path = record.lock_path.get(under.len()..).unwrap_or(&record.lock_path);
        printable(path)
    };
    let with_waiters = records.iter().any(|record| record.waiters_here > 0);
    let mut headings = vec!["LOCK", "STATE", "HOLDER", "TOKEN", "FOR"];
    headings.extend(with_waiters.then_some("WAITERS HERE"));
    let rows = records.iter().map(|record| {
        let mut row = vec![
            name(record),
            short_state(record),
            holder(record),
            token(record),
            held_for(record, now),
        ];
        row.extend(with_waiters.then(|| record.waiters_here.to_string()));
        row
    });
    let mut rows: Vec<Vec<String>> = rows.collect();
    let was_cut = fit(&headings, &mut rows, width, &["LOCK", "HOLDER"]);
    let mut text = Vec::new();
    if !under.is_empty() {
        text.push(format!("under {}", printable(&under)));
    }
    text.push(output::table(&headings, rows));
    for record in records {
        text.extend(record::kept_text(record).map(|kept| format!("{}: {kept}", name(record))));
    }
    text.extend(collisions(records));
    if was_cut {
        text.push(CUT.to_owned());
    }
    text.join("\n")
}

/// The locks with everything, however wide.
pub(super) fn wide(records: &[LockRecord]) -> String {
    if records.is_empty() {
        return "no locks".to_owned();
    }
    let now = BootClock::new().wall();
    let rows = records.iter().map(|record| {
        vec![
            printable(&record.lock_path),
            record::state_text(record),
            holder(record),
            token(record),
            held_for(record, now),
            printable(&record.host_type),
            record.waiters_here.to_string(),
            printable(&record.share),
            sharing::priority_text(record),
            printable(&record.sidecar),
        ]
    });
    let headings = [
        "LOCK",
        "STATE",
        "HOLDER",
        "TOKEN",
        "FOR",
        "HOST TYPE",
        "WAITERS HERE",
        "SHARE",
        "PRIORITY",
        "SIDECAR",
    ];
    output::table(&headings, rows.collect())
}

fn short_state(record: &LockRecord) -> String {
    let kept = if record.kept_until.is_some() { ", kept" } else { "" };
    format!("{}{kept}", state(record))
}

fn token(record: &LockRecord) -> String {
    record.fencing_token.map(|token| token.to_string()).unwrap_or_default()
}

fn held_for(record: &LockRecord, now: UnixMillis) -> String {
    let in_use = record.state != LockState::Available;
    if in_use { age(record.acquired_at, now) } else { String::new() }
}

/// Deployments that share a host id, and so locks, perhaps by accident: a line for each such host id.
fn collisions(records: &[LockRecord]) -> Vec<String> {
    let mut host_types: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for record in records.iter().filter(|record| !record.host_type.is_empty()) {
        host_types.entry(&record.host_id).or_default().insert(&record.host_type);
    }
    host_types.retain(|_, types| types.len() > 1);
    let lines = host_types.into_iter().map(|(host_id, types)| {
        let types: Vec<String> = types.into_iter().map(printable).collect();
        format!(
            "the host types {} share the host id {host_id}, and so each other's locks",
            types.join(", ")
        )
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(path: &str, host_id: &str) -> LockRecord {
        let mut lock = LockRecord::default();
        (lock.lock_path, lock.host_id) = (path.to_owned(), host_id.to_owned());
        lock
    }

    #[test]
    fn what_paths_have_in_common_is_said_once_and_no_name_is_cut_by_it() {
        let one = [lock("c/p/h/a/x/FUNCTION", "h"), lock("c/p/h/a/y/FUNCTION", "h")];
        let text = narrow(&one, 100);
        assert!(text.starts_with("under c/p/h/\nLOCK"), "{text}");
        assert!(text.contains("\na/x/FUNCTION") && !text.contains(" c/p/h/a"), "{text}");
        assert_eq!(narrow(&[], 100), "no locks");
    }

    #[test]
    fn a_table_of_long_names_has_a_hundred_columns_and_wide_cuts_nothing() {
        let host = "739df1faf6c08e78a883736d006f2964";
        let name =
            format!("{}/{}/FUNCTION", "Orders.Billing.Nightly".repeat(5), "eu-west-1".repeat(4));
        let mut long = lock(&format!("leasehold/locks/{host}/{name}"), host);
        long.holder = "orders-worker-7d9c5b6f4-x2k8p (pid 4711) in namespace production".to_owned();
        long.host_type = "orders-worker".to_owned();
        long.fencing_token = Some(281_474_976_710_657);
        long.waiters_here = 3;
        let mut short = long.clone();
        short.lock_path = format!("leasehold/locks/{host}/short/~/FUNCTION");
        let all = [long.clone(), short];
        let text = narrow(&all, 100);
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
        }
        assert!(text.contains("281474976710657") && text.contains("-o wide"), "{text}");
        let wide = wide(&all);
        assert!(wide.contains(&long.lock_path) && wide.contains(&long.holder), "{wide}");
        assert!(wide.contains("orders-worker"), "{wide}");
    }

    #[test]
    fn host_types_that_share_a_host_id_are_named() {
        let mut one = lock("c/p/h/a/~/FUNCTION", "h");
        one.host_type = "billing".to_owned();
        let mut other = lock("c/p/h/b/~/FUNCTION", "h");
        other.host_type = "orders".to_owned();
        let text = narrow(&[one.clone(), other], 100);
        assert!(text.contains("the host types billing, orders share the host id h"), "{text}");
        assert!(!narrow(&[one], 100).contains("share the host id"));
    }
}
