//! The resume token: all that a restarted sidecar must know to resume a hold (S16). Opaque to clients. One
//! that needs a newer sidecar is refused here (S37); one of an old grant by the machine (`hold/resume.rs`).

use std::sync::Arc;
use std::time::Duration;

use super::arriving::Named;
use super::caller::Caller;
use crate::coordinator::call::{CallError, ResumeRequest, Target, check_needs};
use crate::coordinator::settings::Settings;
use crate::hold::{Resume, StoreBounds, Terms};
use crate::lock::{FencingToken, HostId, HostType, LeaseId, LockKey, LockMode, Namespace, Permit};
use crate::record::Record;
use crate::schedule::Occurrence;
use crate::store::{MAX_LEASE_DURATION, MIN_LEASE_DURATION};
use crate::time::{BootReading, Clock, Instant, UnixMillis};
use crate::timetable::UtcSecond;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

/// The least revision that resumes what a token of today says. What is added to it later needs a greater one
/// where it is set.
const NEEDS: u32 = 1;

/// What every token says, whatever it has besides (S37).
#[derive(Deserialize)]
struct Preface {
    needs: u32,
}

/// It names the storage lease, so whoever has it can take over the hold: as secret as the lease id (S20). It
/// is not signed, so anybody can make one: the path is made again from the key, by which the caller's rights
/// are checked (S16).
#[derive(Serialize, Deserialize)]
struct Content {
    needs: u32,
    /// Where the sidecar that made it has its locks.
    place: String,
    permit: u8,
    host_id: String,
    function: String,
    scope: String,
    mode: String,
    hold: String,
    lease: String,
    token: u64,
    generation: u64,
    lease_seconds: u64,
    acquired_at: u64,
    auto_renew: bool,
    /// What was decided stands in its record (T6).
    #[serde(default)]
    decides: bool,
    max_hold_ends: Option<End>,
    /// Of a hold that is not renewed, wherever it goes on (S11).
    lease_ends: Option<End>,
    min_hold_ends: End,
    progress_timeout_ms: Option<u64>,
    holder: String,
    host_type: String,
    /// The occurrence that the caller has named, if it has (T1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    occurrence: Option<OccurrenceContent>,
}

#[derive(Serialize, Deserialize)]
struct OccurrenceContent {
    at: i64,
    max_attempts: Option<u32>,
    attempt: u32,
}

/// When a bound ends: on the boot clock where that is the same, else by the store's clock, and never more
/// than was left when the token was made. Not by a wall clock, which may be wrong (S3). Dates are whole
/// seconds, and front ends differ by up to 3 s: of both readings the one that ends earlier counts, so each
/// move to another machine may take up to 4 s from a bound, and none adds to it (S11).
#[derive(Clone, Serialize, Deserialize)]
struct End {
    boot_id: String,
    boot_ms: u64,
    store_ms: u64,
    left_ms: u64,
}

impl End {
    fn new(at: Instant, store_time: UnixMillis, clock: &dyn Clock) -> Self {
        let left = at.saturating_since(clock.now());
        let BootReading { boot_id, since_boot } = clock.boot_reading(at);
        Self {
            boot_id,
            boot_ms: millis(since_boot),
            store_ms: (store_time + left).0,
            left_ms: millis(left),
        }
    }

    /// What is left at the most, and the end by the store's clock where that is to be looked at.
    fn left(&self, clock: &dyn Clock) -> (Duration, Option<UnixMillis>) {
        let here = clock.boot_reading(clock.now());
        let most = Duration::from_millis(self.left_ms);
        if !self.boot_id.is_empty() && self.boot_id == here.boot_id {
            let left = Duration::from_millis(self.boot_ms).saturating_sub(here.since_boot);
            (left.min(most), None)
        } else {
            (most, Some(UnixMillis(self.store_ms)))
        }
    }
}

/// A token that was read.
pub(crate) struct Resumed {
    pub(crate) target: Target,
    pub(in crate::coordinator) permit: Permit,
    pub(in crate::coordinator) hold: LeaseId,
    pub(crate) resume: Resume,
    /// The occurrence that the hold is of, if it is of one.
    pub(in crate::coordinator) named: Option<Named>,
}

/// The newest token of `caller`'s hold; empty for a unary one, and for one that was granted nothing.
pub(super) fn make(
    namespace: &Namespace,
    caller: &Caller,
    named: Option<&Named>,
    clock: &dyn Clock,
) -> String {
    let Some(grant) = caller.told.as_ref().filter(|_| caller.sink.is_stream()) else {
        return String::new();
    };
    let terms = &caller.terms;
    let since = clock.now().saturating_since(caller.granted.unwrap_or_default());
    let store_time = grant.store_time + since;
    let place = namespace.all_prefix();
    let content = Content {
        needs: NEEDS,
        place,
        permit: caller.permit.number(),
        host_id: caller.host_id.to_string(),
        function: terms.record.function.clone(),
        scope: terms.record.scope.clone(),
        mode: terms.record.mode.clone(),
        hold: caller.lease_id.to_string(),
        lease: grant.lease_id.to_string(),
        token: grant.token.value(),
        generation: grant.generation,
        lease_seconds: grant.lease_duration.as_secs(),
        acquired_at: grant.acquired_at.0,
        auto_renew: terms.auto_renew,
        decides: terms.decides,
        max_hold_ends: caller.max_hold_ends.map(|at| End::new(at, store_time, clock)),
        lease_ends: grant.lease_ends.map(|at| End::new(at, store_time, clock)),
        min_hold_ends: End::new(grant.min_hold_ends, store_time, clock),
        progress_timeout_ms: terms.progress_timeout.map(millis),
        holder: terms.record.holder.clone(),
        host_type: terms.record.host_type.clone(),
        occurrence: named.map(|named| OccurrenceContent {
            at: named.occurrence.at.0,
            max_attempts: named.occurrence.max_attempts,
            attempt: named.attempt(grant.token),
        }),
    };
    // A struct of plain strings and numbers always has a JSON form.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&content).unwrap_or_default())
}

