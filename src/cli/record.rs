//! What commands show of grants and locks, for people and as JSON.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use leasehold_client::LockSelector;
use leasehold_client::proto::{
    BreakNote, Busy, BusyReason, Grant, LockKey, LockMode, LockRecord, LockState, Validity,
    lock_selector,
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
    lease_id: String,
    fencing_token: u64,
    lock_path: String,
    host_id: String,
    acquired_at: Option<String>,
    expires_at: Option<String>,
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

/// A lock that was not had, as JSON.
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
            acquired_at: moment(record.acquired_at.as_ref()),
            resting_until: moment(record.resting_until.as_ref()),
            written_at: moment(record.written_at.as_ref()),
            waiters_here: record.waiters_here,
            held_here: record.held_here,
            break_note: record.break_note.as_ref().map(BreakView::from),
        }
    }
}

impl From<&LockKey> for KeyView {
    fn from(key: &LockKey) -> Self {
        let mode = match key.mode() {
            LockMode::Unspecified | LockMode::Function => "function",
            LockMode::Listener => "listener",
        };
        Self { function: key.function.clone(), scope: key.scope.clone(), mode }
    }
}

impl From<&BreakNote> for BreakView {
    fn from(note: &BreakNote) -> Self {
        Self {
            reason: note.reason.clone(),
            broken_by: note.broken_by.clone(),
            broken_at: moment(note.broken_at.as_ref()),
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
            acquired_at: moment(grant.acquired_at.as_ref()),
            expires_at: moment(grant.expires_at.as_ref()),
            validity: ValidityView::from(&grant.validity.clone().unwrap_or_default()),
        }
    }
}

impl From<&Validity> for ValidityView {
    fn from(validity: &Validity) -> Self {
        let until = validity.valid_until.clone().unwrap_or_default();
        Self {
            boot_id: until.boot_id,
            valid_until_seconds: span(until.since_boot.as_ref()).as_secs_f64(),
            valid_for_seconds: span(validity.valid_for.as_ref()).as_secs_f64(),
        }
    }
}

impl From<&Busy> for BusyView {
    fn from(busy: &Busy) -> Self {
        Self {
            reason: match busy.reason() {
                BusyReason::Unspecified | BusyReason::Held => "held",
                BusyReason::Breaking => "breaking",
                BusyReason::Resting => "resting",
            },
            retry_after_seconds: span(busy.retry_after.as_ref()).as_secs_f64(),
            lock: busy.record.as_ref().map(LockView::from),
        }
    }
}

/// The grant as lines that a shell reads as well as a person.
pub(crate) fn grant_text(grant: &Grant) -> String {
    let view = GrantView::from(grant);
    format!(
        "lease_id={}\nfencing_token={}\nlock_path={}\nvalid_for={}\nexpires_at={}",
        view.lease_id,
        view.fencing_token,
        view.lock_path,
        humantime::format_duration(whole_millis(span(
            grant.validity.as_ref().and_then(|validity| validity.valid_for.as_ref())
        )))
        .to_string()
        .replace(' ', ""),
        view.expires_at.unwrap_or_default(),
    )
}

