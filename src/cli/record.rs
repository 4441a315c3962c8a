//! What commands show of grants and locks, for people and as JSON.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_client::{
    BreakNote, Busy, BusyReason, Grant, LockKey, LockMode, LockRecord, LockSelector, LockState,
    Validity,
};
use serde::Serialize;

use super::output;
use crate::time::{BootClock, Clock as _, UnixMillis};

/// A lock's record as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct LockView {
    lock_path: String,
    state: &'static str,
    fencing_token: Option<u64>,
    holder: String,
    /// Somebody who leaves no record may have the lock instead: a WebJobs host.
    holder_is_last_recorded: bool,
    host_id: String,
    host_type: String,
    key: Option<KeyView>,
    labels: BTreeMap<String, String>,
    acquired_at: Option<String>,
    resting_until: Option<String>,
    written_at: Option<String>,
    waiters_here: u32,
    held_here: bool,
    break_note: Option<BreakView>,
}

/// A lock's name as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct KeyView {
    function: String,
    scope: String,
    mode: &'static str,
}

/// A break as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct BreakView {
    reason: String,
    broken_by: String,
    broken_at: Option<String>,
    fencing_token: Option<u64>,
}

/// A grant as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct GrantView {
    pub(super) lease_id: String,
    pub(super) fencing_token: u64,
    pub(super) lock_path: String,
    host_id: String,
    acquired_at: Option<String>,
    pub(super) expires_at: Option<String>,
    validity: ValidityView,
}

/// A validity as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ValidityView {
    /// The end on the boot clock of the kernel with this boot id.
    boot_id: String,
    valid_until_seconds: f64,
    valid_for_seconds: f64,
}

/// A lock that is busy, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct BusyView {
    reason: &'static str,
    retry_after_seconds: f64,
    lock: Option<LockView>,
}

impl From<&LockRecord> for LockView {
    fn from(record: &LockRecord) -> Self {
        Self {
            lock_path: record.lock_path.clone(),
            state: state(record),
            fencing_token: record.fencing_token,
            holder: record.holder.clone(),
            holder_is_last_recorded: record.holder_is_last_recorded,
            host_id: record.host_id.clone(),
            host_type: record.host_type.clone(),
            key: record.key.as_ref().map(KeyView::from),
            labels: record.labels.clone(),
            acquired_at: moment(record.acquired_at),
            resting_until: moment(record.resting_until),
            written_at: moment(record.written_at),
            waiters_here: record.waiters_here,
            held_here: record.held_here,
            break_note: record.break_note.as_ref().map(BreakView::from),
        }
    }
}

impl From<&LockKey> for KeyView {
    fn from(key: &LockKey) -> Self {
        let mode = if key.mode == LockMode::Listener { "listener" } else { "function" };
        Self { function: key.function.clone(), scope: key.scope.clone(), mode }
    }
}

impl From<&BreakNote> for BreakView {
    fn from(note: &BreakNote) -> Self {
        Self {
            reason: note.reason.clone(),
            broken_by: note.broken_by.clone(),
            broken_at: moment(note.broken_at),
            fencing_token: note.fencing_token,
        }
    }
}

impl From<&Grant> for GrantView {
    fn from(grant: &Grant) -> Self {
        Self {
            lease_id: grant.lease_id.clone(),
            fencing_token: grant.fencing_token,
            lock_path: grant.lock_path.clone(),
            host_id: grant.host_id.clone(),
            acquired_at: moment(grant.acquired_at),
            expires_at: moment(grant.expires_at),
            validity: ValidityView::from(&grant.validity),
        }
    }
}

impl From<&Validity> for ValidityView {
    fn from(validity: &Validity) -> Self {
        Self {
            boot_id: validity.boot_id.clone(),
            valid_until_seconds: validity.valid_until.since_boot().as_secs_f64(),
            valid_for_seconds: validity.valid_for.as_secs_f64(),
        }
    }
}

