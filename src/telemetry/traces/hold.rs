//! One hold as spans: itself, its wait, and each request to the store that was made for it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Recorder;
use super::context::Parent;
use super::wire::{Event, KeyValue, Link, Span, SpanKind, Status, StatusCode};
use crate::coordinator::{
    AcquireResult, Asked, GrantFacts, HoldEnd, HoldTrace, LockEvent, LockEventKind, NotConfirmed,
    TraceId, TraceLink, TracedRequest,
};
use crate::lock::FencingToken;
use crate::store::Operation;
use crate::time::{Instant, UnixMillis};

/// Requests that went as expected and have spans of their own; later ones of the hold are counted only. A
/// hold may last for days, with a renewal every few seconds.
const MAX_REQUESTS: u64 = 200;
/// Events and links that a hold keeps until its end.
const MAX_EVENTS: usize = 64;
const MAX_LINKS: usize = 16;
/// The collector's flag that `flags` says whether a parent or a linked span is of another process, and that
/// it is.
const REMOTE: u32 = 0x300;
/// The same, and that it is not.
const LOCAL: u32 = 0x100;
/// What is exported is sampled.
const SAMPLED: u32 = 1;

/// A hold that is recorded.
#[derive(Debug)]
pub(super) struct HoldSpans {
    recorder: Recorder,
    id: TraceId,
    parent: Option<Parent>,
    times: Times,
    arrived: Instant,
    state: Mutex<SpanState>,
}

/// How what is recorded has ended.
#[derive(Clone, Copy, Debug)]
enum SpanEnd {
    /// Without a grant of its own.
    NotGranted(AcquireResult),
    /// It was refused before it was in the queue.
    Refused,
    /// The hold has ended here.
    Ended(HoldEnd),
    /// It goes on here by another stream (S16).
    ResumedHere,
}

/// From the boot clock to that of people, as they stood when the hold was asked for.
#[derive(Clone, Copy, Debug)]
struct Times {
    wall: UnixMillis,
    boot: Instant,
}

#[derive(Debug, Default)]
struct SpanState {
    attributes: Vec<KeyValue>,
    events: Vec<Event>,
    events_dropped: u32,
    links: Vec<Link>,
    is_granted: bool,
    requests: u64,
    renewals: u64,
    not_exported: u64,
    is_ended: bool,
}

impl Times {
    fn unix_nanos(self, at: Instant) -> u64 {
        let (wall, before) = (self.wall.0.saturating_mul(1_000_000), at < self.boot);
        let (later, earlier) = if before { (self.boot, at) } else { (at, self.boot) };
        let apart = later.saturating_since(earlier).as_nanos();
        let apart = u64::try_from(apart).unwrap_or(u64::MAX);
        if before { wall.saturating_sub(apart) } else { wall.saturating_add(apart) }
    }
}

impl HoldSpans {
    pub(super) fn new(
        recorder: &Recorder,
        id: TraceId,
        parent: Option<Parent>,
        asked: &Asked<'_>,
    ) -> Self {
        let clock = recorder.clock();
        let attributes = vec![
            KeyValue::text("leasehold.lock_path", asked.path.to_string()),
            KeyValue::text("leasehold.host_id", asked.host_id.as_str()),
            KeyValue::text("leasehold.holder", asked.holder),
            KeyValue::number("leasehold.permits", asked.permits.get().into()),
            KeyValue::switch("leasehold.resumed", asked.resumes),
        ];
        Self {
            recorder: recorder.clone(),
            id,
            parent,
            times: Times { wall: clock.wall(), boot: clock.now() },
            arrived: asked.arrived,
            state: Mutex::new(SpanState { attributes, ..SpanState::default() }),
        }
    }

    fn state(&self) -> MutexGuard<'_, SpanState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A span below the hold's.
    fn child(&self, name: &str, kind: SpanKind, from: Instant, to: Instant) -> Span {
        Span {
            trace_id: self.id.trace.to_vec(),
            span_id: self.recorder.span_id().to_vec(),
            trace_state: self.trace_state(),
            parent_span_id: self.id.span.to_vec(),
            name: name.to_owned(),
            kind: kind.into(),
            start_time_unix_nano: self.times.unix_nanos(from),
            end_time_unix_nano: self.times.unix_nanos(to.max(from)),
            flags: SAMPLED | LOCAL,
            ..Span::default()
        }
    }

    fn trace_state(&self) -> String {
        self.parent.as_ref().map(|parent| parent.state.clone()).unwrap_or_default()
    }

