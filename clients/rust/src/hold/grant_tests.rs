//! What a grant tells besides the lock: its limits, its permit; and a sidecar that is too old for one (S11,
//! S28, S37).

use super::tests::{held, held_here, next};
use super::*;
use crate::fake::{Bench, ELSEWHERE, OURS, grant, seconds, too_old, validity};
use tonic::Status;

use crate::messages::wire_duration;
use crate::proto::acquire_lease_response::Outcome as Wire;
use crate::proto::hold_lease_request::Start;
use crate::proto::hold_lease_response::Event;
use crate::proto::{BootTime, Deadline, Grant};

fn granted() -> Grant {
    let Event::Granted(granted) = grant(validity(OURS, 1_058, 58)) else { panic!() };
    granted
}

fn deadline(boot_id: &str, at: u64, after: u64) -> Option<Deadline> {
    let (boot_id, since_boot) = (boot_id.to_owned(), Some(wire_duration(seconds(at))));
    let at = Some(BootTime { boot_id, since_boot });
    Some(Deadline { at, after: Some(wire_duration(seconds(after))) })
}

#[tokio::test]
async fn s11_a_hold_knows_when_its_longest_duration_ends() {
    let mut bench = Bench::new().await;
    let holding = tokio::spawn(bench.client.hold(LeaseSpec::new("f")).into_future());
    let call = bench.sidecar.hold().await;
    let max_hold_ends = deadline(OURS, 1_600, 600);
    call.tell(Event::Granted(Grant { max_hold_ends, ..granted() })).await;
    let guard = holding.await.unwrap().unwrap().granted().unwrap();
    assert_eq!(guard.max_hold_ends().map(BootInstant::since_boot), Some(seconds(1_600)));
    let ends = |bench: &Bench| {
        bench.sidecar.script.lock().unwrap().report = Some(Ok(validity(OURS, 1_058, 58)));
        bench.sidecar.script.lock().unwrap().held.max_hold_ends = deadline(OURS, 1_700, 700);
    };
    ends(&bench);
    let held = guard.info().await.unwrap();
    assert!(held.max_hold_ends.is_some());
    assert_eq!(guard.max_hold_ends().map(BootInstant::since_boot), Some(seconds(1_700)));
    let (unlimited, _call, _events) = held_here(&mut bench).await;
    assert_eq!(unlimited.max_hold_ends(), None);
}

#[tokio::test]
async fn a_hold_is_asked_about_at_its_sidecar() {
    let mut bench = Bench::new().await;
    let (guard, _call, _events) = held_here(&mut bench).await;
    bench.sidecar.script.lock().unwrap().report = Some(Ok(validity(OURS, 1_060, 60)));
    bench.sidecar.script.lock().unwrap().held = proto::GetHoldResponse {
        state: proto::HoldState::AtRisk.into(),
        fencing_token: 65_536,
        permit: 2,
        ..proto::GetHoldResponse::default()
    };
    let held = guard.info().await.unwrap();
    assert_eq!(held.state, crate::HoldState::AtRisk);
    assert_eq!((held.fencing_token, held.permit), (65_536, 2));
    assert_eq!(guard.remaining(), seconds(60), "its validity answers a request of our own");
}

#[tokio::test]
async fn s22_elsewhere_an_answer_tells_of_a_notice_that_the_stream_did_not() {
    let mut bench = Bench::new().await;
    let (guard, call, mut events) = held(&mut bench, validity(ELSEWHERE, 70, 58)).await;
    let note = proto::BreakNote { reason: "why".to_owned(), ..proto::BreakNote::default() };
    bench.sidecar.script.lock().unwrap().held = proto::GetHoldResponse {
        state: proto::HoldState::Revoked.into(),
        break_note: Some(note.clone()),
        ..proto::GetHoldResponse::default()
    };
    bench.sidecar.script.lock().unwrap().report = Some(Ok(validity(ELSEWHERE, 70, 28)));
    bench.clock.advance(seconds(30));
    let told = next(&mut events).await;
    assert!(matches!(&told, HoldEvent::Revoked(notice) if notice.to_string().contains("why")));
    // The stream tells it too, late.
    let validity = Some(validity(ELSEWHERE, 70, 28));
    call.tell(Event::Revoked(proto::Revoked { validity, break_note: Some(note) })).await;
    call.tell(Event::Draining(proto::Draining::default())).await;
    assert!(matches!(next(&mut events).await, HoldEvent::Draining { .. }), "once");
    assert!(guard.is_valid() && guard.notice().is_some());
}

