//! The resume token: all that a restarted sidecar must know of a hold to go on with it (S16). Opaque to clients.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::request::{CallError, ResumeRequest};
use crate::hold::{Granted, Resume, Terms};
use crate::lock::{FencingToken, HostId, LeaseId, LockPath, Record};
use crate::store::{MAX_LEASE_DURATION, MIN_LEASE_DURATION};
use crate::time::{Clock, Instant, UnixMillis};

/// What a token of another version would have is not known here.
const VERSION: u8 = 1;

/// It names the storage lease, so who has it can take the hold over: as secret as the lease id (S20).
#[derive(Serialize, Deserialize)]
struct Content {
    version: u8,
    path: String,
    host_id: String,
    hold: String,
    lease: String,
    token: u64,
    lease_seconds: u64,
    acquired_at: u64,
    auto_renew: bool,
    /// By the wall clock; the resumed hold never gets more than `max_hold_ms` from the resume.
    max_hold_ends: Option<u64>,
    max_hold_ms: Option<u64>,
    min_hold_ends: u64,
    progress_timeout_ms: Option<u64>,
    holder: String,
    host_type: String,
}

/// A token that was read.
pub(super) struct Resumed {
    pub(super) path: LockPath,
    pub(super) host_id: HostId,
    pub(super) hold: LeaseId,
    pub(super) resume: Resume,
}

/// The token of a hold that was granted just now.
pub(super) fn make(
    (path, host_id, hold): (&LockPath, &HostId, LeaseId),
    terms: &Terms,
    grant: &Granted,
    wall: UnixMillis,
) -> String {
    let content = Content {
        version: VERSION,
        path: path.to_string(),
        host_id: host_id.to_string(),
        hold: hold.to_string(),
        lease: grant.lease_id.to_string(),
        token: grant.token.value(),
        lease_seconds: grant.lease_duration.as_secs(),
        acquired_at: grant.acquired_at.0,
        auto_renew: terms.auto_renew,
        max_hold_ends: terms.max_hold.map(|span| (wall + span).0),
        max_hold_ms: terms.max_hold.map(millis),
        min_hold_ends: (wall + terms.min_hold).0,
        progress_timeout_ms: terms.progress_timeout.map(millis),
        holder: terms.record.holder.clone(),
        host_type: terms.record.host_type.clone(),
    };
    // A struct of plain strings and numbers always has a JSON form.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&content).unwrap_or_default())
}

/// Reads a client's resume request.
pub(super) fn read(request: &ResumeRequest, clock: &dyn Clock) -> Result<Resumed, CallError> {
    let bytes =
        URL_SAFE_NO_PAD.decode(&request.resume_token).map_err(|_| CallError::ResumeToken)?;
    let content: Content = serde_json::from_slice(&bytes).map_err(|_| CallError::ResumeToken)?;
    checked(content, request, clock).ok_or(CallError::ResumeToken)
}

fn checked(content: Content, request: &ResumeRequest, clock: &dyn Clock) -> Option<Resumed> {
    let (now, wall) = (clock.now(), clock.wall());
    let lease_duration = Duration::from_secs(content.lease_seconds);
    if content.version != VERSION
        || lease_duration < MIN_LEASE_DURATION
        || lease_duration > MAX_LEASE_DURATION
    {
        return None;
    }
    let believed_until = believed_until(request, now, lease_duration, clock);
    let left = |ends: u64| UnixMillis(ends).saturating_since(wall);
    let whole = content.max_hold_ms.map(Duration::from_millis);
    let mut max_hold = content.max_hold_ends.map(|ends| left(ends).min(whole.unwrap_or_default()));
    if !content.auto_renew {
        // One lease duration and no more: the renewal that resumes adds nothing (S11).
        let rest = believed_until.saturating_since(now);
        max_hold = Some(max_hold.map_or(rest, |span| span.min(rest)));
    }
    let record = Record {
        token: FencingToken::from_u64(content.token),
        holder: content.holder,
        host_type: content.host_type,
        ..Record::default()
    };
    let terms = Terms {
        lease_duration,
        wait: Duration::ZERO,
        max_hold,
        min_hold: left(content.min_hold_ends),
        progress_timeout: content.progress_timeout_ms.map(Duration::from_millis),
        auto_renew: content.auto_renew,
        request_id: String::new(),
        record,
    };
    Some(Resumed {
        path: content.path.parse().ok()?,
        host_id: HostId::parse(&content.host_id).ok()?,
        hold: LeaseId::parse(&content.hold)?,
        resume: Resume {
            lease_id: LeaseId::parse(&content.lease)?,
            token: FencingToken::from_u64(content.token)?,
            terms: Arc::new(terms),
            believed_until,
            acquired_at: UnixMillis(content.acquired_at),
        },
    })
}

/// How long the client may believe in its hold, at the most: by its own word where clocks compare, else as if it had
/// been told a whole lease just now.
fn believed_until(
    request: &ResumeRequest,
    now: Instant,
    lease_duration: Duration,
    clock: &dyn Clock,
) -> Instant {
    let latest = now + lease_duration;
    let here = clock.boot_reading(now);
    let told = request
        .told_valid_until
        .as_ref()
        .filter(|told| !told.boot_id.is_empty() && told.boot_id == here.boot_id);
    told.map_or(latest, |told| {
        now + told.since_boot.saturating_sub(here.since_boot).min(lease_duration)
    })
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