    /// The wait of a caller, until its grant or until it was over without one.
    fn end_wait(&self, at: Instant, result: &str) {
        let mut wait = self.child("wait", SpanKind::Internal, self.arrived, at);
        wait.attributes = vec![KeyValue::text("leasehold.outcome", result)];
        self.recorder.record(wait);
    }

    fn granted(&self, token: Option<FencingToken>, facts: &GrantFacts, at: Instant) {
        {
            let mut state = self.state();
            if state.is_ended || std::mem::replace(&mut state.is_granted, true) {
                return;
            }
            let token = token.map_or(0, FencingToken::value);
            state.attributes.extend([
                KeyValue::number("leasehold.fencing_token", token),
                KeyValue::number("leasehold.permit", facts.permit.number().into()),
                KeyValue::number("leasehold.generation", facts.generation),
            ]);
            state.add_event(self.times.unix_nanos(at), "granted", Vec::new());
        }
        self.end_wait(at, "granted");
    }

    fn happened(&self, name: &str, attributes: Vec<KeyValue>, at: Instant) {
        let mut state = self.state();
        if !state.is_ended {
            state.add_event(self.times.unix_nanos(at), name, attributes);
        }
    }

    /// The hold itself: `outcome` is missing of one that nobody ended.
    fn end(&self, end: Option<SpanEnd>, at: Instant) {
        let mut state = std::mem::replace(&mut *self.state(), SpanState::over());
        if state.is_ended {
            return;
        }
        let outcome = end.map(SpanEnd::outcome);
        if let (Some(outcome), false) = (outcome, state.is_granted) {
            self.end_wait(at, outcome);
        }
        if let Some(outcome) = outcome {
            state.attributes.push(KeyValue::text("leasehold.outcome", outcome));
        }
        if let Some(SpanEnd::Ended(HoldEnd::Lost(reason))) = end {
            state.attributes.push(KeyValue::text("leasehold.loss_reason", reason.as_str()));
        }
        let counts = [
            ("leasehold.store_requests", state.requests),
            ("leasehold.renewals", state.renewals),
            ("leasehold.store_requests_without_span", state.not_exported),
        ];
        state.attributes.extend(counts.map(|(key, count)| KeyValue::number(key, count)));
        let failure = end.and_then(SpanEnd::failure);
        let status =
            failure.map(|why| Status { message: why.to_owned(), code: StatusCode::Error.into() });
        let parent = self.parent.as_ref();
        self.recorder.record(Span {
            span_id: self.id.span.to_vec(),
            parent_span_id: parent.map(|parent| parent.id.span.to_vec()).unwrap_or_default(),
            attributes: state.attributes,
            events: state.events,
            dropped_events_count: state.events_dropped,
            links: state.links,
            status,
            flags: SAMPLED | if parent.is_some() { REMOTE } else { LOCAL },
            ..self.child("hold", SpanKind::Server, self.arrived, at)
        });
    }
}

impl SpanState {
    /// What is left of one that has ended.
    fn over() -> Self {
        Self { is_ended: true, ..Self::default() }
    }
}

impl HoldTrace for HoldSpans {
    fn id(&self) -> TraceId {
        self.id
    }

    fn observe(&self, event: &LockEvent<'_>, at: Instant) {
        match event.kind {
            LockEventKind::Granted(facts) => self.granted(event.token, &facts, at),
            LockEventKind::AtRisk { cause, .. } => {
                let cause = AcquireResult::Failed(cause).as_str();
                self.happened("at_risk", vec![KeyValue::text("leasehold.cause", cause)], at);
            }
            LockEventKind::Recovered => self.happened("recovered", Vec::new(), at),
            LockEventKind::Revoked { .. } => self.happened("revoked", Vec::new(), at),
            LockEventKind::Extended => self.happened("extended", Vec::new(), at),
            LockEventKind::Draining => self.happened("draining", Vec::new(), at),
            LockEventKind::NotGranted { result, .. } => {
                self.end(Some(SpanEnd::NotGranted(result)), at);
            }
            LockEventKind::Refused => self.end(Some(SpanEnd::Refused), at),
            LockEventKind::Ended(facts) => self.end(Some(SpanEnd::Ended(facts.end)), at),
            // They concern no hold, or are said by its end.
            LockEventKind::ResumeRefused { .. }
            | LockEventKind::Settled { .. }
            | LockEventKind::Renewal { .. }
            | LockEventKind::Saved { .. }
            | LockEventKind::TaskFailed
            | LockEventKind::Collision { .. }
            | LockEventKind::TokenNotGrowing { .. }
            | LockEventKind::PermitsDiffer { .. }
            | LockEventKind::CannotBreak { .. }
            | LockEventKind::Overruled { .. }
            | LockEventKind::Broken { .. }
            | LockEventKind::Forgotten
            | LockEventKind::ForgottenRead
            | LockEventKind::PauseSuspected
            | LockEventKind::ClockNotHeard { .. }
            | LockEventKind::ShutdownBegun
            | LockEventKind::Schedule(_) => {}
        }
    }

