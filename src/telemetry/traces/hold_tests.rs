use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use proptest::prelude::*;
use ring::rand::SystemRandom;
use tokio::sync::mpsc;

use super::super::{Families, QUEUE, SharedRecorder};
use super::*;
use crate::coordinator::{EndFacts, GrantedBy, LossReason, StoreFailureKind, TraceHandle};
use crate::lock::{
    Container, HostId, Layout, LockKey, LockMode, LockPath, Namespace, Permits, Prefix,
};
use crate::testing::SimClock;
use crate::time::Clock;

/// A hold that is followed, and what would be sent of it.
struct Rig {
    clock: Arc<SimClock>,
    counts: Families,
    sent: mpsc::Receiver<Span>,
    trace: TraceHandle,
}

const ID: TraceId = TraceId { trace: [7; 16], span: [8; 8] };
const OTHER: TraceId = TraceId { trace: [7; 16], span: [9; 8] };

fn path(host_id: &HostId) -> LockPath {
    let namespace = Namespace {
        container: Container::parse("leasehold").unwrap(),
        prefix: Prefix::parse("locks").unwrap(),
        layout: Layout::Readable,
    };
    let host_type = crate::lock::HostType::parse("Keeper-A").unwrap();
    let key = LockKey::new("nightly", "", LockMode::Function).unwrap();
    namespace.lock_path(host_id, &host_type, &key).unwrap()
}

impl Rig {
    fn new(parent: Option<Parent>) -> Self {
        let clock = Arc::new(SimClock::default());
        let (queue, sent) = mpsc::channel(QUEUE);
        let counts = Families::new(&mut Registry::default());
        let inner = SharedRecorder {
            queue,
            clock: Arc::clone(&clock) as _,
            counts: counts.clone(),
            random: SystemRandom::new(),
        };
        let recorder = Recorder { inner: Arc::new(inner) };
        let host_id = HostId::parse("host").unwrap();
        let asked = Asked {
            path: &path(&host_id),
            host_id: &host_id,
            holder: "pod-1",
            permits: Permits::ONE,
            arrived: clock.now(),
            resumes: false,
            context: None,
        };
        let trace = TraceHandle::new(HoldSpans::new(&recorder, ID, parent, &asked));
        Self { clock, counts, sent, trace }
    }

    fn request(&self, operation: Operation, expected: bool) {
        let now = self.clock.now();
        let (outcome, store) = (if expected { "ok" } else { "unavailable" }, "memory");
        let request = TracedRequest { operation, sent: now, ended: now, outcome, expected, store };
        self.trace.requested(&request);
    }

    fn grant(&self) {
        let facts = GrantFacts {
            how: GrantedBy::Store,
            permit: crate::lock::Permit::FIRST,
            generation: 1,
            waited: Duration::ZERO,
            is_run: false,
        };
        let event = LockEvent::of_sidecar(LockEventKind::Granted(facts));
        let token = FencingToken::from_u64(1 << 20).unwrap();
        self.trace.observe(&event.with_token(Some(token)), self.clock.now());
    }

    fn observe(&self, kind: LockEventKind<'_>) {
        self.trace.observe(&LockEvent::of_sidecar(kind), self.clock.now());
    }

    fn end(&self, end: HoldEnd) {
        let (held, waited) = (None, Duration::ZERO);
        let facts = EndFacts { end, held, waited, detail: "", is_run: false };
        self.observe(LockEventKind::Ended(facts));
    }

    fn sent(&mut self) -> Vec<Span> {
        std::iter::from_fn(|| self.sent.try_recv().ok()).collect()
    }
}

fn named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

fn attribute(span: &Span, key: &str) -> Option<String> {
    use super::super::wire::Value;
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    Some(match found.value.clone()?.value? {
        Value::Text(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Switch(switch) => switch.to_string(),
    })
}

#[test]
fn a_hold_is_a_span_with_its_wait_and_its_requests_below_it() {
    let mut rig = Rig::new(None);
    let begun = rig.clock.wall();
    rig.clock.advance(Duration::from_secs(2));
    rig.request(Operation::Acquire, true);
    rig.grant();
    rig.clock.advance(Duration::from_secs(3));
    rig.request(Operation::Release, true);
    rig.end(HoldEnd::Released);
    let spans = rig.sent();
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["store acquire", "wait", "store release", "hold"]);
    let hold = spans.last().unwrap();
    assert_eq!((&hold.trace_id[..], &hold.span_id[..]), (&ID.trace[..], &ID.span[..]));
    assert_eq!(hold.parent_span_id, Vec::<u8>::new());
    assert!(
        spans[..3].iter().all(|span| span.parent_span_id == ID.span && span.trace_id == ID.trace)
    );
    assert_eq!(hold.start_time_unix_nano, begun.0 * 1_000_000);
    assert_eq!(hold.end_time_unix_nano - hold.start_time_unix_nano, 5_000_000_000);
    let wait = named(&spans, "wait")[0];
    assert_eq!(wait.end_time_unix_nano - wait.start_time_unix_nano, 2_000_000_000);
    assert_eq!(attribute(hold, "leasehold.outcome").as_deref(), Some("released"));
    assert_eq!(attribute(hold, "leasehold.holder").as_deref(), Some("pod-1"));
    assert_eq!(attribute(hold, "leasehold.store_requests").as_deref(), Some("2"));
    assert_eq!(hold.status, None);
}