impl From<&Busy> for BusyView {
    fn from(busy: &Busy) -> Self {
        Self {
            reason: reason(busy.reason),
            retry_after_seconds: busy.retry_after.as_secs_f64(),
            lock: busy.record.as_ref().map(LockView::from),
        }
    }
}

/// Why a lock is busy, in a sentence: who has it, since when.
pub(crate) fn busy_text(busy: &Busy) -> String {
    let Some(record) = &busy.record else { return "the lock is busy".to_owned() };
    let lock = &record.lock_path;
    let by = holder_text(record);
    match reason(busy.reason) {
        "breaking" => format!("the lock {lock} was broken, and its holder's lease expires first"),
        "resting" => {
            let until = moment(record.resting_until);
            let until = until.map(|until| format!(" until {until}")).unwrap_or_default();
            format!("the lock {lock} rests{until}, as its last holder asked (min_hold)")
        }
        _ => format!("the lock {lock} is held{by}"),
    }
}

/// " by HOLDER, since MOMENT", as far as it is known.
pub(crate) fn holder_text(record: &LockRecord) -> String {
    let holder = printable(&record.holder);
    let by = match (holder.is_empty(), record.holder_is_last_recorded) {
        (true, _) => String::new(),
        (false, false) => format!(" by {holder}"),
        (false, true) => format!(", last recorded holder {holder}"),
    };
    let since = moment(record.acquired_at);
    format!("{by}{}", since.map(|since| format!(", since {since}")).unwrap_or_default())
}

/// Locks as a table.
pub(crate) fn locks_table(records: &[LockRecord]) -> String {
    let now = wall();
    let rows = records.iter().map(|record| {
        let in_use = LockState::Available != record.state;
        vec![
            record.lock_path.clone(),
            state(record).to_owned(),
            holder(record),
            record.fencing_token.map(|token| token.to_string()).unwrap_or_default(),
            if in_use { age(record.acquired_at, now) } else { String::new() },
            printable(&record.host_type),
            record.waiters_here.to_string(),
        ]
    });
    let headings = ["LOCK", "STATE", "HOLDER", "TOKEN", "FOR", "HOST TYPE", "WAITERS HERE"];
    output::table(&headings, rows.collect())
}

/// What a lock is doing, in one line.
pub(crate) fn doing_text(record: &LockRecord) -> String {
    let token = record.fencing_token.map(|token| format!("; token {token}")).unwrap_or_default();
    let (state, holder, waiters) = (state(record), holder_text(record), record.waiters_here);
    format!("{state}{holder}{token}; {waiters} waiting here")
}

/// One lock, line by line.
pub(crate) fn lock_text(record: &LockRecord) -> String {
    let now = wall();
    let view = LockView::from(record);
    let since = view.acquired_at.clone().map(|at| {
        let ago = age(record.acquired_at, now);
        format!("{at} ({ago} ago)")
    });
    let labels: Vec<String> =
        view.labels.iter().map(|(key, value)| format!("{key}={}", printable(value))).collect();
    let broken = view.break_note.map(|note| {
        let by = printable(&note.broken_by);
        let at = note.broken_at.unwrap_or_default();
        format!("{} (by {by}, {at})", printable(&note.reason))
    });
    let key =
        view.key.unwrap_or(KeyView { function: String::new(), scope: String::new(), mode: "" });
    output::fields(&[
        ("lock", view.lock_path),
        ("state", view.state.to_owned()),
        ("holder", holder(record)),
        ("fencing token", view.fencing_token.map(|token| token.to_string()).unwrap_or_default()),
        ("acquired", since.unwrap_or_default()),
        ("resting until", view.resting_until.unwrap_or_default()),
        ("function", printable(&key.function)),
        ("scope", printable(&key.scope)),
        ("mode", key.mode.to_owned()),
        ("host id", view.host_id),
        ("host type", printable(&view.host_type)),
        ("labels", labels.join(", ")),
        ("last written", view.written_at.unwrap_or_default()),
        ("held here", if view.held_here { "yes" } else { "no" }.to_owned()),
        ("waiters here", view.waiters_here.to_string()),
        ("broken", broken.unwrap_or_default()),
    ])
}