    fn linked(&self, other: TraceId, how: TraceLink, at: Instant) {
        let relation = match how {
            TraceLink::HandedOnFrom => "handed_on_from",
            TraceLink::HandedOnTo => "handed_on_to",
            TraceLink::ResumedFrom => "resumed_from",
            TraceLink::ResumedBy => "resumed_by",
        };
        let mut state = self.state();
        if !state.is_ended && state.links.len() < MAX_LINKS {
            state.links.push(Link {
                trace_id: other.trace.to_vec(),
                span_id: other.span.to_vec(),
                attributes: vec![KeyValue::text("leasehold.link", relation)],
                flags: SAMPLED | LOCAL,
            });
        }
        drop(state);
        if how == TraceLink::ResumedBy {
            self.end(Some(SpanEnd::ResumedHere), at);
        }
    }

    fn requested(&self, request: &TracedRequest) {
        {
            let mut state = self.state();
            state.requests += 1;
            state.renewals += u64::from(request.operation == Operation::Renew);
            // What went wrong is of interest, and so is the end.
            let is_seldom = !request.expected || request.operation == Operation::Release;
            if state.requests > MAX_REQUESTS && !is_seldom {
                state.not_exported += 1;
                return;
            }
        }
        // Not of which lock: collectors group by the name.
        let name = format!("store {}", request.operation.as_str());
        let mut span = self.child(&name, SpanKind::Client, request.sent, request.ended);
        span.attributes = vec![
            KeyValue::text("leasehold.store", request.store),
            KeyValue::text("leasehold.outcome", request.outcome),
        ];
        span.status = (!request.expected).then(|| Status {
            message: request.outcome.to_owned(),
            code: StatusCode::Error.into(),
        });
        self.recorder.record(span);
    }
}

/// A task that ended without a word, as in a fault.
impl Drop for HoldSpans {
    fn drop(&mut self) {
        self.end(None, self.recorder.clock().now());
    }
}

impl SpanState {
    fn add_event(&mut self, time_unix_nano: u64, name: &str, attributes: Vec<KeyValue>) {
        if self.events.len() >= MAX_EVENTS {
            self.events_dropped = self.events_dropped.saturating_add(1);
            return;
        }
        self.events.push(Event { time_unix_nano, name: name.to_owned(), attributes });
    }
}

impl SpanEnd {
    const fn outcome(self) -> &'static str {
        match self {
            Self::NotGranted(result) => result.as_str(),
            Self::Refused => "refused",
            Self::Ended(end) => end.as_str(),
            Self::ResumedHere => "resumed_here",
        }
    }

    /// What an operator looks for: holds that were lost, and calls that failed. Somebody else's hold is no
    /// failure.
    const fn failure(self) -> Option<&'static str> {
        match self {
            Self::Ended(HoldEnd::Lost(reason)) => Some(reason.as_str()),
            Self::Ended(
                end @ HoldEnd::NotConfirmed(NotConfirmed::NoAnswer | NotConfirmed::LeaseGone),
            ) => Some(end.as_str()),
            Self::NotGranted(
                result @ (AcquireResult::Failed(_)
                | AcquireResult::ResumeLost
                | AcquireResult::ResumeRefused
                | AcquireResult::OverLimit),
            ) => Some(result.as_str()),
            Self::Refused => Some("refused"),
            Self::Ended(
                HoldEnd::Released
                | HoldEnd::NotConfirmed(NotConfirmed::LeftToExpire)
                | HoldEnd::HandedOver
                | HoldEnd::ResumedElsewhere,
            )
            | Self::ResumedHere
            | Self::NotGranted(
                AcquireResult::Granted
                | AcquireResult::Resumed
                | AcquireResult::Busy
                | AcquireResult::Settled
                | AcquireResult::Left,
            ) => None,
        }
    }
}

#[cfg(test)]
#[path = "hold_tests.rs"]
mod tests;
