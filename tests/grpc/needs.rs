//! Requests and resume tokens that need another revision than the sidecar has (S37).

use std::time::Duration;

use leasehold::coordinator::REVISION;
use leasehold_client::proto::hold_lease_request::Start;
use leasehold_client::proto::{
    AcquireLeaseRequest, GetServerInfoRequest, HoldLeaseRequest, PreviewScheduleRequest, Resume,
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::grpc::rig::{Account, granted, reason, spec};
use crate::grpc::schedules_rig::{schedules, spec as schedule, subscription};

/// The refusal names both numbers.
#[track_caller]
fn assert_too_old(refused: &Status, needs: u32, revision: u32) {
    assert_eq!(reason(refused), (Code::Unimplemented, "UNSUPPORTED".to_owned()), "{refused}");
    let said = refused.get_details_error_info().unwrap().metadata;
    let numbers = [("needs", needs), ("revision", revision)];
    let numbers = numbers.map(|(name, number)| (name.to_owned(), number.to_string()));
    assert_eq!(said, numbers.into());
    let (least, own) = (format!("revision {needs} or newer"), format!("is of revision {revision}"));
    let message = refused.message();
    assert!(message.contains(&least) && message.contains(&own), "{message}");
}

#[tokio::test(start_paused = true)]
async fn s37_what_needs_a_newer_sidecar_is_refused_before_anything_is_done() {
    let account = Account::new();
    let sidecar = account.sidecar();
    // Nothing is asked of the store, and nothing is said of fields that a newer sidecar may read otherwise.
    sidecar.link.go_down(Duration::from_secs(3_600));
    let needs = REVISION + 1;
    let mut client = sidecar.client.clone();
    for spec in [None, Some(spec("nightly"))] {
        let request = AcquireLeaseRequest { spec: spec.clone(), needs };
        assert_too_old(&client.acquire_lease(request).await.unwrap_err(), needs, REVISION);
        let request = HoldLeaseRequest { start: spec.map(Start::Spec), needs };
        assert_too_old(&client.hold_lease(request).await.unwrap_err(), needs, REVISION);
    }
    let mut schedules = schedules(&sidecar);
    for cron in ["", "* * * * *"] {
        let mut request = subscription(cron);
        request.needs = needs;
        let refused = schedules.subscribe_schedule(request).await.unwrap_err();
        assert_too_old(&refused, needs, REVISION);
        let spec = Some(schedule(cron));
        let request = PreviewScheduleRequest { spec, needs, ..PreviewScheduleRequest::default() };
        let refused = schedules.preview_schedule(request).await.unwrap_err();
        assert_too_old(&refused, needs, REVISION);
    }
}

#[tokio::test(start_paused = true)]
async fn s37_what_needs_this_sidecar_or_an_older_one_is_served() {
    let account = Account::new();
    let sidecar = account.sidecar_with(|settings| settings.revision = 3);
    let mut client = sidecar.client.clone();
    for needs in 0..=3 {
        let request = AcquireLeaseRequest { spec: Some(spec(&format!("job-{needs}"))), needs };
        client.acquire_lease(request).await.unwrap().into_inner().outcome.unwrap();
    }
    let about = client.get_server_info(GetServerInfoRequest {}).await.unwrap().into_inner();
    assert_eq!(about.revision, 3);
}

#[tokio::test(start_paused = true)]
async fn s37_a_resume_that_meets_an_older_sidecar_ends_nothing() {
    let account = Account::new();
    let (first, next) = (account.sidecar(), account.sidecar());
    let older = account.sidecar_with(|settings| settings.revision = 0);
    let mut stream = first.hold(spec("nightly")).await;
    let grant = granted(&mut stream).await;
    first.link.go_down(Duration::from_secs(3_600));
    drop(stream);
    let resume = Resume {
        resume_token: grant.resume_token.clone(),
        attempt_id: "attempt-1".to_owned(),
        told_valid_until: grant.validity.unwrap().valid_until,
    };
    // The token says what it needs, also where the request does not.
    let refused = older.start(Start::Resume(resume.clone())).await.unwrap_err();
    assert_too_old(&refused, 1, 0);
    let mut stream = next.start(Start::Resume(resume)).await.unwrap();
    let resumed = granted(&mut stream).await;
    assert_eq!((resumed.fencing_token, resumed.generation), (grant.fencing_token, 2));
    assert_eq!(next.release_of(&resumed).await.as_str_name(), "RELEASE_OUTCOME_RELEASED");
}
