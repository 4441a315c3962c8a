//! Requests and answers that are under way for seconds while a lock changes hands: no hold that they are not
//! about ends by them, and nothing is granted on what they say.

use std::time::Duration;

use leasehold::testing::Azurite;
use leasehold_client::proto::hold_lease_response::Event;
use leasehold_client::proto::{
    self, Grant as WireGrant, HoldLeaseRequest, HoldLeaseResponse, ReleaseLeaseRequest, Resume,
    hold_lease_request::Start,
};
use leasehold_client::{
    BootInstant, BreakLock, BreakMode, BreakResult, Error, Grant, Hold, HoldEvent, LeaseSpec,
    LockKey, Outcome, Reason, ReleaseOutcome,
};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinHandle;
use tonic::Streaming;

use crate::faults::moving::{Clocks, Shift};
use crate::faults::process::{PATIENCE, SHORT, Sidecar, event, patient, spec};
use crate::faults::proxy::{Asked, Kept, Proxy};
use crate::faults::statistics::Statistics;

const LEASE: Duration = Duration::from_secs(SHORT);

/// A sidecar behind a proxy of its own, and another one on the same account.
struct Stage {
    statistics: Statistics,
    proxy: Proxy,
    behind: Sidecar,
    beside: Sidecar,
}

impl Stage {
    async fn set(host: &str) -> Self {
        Self::with(host, Vec::new()).await
    }

    async fn with(host: &str, mut environment: Vec<(&'static str, String)>) -> Self {
        let azurite = Azurite::shared();
        let statistics = Statistics::default();
        let proxy = Proxy::start(azurite, 1, statistics.clone()).await;
        let connection = proxy.connection_string(azurite);
        environment.push(("LEASEHOLD_STORE_AZURE_CONNECTION_STRING", connection));
        let settings = ["admin.allow_break=true", "locks.poll_cap=250ms"];
        let behind = Sidecar::start(host, &settings, environment).await;
        let beside = Sidecar::on_azurite(host, &settings).await;
        Self { statistics, proxy, behind, beside }
    }

    /// A break at once of this grant, through the sidecar behind the proxy, whose request is under way.
    async fn break_late(&self, token: u64) -> (Kept, JoinHandle<Result<BreakResult, Error>>) {
        let kept = self.proxy.keep(Asked::Break);
        let client = self.behind.client().await;
        let answer = tokio::spawn(async move { client.break_lock(at_once(token)).await });
        kept.is_under_way().await;
        (kept, answer)
    }
}

fn at_once(token: u64) -> BreakLock {
    let request = BreakLock::new(LockKey::new("nightly", ""), "it hangs");
    request.with_mode(BreakMode::Now).with_fencing_token(token)
}

async fn hold(sidecar: &Sidecar, spec: LeaseSpec) -> Held {
    let (sender, events) = mpsc::unbounded_channel();
    let outcome = sidecar.client().await.hold(spec).events(sender).await.unwrap();
    let Outcome::Granted(guard) = outcome else { panic!("busy") };
    Held { guard, events }
}

struct Held {
    guard: Hold,
    events: UnboundedReceiver<HoldEvent>,
}

impl Held {
    /// Is renewed twice, so once after whatever was before, and released.
    async fn lasts(mut self) {
        for _ in 0..2 {
            let event = tokio::time::timeout(PATIENCE, self.events.recv()).await;
            let event = event.expect("it is renewed");
            assert!(matches!(event, Some(HoldEvent::Renewed { .. })), "{event:?}");
        }
        let released = self.guard.release().await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::Released, "{released:?}");
    }
}

fn is_of_another(broken: &Result<BreakResult, Error>) {
    let reason = broken.as_ref().err().and_then(Error::reason);
    assert_eq!(reason, Some(&Reason::OtherHolder), "{broken:?}");
}