/// Why a lock is busy, in a sentence: who has it, since when.
pub(crate) fn busy_text(busy: &Busy) -> String {
    let Some(record) = &busy.record else { return "the lock is busy".to_owned() };
    let lock = &record.lock_path;
    let by = holder_text(record);
    match busy.reason() {
        BusyReason::Unspecified | BusyReason::Held => format!("the lock {lock} is held{by}"),
        BusyReason::Breaking => {
            format!("the lock {lock} was broken, and the lease of its holder runs out first")
        }
        BusyReason::Resting => {
            let until = moment(record.resting_until.as_ref());
            let until = until.map(|until| format!(" until {until}")).unwrap_or_default();
            format!("the lock {lock} rests{until}, as its last holder asked (min_hold)")
        }
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
    let since = moment(record.acquired_at.as_ref());
    format!("{by}{}", since.map(|since| format!(", since {since}")).unwrap_or_default())
}

/// Locks as a table.
pub(crate) fn locks_table(records: &[LockRecord]) -> String {
    let now = wall();
    let rows = records.iter().map(|record| {
        let taken = LockState::Available != record.state();
        vec![
            record.lock_path.clone(),
            state(record).to_owned(),
            holder(record),
            record.fencing_token.map(|token| token.to_string()).unwrap_or_default(),
            if taken { age(record.acquired_at.as_ref(), now) } else { String::new() },
            printable(&record.host_type),
            record.waiters_here.to_string(),
        ]
    });
    let headings = ["LOCK", "STATE", "HOLDER", "TOKEN", "FOR", "HOST TYPE", "WAITERS HERE"];
    output::table(&headings, rows.collect())
}

/// One lock, line by line.
pub(crate) fn lock_text(record: &LockRecord) -> String {
    let now = wall();
    let view = LockView::from(record);
    let since = view.acquired_at.clone().map(|at| {
        let ago = age(record.acquired_at.as_ref(), now);
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
    match record.state() {
        // The API says to treat a state that is not known as held.
        LockState::Unspecified | LockState::Held => "held",
        LockState::Available => "available",
        LockState::Breaking => "breaking",
        LockState::Resting => "resting",
    }
}

/// What the user called the lock, for messages.
pub(crate) fn selector_text(selector: &LockSelector) -> String {
    match &selector.lock {
        Some(lock_selector::Lock::LockPath(path)) => path.clone(),
        Some(lock_selector::Lock::Key(key)) => format!("{} {}", key.function, key.scope),
        None => String::new(),
    }
}

/// Text of a stranger without what a terminal would obey.
fn printable(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
}

/// A span from the wire.
pub(crate) fn span(wire: Option<&prost_types::Duration>) -> Duration {
    wire.and_then(|wire| Duration::try_from(*wire).ok()).unwrap_or_default()
}

/// A span that a person reads.
pub(crate) fn whole_millis(span: Duration) -> Duration {
    Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

/// A moment of the wall clock, RFC 3339, to the second.
pub(crate) fn moment(wire: Option<&prost_types::Timestamp>) -> Option<String> {
    let wire = wire?;
    let at = UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(wire.seconds).ok()?))?;
    // humantime knows the years up to 9999.
    (wire.seconds < 253_402_300_800).then(|| humantime::format_rfc3339_seconds(at).to_string())
}

fn wall() -> UnixMillis {
    BootClock::new().wall()
}

/// How long ago it was, in its two greatest units.
fn age(at: Option<&prost_types::Timestamp>, now: UnixMillis) -> String {
    let Some(at) = at.and_then(|at| u64::try_from(at.seconds).ok()) else { return String::new() };
    let text = humantime::format_duration(Duration::from_secs(now.seconds().saturating_sub(at)));
    let text = text.to_string();
    let parts: Vec<&str> = text.split(' ').take(2).collect();
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held() -> LockRecord {
        LockRecord {
            lock_path: "leasehold/locks/h/a/~/FUNCTION".to_owned(),
            state: LockState::Held.into(),
            fencing_token: Some(7),
            holder: "pod-1\u{1b}[2J".to_owned(),
            acquired_at: Some(prost_types::Timestamp { seconds: 1_700_000_000, nanos: 0 }),
            ..LockRecord::default()
        }
    }

    #[test]
    fn a_stranger_s_text_does_not_command_the_terminal() {
        assert!(!lock_text(&held()).contains('\u{1b}'));
        assert!(!locks_table(&[held()]).contains('\u{1b}'));
    }

    #[test]
    fn busy_says_who_and_since_when() {
        let busy = Busy { record: Some(held()), ..Busy::default() };
        let text = busy_text(&busy);
        assert!(text.contains("pod-1") && text.contains("2023-11-14T22:13:20Z"), "{text}");
    }

    #[test]
    fn a_holder_that_is_only_the_last_recorded_is_called_that() {
        let record = LockRecord { holder_is_last_recorded: true, ..held() };
        let busy = busy_text(&Busy { record: Some(record.clone()), ..Busy::default() });
        assert!(busy.contains("is held, last recorded holder pod-1"), "{busy}");
        for text in [lock_text(&record), locks_table(std::slice::from_ref(&record))] {
            assert!(text.contains("(last recorded)"), "{text}");
        }
        assert!(LockView::from(&record).holder_is_last_recorded);
        assert!(!lock_text(&held()).contains("last recorded"));
    }

    #[test]
    fn ages_are_short_and_far_dates_do_no_harm() {
        let at = prost_types::Timestamp { seconds: 1_000, nanos: 0 };
        assert_eq!(age(Some(&at), UnixMillis(91_061_000)), "1day 1h");
        assert_eq!(moment(Some(&prost_types::Timestamp { seconds: i64::MAX, nanos: 0 })), None);
        assert_eq!(moment(Some(&prost_types::Timestamp { seconds: -1, nanos: 0 })), None);
    }

    #[test]
    fn an_unknown_state_is_shown_as_held() {
        assert_eq!(state(&LockRecord { state: 99, ..LockRecord::default() }), "held");
    }
}