#[test]
fn a_loss_is_an_error_with_its_reason_and_a_refusal_to_wait_is_none() {
    let mut rig = Rig::new(None);
    rig.grant();
    rig.observe(LockEventKind::AtRisk { cause: StoreFailureKind::Unavailable, detail: "" });
    rig.end(HoldEnd::Lost(LossReason::Expired));
    let spans = rig.sent();
    let hold = spans.last().unwrap();
    assert_eq!(attribute(hold, "leasehold.loss_reason").as_deref(), Some("expired"));
    assert_eq!(hold.status.as_ref().unwrap().code, i32::from(StatusCode::Error));
    let events: Vec<&str> = hold.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(events, ["granted", "at_risk"]);

    let mut rig = Rig::new(None);
    let (result, waited) = (AcquireResult::Busy, Duration::ZERO);
    rig.observe(LockEventKind::NotGranted { result, waited, busy: None });
    let spans = rig.sent();
    assert_eq!(spans.iter().map(|span| span.name.as_str()).collect::<Vec<_>>(), ["wait", "hold"]);
    assert!(
        spans.iter().all(|span| attribute(span, "leasehold.outcome").as_deref() == Some("busy"))
    );
    assert!(spans.iter().all(|span| span.status.is_none()));
}

#[test]
fn a_hold_of_days_keeps_and_sends_no_more_than_one_of_an_hour() {
    let mut rig = Rig::new(None);
    rig.grant();
    let mut sent = rig.sent();
    for round in 0..10_000 {
        rig.request(Operation::Renew, true);
        rig.observe(LockEventKind::Extended);
        rig.trace.linked(OTHER, TraceLink::HandedOnFrom, rig.clock.now());
        if round == 9_000 {
            rig.request(Operation::Renew, false);
        }
        sent.extend(rig.sent());
    }
    rig.request(Operation::Release, true);
    rig.end(HoldEnd::Released);
    sent.extend(rig.sent());
    assert_eq!(
        named(&sent, "store renew").len() as u64,
        MAX_REQUESTS + 1,
        "and the one that failed"
    );
    assert_eq!(named(&sent, "store release").len(), 1);
    let hold = sent.last().unwrap();
    assert_eq!((hold.events.len(), hold.links.len()), (MAX_EVENTS, MAX_LINKS));
    assert_eq!(hold.dropped_events_count, 10_001 - MAX_EVENTS as u32);
    assert_eq!(attribute(hold, "leasehold.renewals").as_deref(), Some("10001"));
    let left_out = attribute(hold, "leasehold.store_requests_without_span").unwrap();
    assert_eq!(left_out.parse::<u64>().unwrap(), 10_000 - MAX_REQUESTS);
}

#[test]
fn the_end_is_the_last_word_and_one_that_nobody_ended_is_sent_without_an_outcome() {
    let mut rig = Rig::new(None);
    rig.grant();
    rig.end(HoldEnd::Released);
    assert_eq!(named(&rig.sent(), "hold").len(), 1);
    rig.end(HoldEnd::Lost(LossReason::Taken));
    rig.grant();
    rig.observe(LockEventKind::Revoked { reason: "" });
    assert_eq!(rig.sent(), []);

    let mut rig = Rig::new(None);
    rig.grant();
    drop(rig.sent());
    let Rig { trace, mut sent, .. } = rig;
    drop(trace);
    let hold = sent.try_recv().unwrap();
    assert_eq!((hold.name.as_str(), attribute(&hold, "leasehold.outcome")), ("hold", None));
    assert!(sent.try_recv().is_err());
}

#[test]
fn it_is_below_its_callers_span_and_passes_its_state_on() {
    let parent = Parent { id: OTHER, sampled: true, state: "vendor=1".to_owned() };
    let mut rig = Rig::new(Some(parent));
    rig.grant();
    rig.end(HoldEnd::Released);
    let spans = rig.sent();
    assert!(spans.iter().all(|span| span.trace_state == "vendor=1"));
    assert_eq!(spans.last().unwrap().parent_span_id, OTHER.span);
}

#[test]
fn a_queue_that_is_full_costs_spans_and_nobody_waits() {
    let mut rig = Rig::new(None);
    for _ in 0..QUEUE + 10 {
        rig.request(Operation::Renew, false);
    }
    assert_eq!(rig.counts.counts(), (0, 10, 0));
    assert_eq!(rig.sent().len(), QUEUE);
}

proptest! {
    #[test]
    fn moments_before_and_after_the_start_are_moments_of_the_wall(before in 0_u64..10_000, at in 0_u64..20_000) {
        let boot = Instant::from_boot(Duration::from_millis(before));
        let times = Times { wall: UnixMillis(1_000_000), boot };
        let nanos = times.unix_nanos(Instant::from_boot(Duration::from_millis(at)));
        prop_assert_eq!(nanos, (1_000_000 + at - before) * 1_000_000);
    }
}
