//! What a holder and a client are told beside the lock: bounds, the hold by its id, the sidecar.

use std::time::Duration;

use leasehold::coordinator::REVISION;
use leasehold::time::Clock as _;
use leasehold_client::proto::{
    AcquireLeaseRequest, ErrorReason, ExtendLeaseRequest, GetHoldRequest, GetHoldResponse,
    GetServerInfoRequest, HoldState, hold_lease_request::Start,
};
use tonic::{Code, Status};

use crate::grpc::rig::{Account, Event, HOST_ID, Sidecar, granted, next, reason, seconds, spec};

async fn get(sidecar: &Sidecar, lease_id: &str) -> Result<GetHoldResponse, Status> {
    let request = GetHoldRequest { lease_id: lease_id.to_owned(), generation: 0 };
    Ok(sidecar.client.clone().get_hold(request).await?.into_inner())
}

fn after(deadline: Option<leasehold_client::proto::Deadline>) -> Option<u64> {
    let after = deadline?.after?;
    Some(Duration::try_from(after).unwrap().as_secs())
}

#[tokio::test(start_paused = true)]
async fn s11_a_grant_says_when_max_hold_ends_and_so_does_an_extension() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = sidecar.hold(spec("unbounded")).await;
    assert_eq!(granted(&mut stream).await.max_hold_ends, None);
    let mut bounded = spec("nightly");
    bounded.max_hold = seconds(100);
    let mut stream = sidecar.hold(bounded).await;
    let grant = granted(&mut stream).await;
    let ends = grant.max_hold_ends.clone().unwrap();
    assert_eq!(after(grant.max_hold_ends), Some(100));
    let until = grant.validity.unwrap().valid_until.unwrap();
    assert_eq!(ends.at.as_ref().unwrap().boot_id, until.boot_id);
    let request =
        ExtendLeaseRequest { lease_id: grant.lease_id, max_hold: seconds(200), generation: 0 };
    let extended = sidecar.client.clone().extend_lease(request).await.unwrap().into_inner();
    assert_eq!(after(extended.max_hold_ends.clone()), Some(200));
    let Event::Renewed(renewed) = next(&mut stream).await else { panic!() };
    assert_eq!(renewed.max_hold_ends.unwrap().at, extended.max_hold_ends.unwrap().at);
    let Event::Renewed(renewed) = next(&mut stream).await else { panic!() };
    assert_eq!(renewed.max_hold_ends, None, "it has not changed again");
}

#[tokio::test(start_paused = true)]
async fn s11_a_repeated_acquire_tells_the_bound_as_it_is_now() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut repeatable = spec("nightly");
    (repeatable.request_id, repeatable.max_hold) = ("8b7f".to_owned(), seconds(100));
    let first = sidecar.acquire(repeatable.clone()).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let second = sidecar.acquire(repeatable).await;
    assert_eq!(after(second.max_hold_ends.clone()), Some(70));
    assert_eq!(second.max_hold_ends.unwrap().at, first.max_hold_ends.unwrap().at);
}

#[tokio::test(start_paused = true)]
async fn a_bound_that_is_farther_than_the_clock_goes_is_cut() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut far = spec("nightly");
    far.max_hold = seconds(i64::MAX / 8);
    let mut stream = sidecar.hold(far).await;
    let ends = granted(&mut stream).await.max_hold_ends.unwrap();
    // The clock ends 584 years after the start of the machine.
    let years = ends.after.unwrap().seconds / (365 * 86_400);
    assert!((500..600).contains(&years), "{years}");
}

