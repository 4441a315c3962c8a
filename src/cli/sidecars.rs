//! Which sidecar holds how many locks of which share: `leasehold ls --by-sidecar` (S34, S35).

use std::collections::BTreeMap;

use leasehold_client::{LockRecord, LockState};
use serde::Serialize;

use super::output;
use super::record::printable;

/// A sidecar with the locks that it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct SidecarView {
    /// Its name; empty for locks whose records do not say.
    sidecar: String,
    /// How many locks it holds.
    locks: usize,
    /// The same by their shares, by name; those of none first.
    shares: Vec<ShareView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct ShareView {
    share: String,
    locks: usize,
    lock_paths: Vec<String>,
}

/// Sidecars by their names. Locks that nobody holds belong to none.
pub(crate) fn by_sidecar<'a>(
    records: impl IntoIterator<Item = &'a LockRecord>,
) -> BTreeMap<String, SidecarView> {
    let mut shares: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for record in records.into_iter().filter(|record| is_held(record)) {
        let share = shares.entry((&record.sidecar, &record.share)).or_default();
        share.push(record.lock_path.clone());
    }
    let mut sidecars: BTreeMap<String, SidecarView> = BTreeMap::new();
    for ((sidecar, share), mut lock_paths) in shares {
        lock_paths.sort();
        let (sidecar, share) = (sidecar.to_owned(), share.to_owned());
        let view = sidecars.entry(sidecar.clone()).or_default();
        view.sidecar = sidecar;
        view.locks += lock_paths.len();
        view.shares.push(ShareView { share, locks: lock_paths.len(), lock_paths });
    }
    sidecars
}

/// A lock that was broken is its holder's until the lease expires.
fn is_held(record: &LockRecord) -> bool {
    !matches!(record.state, LockState::Available | LockState::Resting)
}

/// A line for each sidecar; with `names` its locks below it.
pub(crate) fn table(sidecars: &BTreeMap<String, SidecarView>, names: bool) -> String {
    let mut rows = Vec::new();
    for view in sidecars.values() {
        rows.push(vec![view.name(), view.locks.to_string(), view.shares_text()]);
    }
    let table = output::table(&["SIDECAR", "LOCKS", "OF SHARES"], rows);
    if !names {
        return table;
    }
    let mut lines = table.lines();
    let mut text: Vec<String> = lines.next().map(str::to_owned).into_iter().collect();
    for (line, view) in lines.zip(sidecars.values()) {
        text.push(line.to_owned());
        text.extend(view.paths().map(|path| format!("  {path}")));
    }
    text.join("\n")
}

impl SidecarView {
    /// What a watch tells of it, in one line.
    pub(crate) fn line(&self, names: bool) -> String {
        let noun = if self.locks == 1 { "lock" } else { "locks" };
        let mut line = format!("{}  {} {noun}: {}", self.name(), self.locks, self.shares_text());
        if names {
            line.extend(self.paths().map(|path| format!("  {path}")));
        }
        line
    }

    fn name(&self) -> String {
        name(&self.sidecar)
    }

    fn shares_text(&self) -> String {
        let shares = self.shares.iter().map(|share| {
            let name = printable(&share.share);
            format!("{} {}", if name.is_empty() { "(none)" } else { &name }, share.locks)
        });
        shares.collect::<Vec<_>>().join(", ")
    }

    fn paths(&self) -> impl Iterator<Item = String> {
        self.shares.iter().flat_map(|share| &share.lock_paths).map(|path| printable(path))
    }
}

/// A sidecar's name for people.
pub(crate) fn name(sidecar: &str) -> String {
    if sidecar.is_empty() { "(unknown)".to_owned() } else { printable(sidecar) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(path: &str, sidecar: &str, share: &str, state: LockState) -> LockRecord {
        let mut record = LockRecord::default();
        (record.lock_path, record.state) = (path.to_owned(), state);
        (record.sidecar, record.share) = (sidecar.to_owned(), share.to_owned());
        record
    }

    fn some() -> Vec<LockRecord> {
        vec![
            lock("q2", "pod-b#1", "queues", LockState::Held),
            lock("q3", "pod-a#2", "queues", LockState::Breaking),
            lock("q1", "pod-a#2", "queues", LockState::Held),
            lock("q4", "pod-a#2", "queues", LockState::Available),
            lock("q5", "pod-c#3", "queues", LockState::Resting),
            lock("job\u{1b}[2J", "pod-a#2", "", LockState::Held),
            lock("odd", "", "", LockState::Held),
        ]
    }

    #[test]
    fn s34_each_sidecar_has_a_line_with_its_locks_by_share() {
        let (records, columns) = (some(), |line: &str| {
            line.split("  ")
                .map(str::trim)
                .filter(|it| !it.is_empty())
                .collect::<Vec<_>>()
                .join("|")
        });
        let text = table(&by_sidecar(&records), false);
        let lines: Vec<String> = text.lines().map(columns).collect();
        let expected = [
            "SIDECAR|LOCKS|OF SHARES",
            "(unknown)|1|(none) 1",
            "pod-a#2|3|(none) 1, queues 2",
            "pod-b#1|1|queues 1",
        ];
        assert_eq!(lines, expected, "{text}");
    }

    #[test]
    fn s34_names_stand_below_and_do_not_command_the_terminal() {
        let sidecars = by_sidecar(&some());
        let text = table(&sidecars, true);
        let below = "  job\u{fffd}[2J\n  q1\n  q3\npod-b#1";
        assert!(text.contains(below) && text.ends_with("\n  q2"), "{text}");
        let line = sidecars["pod-a#2"].line(true);
        assert_eq!(line, "pod-a#2  3 locks: (none) 1, queues 2  job\u{fffd}[2J  q1  q3");
        assert_eq!(sidecars["pod-b#1"].line(false), "pod-b#1  1 lock: queues 1");
    }
}