#[tokio::test]
async fn s28_permits_are_asked_for_and_the_held_ones_told() {
    let mut bench = Bench::new().await;
    let spec = LeaseSpec::new("f").with_permits(3);
    let holding = tokio::spawn(bench.client.hold(spec).into_future());
    let call = bench.sidecar.hold().await;
    let Start::Spec(asked) = &call.start else { panic!() };
    assert_eq!(asked.permits, Some(3));
    let busy = proto::Busy { held_permits: 3, ..proto::Busy::default() };
    call.tell(Event::Busy(busy)).await;
    let Outcome::Busy(busy) = holding.await.unwrap().unwrap() else { panic!("it is busy") };
    assert_eq!(busy.held_permits, 3);
}

#[tokio::test]
async fn s37_a_sidecar_that_is_too_old_is_left_and_what_it_holds_is_released_there() {
    let mut bench = Bench::new().await;
    let (kept, call, _events) = held_here(&mut bench).await;
    assert_eq!(call.connection, 1);
    let spec = LeaseSpec::new("f").with_wait(seconds(60));
    let holding = tokio::spawn(bench.client.hold(spec).into_future());
    let refused = bench.sidecar.hold().await;
    assert_eq!(refused.connection, 1);
    refused.fail(too_old()).await;
    let call = bench.sidecar.hold().await;
    assert_eq!(call.connection, 2);
    call.tell(Event::Granted(granted())).await;
    let newer = holding.await.unwrap().unwrap().granted().unwrap();
    for hold in [newer, kept] {
        hold.release().await.unwrap();
    }
    bench.sidecar.script.lock().unwrap().acquire = Some(Wire::Granted(granted()));
    assert!(bench.client.acquire(LeaseSpec::new("f")).await.unwrap().granted().is_some());
    let _another = bench.client.release("lease-1").await.unwrap();
    assert_eq!(bench.sidecar.script.lock().unwrap().connections, [2, 1, 1, 1]);
}

#[tokio::test]
async fn s37_a_resume_leaves_a_sidecar_that_is_too_old_and_the_hold_is_released_where_it_went() {
    let mut bench = Bench::new().await;
    let (hold, call, _events) = held_here(&mut bench).await;
    call.fail(Status::unavailable("shutting down")).await;
    let refused = bench.sidecar.hold().await;
    assert_eq!(refused.connection, 1);
    refused.fail(too_old()).await;
    let call = bench.sidecar.hold().await;
    assert_eq!(call.connection, 2);
    call.tell(Event::Granted(Grant { generation: 2, ..granted() })).await;
    hold.release().await.unwrap();
    assert_eq!(bench.sidecar.script.lock().unwrap().connections, [2]);
}

#[tokio::test]
async fn s37_a_call_is_asked_again_in_its_wait_where_its_release_would_go() {
    let bench = Bench::new().await;
    bench.sidecar.script.lock().unwrap().refused = vec![too_old(), too_old(), too_old()];
    let error = bench.client.acquire(LeaseSpec::new("f")).await.unwrap_err();
    assert_eq!(error.reason(), Some(&Reason::Unsupported), "{error}");
    bench.sidecar.script.lock().unwrap().acquire = Some(Wire::Granted(granted()));
    let granted = bench.client.acquire(LeaseSpec::new("f").with_wait(seconds(60))).await.unwrap();
    assert!(granted.granted().is_some());
    assert_eq!(bench.sidecar.script.lock().unwrap().connections, [1, 1, 1, 1]);
}
