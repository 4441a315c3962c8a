//! What commands show of locks, for people; `src/view/` has the same as JSON.

use leasehold_client::{Busy, BusyReason, LockRecord, LockSelector, LockState};

use super::output;
use super::schedule::ended;
use super::sharing::{self, place_text};
use super::times::{age, moment, span};
use crate::text;
use crate::time::{BootClock, Clock as _};
use crate::view::{LockView, state};

/// Why a lock is busy: who has it, since when, and why a priority did not help.
pub(crate) fn busy_text(busy: &Busy) -> String {
    let why = sharing::status_text(busy).map(|why| format!("; {why}")).unwrap_or_default();
    format!("{}{why}", held_text(busy))
}

fn held_text(busy: &Busy) -> String {
    let Some(record) = &busy.record else { return "the lock is busy".to_owned() };
    let lock = &record.lock_path;
    let by = holder_text(record);
    match reason(busy.reason) {
        "breaking" => format!(
            "the lock {lock} was broken, and becomes available when its holder's lease expires"
        ),
        "resting" => {
            let until = moment(record.resting_until);
            let until = until.map(|until| format!(" until {until}")).unwrap_or_default();
            format!("the lock {lock} rests{until}, as its last holder asked (min_hold)")
        }
        _ => match kept_text(record) {
            Some(kept) => format!("the lock {lock} is {kept}; last held{by}"),
            None => format!("the lock {lock} is held{by}"),
        },
    }
}

/// S13: how long the sidecar that answers grants the lock to nobody, and why.
pub(crate) fn kept_text(record: &LockRecord) -> Option<String> {
    let until = moment(record.kept_until)?;
    Some(format!("kept until {until} because its former holder may not know"))
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

/// What somebody waits for who is not granted a lock at once.
pub(crate) fn waiting_text(record: &LockRecord) -> String {
    format!("waiting for {}, held{}", record.lock_path, holder_text(record))
}

/// What a lock is doing, in one line.
pub(crate) fn doing_text(record: &LockRecord) -> String {
    let token = record.fencing_token.map(|token| format!("; token {token}")).unwrap_or_default();
    let (state, waiters) = (state(record), record.waiters_here);
    let was_held = record.state == LockState::Available && !record.holder_is_last_recorded;
    let holder = match (was_held, record.holder.is_empty()) {
        (true, true) => String::new(),
        (true, false) => format!(", last held{}", holder_text(record)),
        (false, _) => holder_text(record),
    };
    let kept = kept_text(record).map(|kept| format!(", {kept}")).unwrap_or_default();
    format!("{state}{holder}{token}{kept}; {waiters} waiting here{}", place_text(record))
}

/// One lock, line by line.
pub(crate) fn lock_text(record: &LockRecord) -> String {
    let now = BootClock::new().wall();
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
        let priority = note.for_priority.map(|priority| format!(", for priority {priority}"));
        let priority = priority.unwrap_or_default();
        format!("{} (by {by}{priority}, {at})", printable(&note.reason))
    });
    let key = view.key.unwrap_or_default();
    let checkpoint = record.checkpoint_version.map(|version| {
        format!("version {version}, {} bytes", record.checkpoint_size.unwrap_or_default())
    });
    let renewed = record.lease_duration.map(|lease| {
        let lease = span(lease);
        format!("{}, for {lease}", view.renewed_at.clone().unwrap_or_default())
    });
    let schedule = record.schedule.as_ref();
    let running = schedule.and_then(|schedule| schedule.run.as_ref()).map(|run| {
        let what =
            moment(run.scheduled_at).unwrap_or_else(|| format!("request {}", run.request_id));
        // Without a holder it was abandoned (T4).
        let left =
            if record.state == LockState::Available { ", left without an outcome" } else { "" };
        format!("{what}, attempt {}{left}", run.attempt)
    });
    output::fields(&[
        ("lock", view.lock_path),
        ("state", state_text(record)),
        ("holder", holder(record)),
        ("fencing token", view.fencing_token.map(|token| token.to_string()).unwrap_or_default()),
        ("acquired", since.unwrap_or_default()),
        ("renewed", renewed.unwrap_or_default()),
        ("resting until", view.resting_until.unwrap_or_default()),
        ("function", printable(&key.function)),
        ("scope", printable(&key.scope)),
        ("mode", key.mode.to_owned()),
        ("host id", view.host_id),
        ("host type", printable(&view.host_type)),
        ("labels", labels.join(", ")),
        ("sidecar", printable(&record.sidecar)),
        ("share", printable(&record.share)),
        ("priority", sharing::priority_text(record)),
        ("kept for", sharing::reserved_text(record).unwrap_or_default()),
        ("checkpoint", checkpoint.unwrap_or_default()),
        ("next run", schedule.and_then(|it| moment(it.next_at)).unwrap_or_default()),
        ("running", running.unwrap_or_default()),
        ("done up to", schedule.and_then(|it| moment(it.watermark)).unwrap_or_default()),
        ("last ended", schedule.and_then(|it| it.ended.first()).map(ended).unwrap_or_default()),
        ("last written", view.written_at.unwrap_or_default()),
        ("held here", if view.held_here { "yes" } else { "no" }.to_owned()),
        ("waiters here", view.waiters_here.to_string()),
        ("broken", broken.unwrap_or_default()),
    ])
}

/// Who has a lock, or is the last that is recorded.
pub(super) fn holder(record: &LockRecord) -> String {
    let holder = printable(&record.holder);
    if record.holder_is_last_recorded && !holder.is_empty() {
        format!("{holder} (last recorded)")
    } else {
        holder
    }
}

/// What a lock is doing, and until when the sidecar that answers grants it to nobody though it may be
/// available elsewhere.
pub(super) fn state_text(record: &LockRecord) -> String {
    let kept = kept_text(record).map(|kept| format!(" ({kept})")).unwrap_or_default();
    format!("{}{kept}", state(record))
}

/// Why a lock is busy, in a word.
pub(super) fn reason(reason: BusyReason) -> &'static str {
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
        LockSelector::Permit(key, permit) => {
            format!("{} {} (permit {permit})", key.function, key.scope)
        }
        _ => String::new(),
    }
}

/// Text of a stranger without what a terminal would obey or not show.
pub(super) fn printable(text: &str) -> String {
    text::printable(text).into_owned()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use super::*;
    use crate::cli::locks_table::{narrow, wide};

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
        assert!(!narrow(&[held()], 100).contains('\u{1b}'));
        assert!(!wide(&[held()]).contains('\u{1b}'));
    }

    #[test]
    fn s13_a_lock_that_is_kept_for_a_former_holder_says_so_everywhere() {
        let mut record = held();
        record.kept_until = at(1_700_000_060);
        let kept = "kept until 2023-11-14T22:14:20Z because its former holder may not know";
        let table = narrow(std::slice::from_ref(&record), 100);
        let busy = busy_text(&busy(record.clone()));
        let all = wide(std::slice::from_ref(&record));
        for text in [busy, table, all, lock_text(&record), doing_text(&record)] {
            assert!(text.contains(kept), "{text}");
        }
        assert!(!lock_text(&held()).contains("kept until"));
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
        for text in [lock_text(&record), wide(std::slice::from_ref(&record))] {
            assert!(text.contains("(last recorded)"), "{text}");
        }
        assert!(LockView::from(&record).holder_is_last_recorded);
        assert!(!lock_text(&held()).contains("last recorded"));
    }
}
