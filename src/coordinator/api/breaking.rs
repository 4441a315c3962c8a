//! Breaks of a lock's lease by operators: of the grant that was shown to them, and of no other (S17).

use std::sync::Arc;

use crate::coordinator::Coordinator;
use crate::coordinator::actor::shared::Shared;
use crate::coordinator::actor::task::{Command, deliver};
use crate::coordinator::actor::view::newest;
use crate::coordinator::call::{BreakResult, CallError, LockSelector};
use crate::coordinator::observe::{LockEvent, LockEventKind};
use crate::coordinator::store_io::readiness::Subject;
use crate::coordinator::store_io::{PATIENCE, understood};
use crate::hold::{Event, StoreFailureKind};
use crate::lock::{FencingToken, LockPath, Permit};
use crate::record::{ETag, Record};
use crate::store::{BreakNote, BreakPeriod, LeaseState, LeaseStoreExt as _, StoreError};

/// What an operator asks to break (S17).
#[derive(Clone, Debug)]
pub struct BreakRequest {
    /// Which lock is to be broken.
    pub lock: LockSelector,
    /// The token of the grant that the operator was shown; none for the one that is read first.
    pub token: Option<FencingToken>,
    /// At once, or by letting it run out.
    pub period: BreakPeriod,
    /// Why: stored, and told to the holder.
    pub reason: String,
    /// Who, for people; this sidecar's default holder if none.
    pub by: Option<String>,
    /// Who asked, as far as the sidecar knows: for the log.
    pub caller: String,
}

impl Coordinator {
    /// Breaks the lease of the grant that was named, or is read first, and of no other (S17).
    ///
    /// # Errors
    /// When breaking is not enabled, the lock does not exist or has another holder, or the store cannot be
    /// asked.
    pub async fn break_lock(&self, request: BreakRequest) -> Result<BreakResult, CallError> {
        if !self.shared.settings.allow_break {
            return Err(CallError::BreakNotEnabled);
        }
        let path = self.host().select(&request.lock)?;
        let shared = Arc::clone(&self.shared);
        // It goes on if its caller does not wait for it: whoever has the lock is told, and the note of a
        // break that fails taken back.
        let breaking = tokio::spawn(async move {
            let mut under_way = UnderWay::begin(&shared, &path);
            shared.break_grant(path, request, &mut under_way.may_arrive).await
        });
        breaking.await.unwrap_or_else(|_| Err(CallError::shutting_down()))
    }
}

/// A break that is under way: its lock's task knows, and hands nothing on meanwhile.
struct UnderWay {
    shared: Arc<Shared>,
    lock: LockPath,
    permit: Permit,
    /// A request was sent of which the outcome is not known: it may be on its way when this is over.
    may_arrive: bool,
}

impl UnderWay {
    /// Whoever comes while the lock has no task yet is to know too, so it is given one.
    fn begin(shared: &Arc<Shared>, path: &LockPath) -> Self {
        let (lock, permit) = shared.permit_of(path);
        let mut registry = shared.registry();
        let begun = Command::BreakBegun(permit);
        if registry.is_draining() {
            let _ = registry.send(&lock, begun);
        } else {
            deliver(shared, &mut registry, &lock, begun);
        }
        drop(registry);
        Self { shared: Arc::clone(shared), lock, permit, may_arrive: false }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let Self { permit, may_arrive, .. } = *self;
        self.shared.registry().tell(&self.lock, permit, Event::BreakOver { may_arrive });
    }
}

/// The grant of a lock that somebody has, and the version of its record.
struct Standing {
    token: Option<FencingToken>,
    etag: ETag,
}

impl Shared {
    async fn break_grant(
        &self,
        path: LockPath,
        request: BreakRequest,
        may_arrive: &mut bool,
    ) -> Result<BreakResult, CallError> {
        let Some(mut standing) = self.standing(&path).await? else {
            return Ok(BreakResult::NotHeld);
        };
        let named = request.token.or(standing.token);
        let mut tries = BREAK_TRIES;
        loop {
            if standing.token != named {
                return Err(CallError::OtherHolder { path, named, now: standing.token });
            }
            let note = BreakNote {
                period: request.period,
                reason: request.reason.clone(),
                by: request.by.clone().unwrap_or_else(|| self.settings.holder.clone()),
                token: named,
                at: self.clock.wall(),
                for_priority: None,
            };
            let breaking = self.io.store.break_lease(&path, note.clone(), standing.etag);
            *may_arrive = true;
            let answer = self.io.asked_about(Subject::Break, PATIENCE, breaking).await;
            *may_arrive = answer.as_ref().is_err_and(|error| !error.is_surely_not_done());
            let error = match answer {
                Ok(broken) => {
                    self.broken(&path, note, &request.caller);
                    return Ok(match broken.remaining.is_zero() {
                        true => BreakResult::Broken,
                        false => BreakResult::Breaking { free_in: broken.remaining },
                    });
                }
                Err(StoreError::NotHeld) => return Ok(BreakResult::NotHeld),
                Err(error) => error,
            };
            tries -= 1;
            if !matches!(error, StoreError::Changed) || tries == 0 {
                return Err(not_broken(path, &error));
            }
            match self.standing(&path).await? {
                Some(read) => standing = read,
                None => return Ok(BreakResult::NotHeld),
            }
            // Only the version that was looked at could have said whose lease it is.
            if named.is_none() {
                return Err(CallError::OtherHolder { path, named, now: standing.token });
            }
        }
    }

    /// The grant that stands in the record now, or was handed on from that one here and is not in it yet
    /// (S10). None if nobody has the lock.
    async fn standing(&self, path: &LockPath) -> Result<Option<Standing>, CallError> {
        let view = self.look(path).await;
        let stored = match self.io.asked(PATIENCE, self.io.store.read_record(path)).await {
            Ok(stored) => stored,
            Err(StoreError::NotFound) => return Err(CallError::NoSuchLock { path: path.clone() }),
            Err(error) => return Err(not_broken(path.clone(), &error)),
        };
        if stored.lease == LeaseState::Available {
            return Ok(None);
        }
        let handed = self.handed(path, view.as_ref());
        let stands = newest(Record::from_fields(&stored.fields), handed.as_ref()).token;
        let here = view.and_then(|view| view.here?.record.token);
        let handed_on = here.filter(|here| {
            Some(here.epoch()) == stands.map(FencingToken::epoch) && Some(*here) > stands
        });
        Ok(Some(Standing { token: handed_on.or(stands), etag: stored.etag }))
    }

    /// An operator has broken the lease of the grant that the note names.
    fn broken(&self, path: &LockPath, note: BreakNote, caller: &str) {
        let event = LockEvent::of(path, LockEventKind::Broken { note: &note, caller });
        self.observe(&event.with_token(note.token));
        let registry = self.registry();
        let (lock, permit) = self.permit_of(path);
        let _ = registry.send(&lock, Command::Broken(permit, note));
        registry.watchers.changed(path);
    }
}

fn not_broken(path: LockPath, error: &StoreError) -> CallError {
    let mut failure = understood::store_failure(error);
    if matches!(error, StoreError::Changed) {
        failure.kind = StoreFailureKind::Unavailable;
        failure.message = "its holder writes the record again and again; try again".to_owned();
    }
    failure.message = format!("the lock {path} was not broken: {}", failure.message);
    CallError::StoreFailure(failure)
}

/// Breaks that may meet a changed record of the same grant, before the operator is told to try again.
const BREAK_TRIES: u8 = 3;