/// Who has a lock, or is the last that is recorded.
fn holder(record: &LockRecord) -> String {
    let holder = printable(&record.holder);
    if record.holder_is_last_recorded && !holder.is_empty() {
        format!("{holder} (last recorded)")
    } else {
        holder
    }
}

/// What a lock is doing.
pub(crate) fn state(record: &LockRecord) -> &'static str {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the API says to take a state that is not known for held"
    )]
    match record.state {
        LockState::Available => "available",
        LockState::Breaking => "breaking",
        LockState::Resting => "resting",
        _ => "held",
    }
}

/// Why a lock is busy, in a word.
fn reason(reason: BusyReason) -> &'static str {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the API says to take a reason that is not known for held"
    )]
    match reason {
        BusyReason::Breaking => "breaking",
        BusyReason::Resting => "resting",
        _ => "held",
    }
}

/// What the user called the lock, for messages.
pub(crate) fn selector_text(selector: &LockSelector) -> String {
    match selector {
        LockSelector::Path(path) => path.clone(),
        LockSelector::Key(key) => format!("{} {}", key.function, key.scope).trim().to_owned(),
        _ => String::new(),
    }
}

/// Text of a stranger without what a terminal would obey.
fn printable(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
}

/// A duration that a person reads.
pub(crate) fn whole_millis(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// A moment of the wall clock, RFC 3339, to the second.
pub(crate) fn moment(at: Option<SystemTime>) -> Option<String> {
    // humantime knows the years up to 9999.
    let at = at.filter(|at| seconds(*at).is_some_and(|seconds| seconds < 253_402_300_800))?;
    Some(humantime::format_rfc3339_seconds(at).to_string())
}

fn seconds(at: SystemTime) -> Option<u64> {
    at.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

fn wall() -> UnixMillis {
    BootClock::new().wall()
}

/// How long ago it was, in its two greatest units.
fn age(at: Option<SystemTime>, now: UnixMillis) -> String {
    let Some(at) = at.and_then(seconds) else { return String::new() };
    let text = humantime::format_duration(Duration::from_secs(now.seconds().saturating_sub(at)));
    let text = text.to_string();
    let parts: Vec<&str> = text.split(' ').take(2).collect();
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
    }

    fn held() -> LockRecord {
        let mut record = LockRecord::default();
        record.lock_path = "leasehold/locks/h/a/~/FUNCTION".to_owned();
        record.fencing_token = Some(7);
        record.holder = "pod-1\u{1b}[2J".to_owned();
        record.acquired_at = at(1_700_000_000);
        record
    }

    fn busy(record: LockRecord) -> Busy {
        let mut busy = Busy::default();
        busy.record = Some(record);
        busy
    }

    #[test]
    fn a_stranger_s_text_does_not_command_the_terminal() {
        assert!(!lock_text(&held()).contains('\u{1b}'));
        assert!(!locks_table(&[held()]).contains('\u{1b}'));
    }

    #[test]
    fn busy_says_who_and_since_when() {
        let text = busy_text(&busy(held()));
        assert!(text.contains("pod-1") && text.contains("2023-11-14T22:13:20Z"), "{text}");
    }

    #[test]
    fn a_holder_that_is_only_the_last_recorded_is_called_that() {
        let mut record = held();
        record.holder_is_last_recorded = true;
        let text = busy_text(&busy(record.clone()));
        assert!(text.contains("is held, last recorded holder pod-1"), "{text}");
        for text in [lock_text(&record), locks_table(std::slice::from_ref(&record))] {
            assert!(text.contains("(last recorded)"), "{text}");
        }
        assert!(LockView::from(&record).holder_is_last_recorded);
        assert!(!lock_text(&held()).contains("last recorded"));
    }

    #[test]
    fn ages_are_short_and_far_dates_do_no_harm() {
        assert_eq!(age(at(1_000), UnixMillis(91_061_000)), "1day 1h");
        assert_eq!(moment(at(253_402_300_800)), None);
        assert_eq!(moment(UNIX_EPOCH.checked_sub(Duration::from_secs(1))), None);
    }
}