async fn granted_after_waiting(
    stream: &mut tonic::Streaming<leasehold_client::proto::HoldLeaseResponse>,
) -> leasehold_client::proto::Grant {
    loop {
        match next(stream).await {
            Event::Waiting(_) => {}
            Event::Granted(grant) => return grant,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s12_a_wait_without_end_outlasts_the_longest_wait_and_is_repeated() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let mut stream_here = here.hold(spec("nightly")).await;
    let grant = granted(&mut stream_here).await;
    let mut endless = spec("nightly");
    endless.wait_without_end = true;
    let mut stream = there.hold(endless).await;
    let begun = account.clock.now();
    let mut last = begun;
    while account.clock.now() - begun < Duration::from_secs(25 * 60 * 60) {
        let Event::Waiting(_) = next(&mut stream).await else { panic!() };
        assert!(account.clock.now() - last <= Duration::from_secs(30));
        last = account.clock.now();
        while let Ok(event) = tokio::time::timeout(Duration::ZERO, stream_here.message()).await {
            event.unwrap().unwrap();
        }
    }
    here.release_of(&grant).await;
    granted_after_waiting(&mut stream).await;
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_told_by_its_id_and_nothing_of_it_changes() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut watched = spec("nightly");
    (watched.progress_timeout, watched.max_hold) = (seconds(40), seconds(300));
    let mut stream = sidecar.hold(watched).await;
    let grant = granted(&mut stream).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let held = get(&sidecar, &grant.lease_id).await.unwrap();
    assert_eq!(held.state(), HoldState::Held);
    assert_eq!((after(held.max_hold_ends), after(held.progress_due)), (Some(290), Some(30)));
    assert_eq!((&held.lock_path, held.fencing_token), (&grant.lock_path, grant.fencing_token));
    assert_eq!((held.generation, held.permit, held.break_note), (1, 0, None));
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert_eq!(after(get(&sidecar, &grant.lease_id).await.unwrap().progress_due), Some(5));
    tokio::time::sleep(Duration::from_secs(6)).await;
    let refused = get(&sidecar, &grant.lease_id).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::FailedPrecondition, "HOLD_LOST".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn s9_a_hold_is_at_risk_until_it_recovers() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut stream = sidecar.hold(spec("nightly")).await;
    let grant = granted(&mut stream).await;
    sidecar.link.go_down(Duration::from_secs(45));
    let Event::AtRisk(at_risk) = next(&mut stream).await else { panic!() };
    assert_eq!(at_risk.cause(), ErrorReason::StoreUnavailable);
    let held = get(&sidecar, &grant.lease_id).await.unwrap();
    assert_eq!(held.state(), HoldState::AtRisk);
    assert_eq!(held.validity.unwrap().valid_until, at_risk.validity.unwrap().valid_until);
    let Event::Recovered(_) = next(&mut stream).await else { panic!() };
    assert_eq!(get(&sidecar, &grant.lease_id).await.unwrap().state(), HoldState::Held);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_held_here_says_when_its_lease_was_renewed() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let mut short = spec("nightly");
    short.lease_duration = seconds(30);
    let grant = here.acquire(short).await;
    let record = here.record("nightly").await;
    assert_eq!(record.lease_duration, seconds(30));
    let first = record.renewed_at.unwrap();
    tokio::time::sleep(Duration::from_secs(13)).await;
    let record = here.record("nightly").await;
    assert!(record.renewed_at.unwrap().seconds > first.seconds, "renewed once a third of 30 s");
    let elsewhere = there.record("nightly").await;
    assert_eq!((elsewhere.lease_duration, elsewhere.renewed_at), (None, None));
    here.release(&grant.lease_id).await;
    let record = here.record("nightly").await;
    assert_eq!((record.lease_duration, record.renewed_at), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_sidecar_says_what_it_is() {
    let account = Account::new();
    let sidecar = account.sidecar_with(|settings| {
        (settings.allow_break, settings.allow_schedule_changes) = (false, false);
    });
    let request = GetServerInfoRequest::default();
    let about = sidecar.client.clone().get_server_info(request).await.unwrap().into_inner();
    assert_eq!(about.version, env!("CARGO_PKG_VERSION"));
    assert_eq!((about.host_id.as_str(), about.host_type.as_str()), (HOST_ID, "Keeper-A"));
    assert_eq!((about.layout.as_str(), about.store.as_str()), ("readable", "memory"));
    assert_eq!(
        about.features,
        [
            "checkpoints",
            "notice",
            "permits",
            "wait-without-end",
            "sharing",
            "host-id-override",
            "schedules"
        ]
    );
    let grant = sidecar.acquire(spec("nightly")).await;
    assert_eq!((about.revision, grant.revision), (REVISION, REVISION), "S37");
    assert_eq!(about.boot_id, grant.validity.unwrap().valid_until.unwrap().boot_id);
    let limits = about.limits.unwrap();
    assert_eq!((limits.wait, limits.max_hold), (seconds(86_400), seconds(86_400)));
    assert_eq!(limits.default_max_hold, seconds(600));
    assert_eq!(limits.default_lease_duration, seconds(60));
    assert_eq!((limits.holds, limits.waiters), (100, 100));
    assert_eq!((limits.permits, limits.checkpoint_bytes), (32, 2_048));
}

#[tokio::test(start_paused = true)]
async fn s19_a_wait_without_end_is_for_streams_and_excludes_a_wait() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut endless = spec("nightly");
    endless.wait_without_end = true;
    let request = AcquireLeaseRequest { spec: Some(endless.clone()), needs: 0 };
    let refused = sidecar.client.clone().acquire_lease(request).await.unwrap_err();
    assert_eq!(crate::grpc::rig::fields(&refused), ["spec.wait_without_end"]);
    endless.wait = seconds(5);
    let refused = sidecar.start(Start::Spec(endless)).await.unwrap_err();
    assert_eq!(crate::grpc::rig::fields(&refused), ["spec.wait_without_end"]);
}