impl Content {
    /// The lock that the token names by its key.
    fn target(&self, namespace: &Namespace) -> Option<Target> {
        let modes = [LockMode::Function, LockMode::Listener];
        let mode = modes.into_iter().find(|mode| mode.as_str() == self.mode)?;
        let key = LockKey::new(&self.function, &self.scope, mode).ok()?;
        let host_id = HostId::parse(&self.host_id).ok()?;
        let host_type = HostType::parse(&self.host_type).ok()?;
        let path = namespace.lock_path(&host_id, &host_type, &key).ok()?;
        Some(Target { path, host_id, host_type, key })
    }

    /// What it says of a hold that may go on here.
    fn checked(
        self,
        request: &ResumeRequest,
        settings: &Settings,
        clock: &dyn Clock,
    ) -> Option<Resumed> {
        let namespace = &settings.host.namespace;
        let permit = Permit::new(self.permit)?;
        if permit != Permit::FIRST && !namespace.layout.has_permits() {
            return None;
        }
        let target = self.target(namespace)?;
        let now = clock.now();
        let lease_duration = Duration::from_secs(self.lease_seconds);
        if lease_duration < MIN_LEASE_DURATION || lease_duration > MAX_LEASE_DURATION {
            return None;
        }
        let believed_until = believed_until(request, now, lease_duration, clock);
        let max_hold_ends = self.max_hold_ends.map(|end| end.left(clock));
        let (min_hold, min_hold_ends) = self.min_hold_ends.left(clock);
        let lease_ends = self.lease_ends.map(|end| end.left(clock));
        // One lease duration and no more: the renewal that resumes adds nothing (S11).
        if !self.auto_renew && lease_ends.is_none() {
            return None;
        }
        let bounds = min_hold_ends.map(|min_hold_ends| StoreBounds {
            max_hold_ends: max_hold_ends.and_then(|(_, ends)| ends),
            lease_ends: lease_ends.and_then(|(_, ends)| ends),
            min_hold_ends,
        });
        let record = Record {
            token: FencingToken::from_u64(self.token),
            holder: self.holder,
            host_type: self.host_type,
            // S34: the hold goes on at this sidecar.
            sidecar: Arc::clone(&settings.sidecar),
            ..Record::for_key(&target.key)
        };
        let terms = Terms {
            lease_duration,
            wait: Duration::ZERO,
            max_hold: max_hold_ends.map(|(left, _)| left),
            min_hold,
            progress_timeout: self.progress_timeout_ms.map(Duration::from_millis),
            auto_renew: self.auto_renew,
            request_id: String::new(),
            rebalance: false,
            resumable: true,
            record,
            decides: self.decides || self.occurrence.is_some(),
            seen: None,
        };
        let token = FencingToken::from_u64(self.token)?;
        let named = self.occurrence.map(|OccurrenceContent { at, max_attempts, attempt }| {
            let occurrence = Occurrence { at: UtcSecond(at), max_attempts };
            Named::resumed(target.path.permit(permit), occurrence, token, attempt)
        });
        Some(Resumed {
            named,
            target,
            permit,
            hold: LeaseId::parse(&self.hold)?,
            resume: Resume {
                lease_id: LeaseId::parse(&self.lease)?,
                token,
                generation: self.generation,
                attempt: request.attempt_id.clone(),
                terms: Arc::new(terms),
                believed_until,
                lease_ends: lease_ends.map(|(left, _)| now + left),
                acquired_at: UnixMillis(self.acquired_at),
                bounds,
            },
        })
    }
}

impl Resumed {
    /// Reads a client's resume request.
    pub(in crate::coordinator) fn read(
        request: &ResumeRequest,
        settings: &Settings,
        clock: &dyn Clock,
    ) -> Result<Self, CallError> {
        let bytes =
            URL_SAFE_NO_PAD.decode(&request.resume_token).map_err(|_| CallError::ResumeToken)?;
        let Preface { needs } =
            serde_json::from_slice(&bytes).map_err(|_| CallError::ResumeToken)?;
        check_needs(needs, settings.revision)?;
        let content: Content =
            serde_json::from_slice(&bytes).map_err(|_| CallError::ResumeToken)?;
        let container = settings.host.namespace.all_prefix();
        if content.place != container {
            return Err(CallError::ForeignPath { path: content.place, container });
        }
        content.checked(request, settings, clock).ok_or(CallError::ResumeToken)
    }
}

/// How long the client may rely on its hold, at most: by its own word where clocks compare, else as if it had
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

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