/// Waits for a lock of a caller by stream that is told to wait first.
async fn waiting(sidecar: &Sidecar) -> Streaming<HoldLeaseResponse> {
    let request =
        HoldLeaseRequest { start: Some(Start::Spec(patient("nightly").into())), needs: 0 };
    let mut stream = sidecar.rpc().await.hold_lease(request).await.unwrap().into_inner();
    let first = event(&mut stream).await;
    assert!(matches!(first, Event::Waiting(_)), "{first:?}");
    stream
}

/// Releases a hold as a client does that knows its generation: then the lock can be handed on.
async fn release(sidecar: &Sidecar, grant: &WireGrant) {
    let (lease_id, generation) = (grant.lease_id.clone(), grant.generation);
    let request = ReleaseLeaseRequest { lease_id, generation, ..ReleaseLeaseRequest::default() };
    let released = sidecar.rpc().await.release_lease(request).await.unwrap().into_inner();
    let outcome = released.result.unwrap().outcome();
    assert_eq!(outcome, proto::ReleaseOutcome::Released);
}

async fn granted(stream: &mut Streaming<HoldLeaseResponse>) -> WireGrant {
    loop {
        match event(stream).await {
            Event::Granted(grant) => return grant,
            Event::Waiting(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Waits until a sidecar elsewhere reads this token in the record.
async fn is_recorded(elsewhere: &Sidecar, token: u64) {
    let client = elsewhere.client().await;
    let recorded = async {
        while client.get_lock(LockKey::new("nightly", "")).await.unwrap().fencing_token
            != Some(token)
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, recorded).await.expect("the hand-off is recorded");
}

/// Is renewed twice.
async fn is_renewed(stream: &mut Streaming<HoldLeaseResponse>) {
    for _ in 0..2 {
        let told = event(stream).await;
        assert!(matches!(told, Event::Renewed(_)), "{told:?}");
    }
}

#[tokio::test]
async fn s17_a_break_that_comes_late_does_not_hit_the_next_holder() {
    let stage = Stage::set("Late-Break").await;
    let first = stage.beside.granted(patient("nightly")).await;
    let (kept, broken) = stage.break_late(first.fencing_token).await;
    stage.beside.client().await.release(first.lease_id).await.unwrap();
    let next = hold(&stage.beside, patient("nightly")).await;
    assert!(next.guard.fencing_token() > first.fencing_token);
    // Nothing to wait for: this is how long it is under way.
    tokio::time::sleep(Duration::from_secs(4)).await;
    kept.let_go();
    is_of_another(&broken.await.unwrap());
    let third = stage.behind.acquire(spec("nightly")).await;
    assert!(third.granted().is_none(), "beside the next one");
    next.lasts().await;
}

#[tokio::test]
async fn s10_s17_a_late_break_of_who_handed_the_lock_on_does_not_hit_whom_it_was_handed_to() {
    let stage = Stage::set("Late-Break-Of-Former").await;
    let (first, _stream) = stage.beside.hold(patient("nightly")).await;
    let mut next = waiting(&stage.beside).await;
    let (kept, broken) = stage.break_late(first.fencing_token).await;
    release(&stage.beside, &first).await;
    let second = granted(&mut next).await;
    assert_eq!(second.fencing_token, first.fencing_token + 1, "S10: it was handed on");
    is_recorded(&stage.behind, second.fencing_token).await;
    kept.let_go();
    is_of_another(&broken.await.unwrap());
    is_renewed(&mut next).await;
}

/// A renewal shows that it has not come yet, and the record of a lock that is handed on stays the one that it
/// goes by.
#[tokio::test]
async fn s17_a_break_that_was_given_up_does_not_hit_the_next_holder() {
    let stage = Stage::set("Given-Up-Break").await;
    let (first, mut stream) = stage.behind.hold(patient("nightly")).await;
    let mut next = waiting(&stage.behind).await;
    let parted = stage.proxy.part(Asked::Break);
    let broken = stage.behind.client().await.break_lock(at_once(first.fencing_token)).await;
    let error = broken.expect_err("its outcome is not known");
    assert_eq!(error.reason(), Some(&Reason::StoreUnavailable), "{error}");
    is_renewed(&mut stream).await;
    release(&stage.behind, &first).await;
    let second = granted(&mut next).await;
    assert!(second.fencing_token > first.fencing_token);
    assert_eq!(parted.arrives().await, 412, "it goes by a record that was written since");
    let third = stage.beside.acquire(spec("nightly")).await;
    assert!(third.granted().is_none(), "beside the next one");
    is_renewed(&mut next).await;
}

#[tokio::test]
async fn s10_s16_who_handed_the_lock_on_does_not_resume_elsewhere() {
    let stage = Stage::set("Former-Resumes").await;
    let (first, stream) = stage.beside.hold(patient("nightly")).await;
    let mut next = waiting(&stage.beside).await;
    release(&stage.beside, &first).await;
    drop(stream);
    let second = granted(&mut next).await;
    assert_eq!(second.fencing_token, first.fencing_token + 1, "S10: it was handed on");
    is_recorded(&stage.behind, second.fencing_token).await;
    for (number, sidecar) in [&stage.behind, &stage.beside].into_iter().enumerate() {
        let attempt_id = format!("attempt-{number}");
        let resume_token = first.resume_token.clone();
        let resume = Resume { resume_token, attempt_id, told_valid_until: None };
        let request = HoldLeaseRequest { start: Some(Start::Resume(resume)), needs: 0 };
        let mut stream = sidecar.rpc().await.hold_lease(request).await.unwrap().into_inner();
        let told = event(&mut stream).await;
        assert!(matches!(told, Event::Lost(_)), "{told:?}");
    }
    is_renewed(&mut next).await;
}

/// The token is stored, and the sidecar paused before the answer comes, by a pause that its boot clock does
/// not count.
#[tokio::test]
async fn s1_s3_a_token_whose_answer_came_after_a_pause_is_not_granted_beside_another() {
    let clocks = Clocks::new();
    let stage = Stage::with("Late-Answer", vec![clocks.variable()]).await;
    let kept = stage.proxy.keep_answer(Asked::Write);
    let client = stage.behind.client().await;
    let once = spec("nightly").with_lease_duration(LEASE);
    let acquiring = tokio::spawn(async move { client.acquire(once).await });
    kept.is_under_way().await;
    stage.behind.stop().await;
    let stopped = BootInstant::now().since_boot();
    let next: Grant = stage.beside.granted(patient("nightly")).await;
    let pause = BootInstant::now().since_boot() - stopped;
    let boot = -i64::try_from(pause.as_millis()).unwrap();
    clocks.set(&Shift { boot, ..Shift::default() });
    kept.let_go();
    stage.behind.go_on();
    let answer = tokio::time::timeout(PATIENCE, acquiring).await.expect("it is answered").unwrap();
    match answer {
        Ok(Outcome::Busy(_)) | Err(_) => println!("answered {answer:?}"),
        Ok(other) => panic!("{other:?} beside {}", next.fencing_token),
    }
    let log = stage.behind.log();
    assert!(log.contains("another clock shows a pause"), "{log}");
    let released = stage.beside.client().await.release(next.lease_id).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released, "{released:?}");
}

#[tokio::test]
async fn s7_one_renewal_that_the_store_throttles_endangers_no_hold() {
    const HOLDS: usize = 200;
    let stage = Stage::set("One-503").await;
    let mut rpc = stage.behind.rpc().await;
    let mut holds = Vec::new();
    for number in 0..HOLDS {
        let spec = spec(&format!("job-{number}")).with_lease_duration(LEASE);
        let request = HoldLeaseRequest { start: Some(Start::Spec(spec.into())), needs: 0 };
        let mut stream = rpc.hold_lease(request).await.unwrap().into_inner();
        granted(&mut stream).await;
        holds.push(stream);
    }
    stage.proxy.refuse(Asked::Renew, 503);
    // About as long as the leases that were there when it was refused.
    for _ in 0..3 {
        for stream in &mut holds {
            let told = event(stream).await;
            assert!(matches!(told, Event::Renewed(_)), "{told:?}");
        }
    }
    assert_eq!(stage.statistics.sum("request: met a trap"), 1);
}
