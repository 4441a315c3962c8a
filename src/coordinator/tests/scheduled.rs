//! Plain holds on the lock of a schedule: whoever writes the record keeps what is the schedule's (T19).

use super::rig::{Account, MINUTE, granted, pass, path, request, settle};
use crate::coordinator::ResumeRequest;
use crate::record::{CheckpointValue, Fields};
use crate::store::LeaseStoreExt as _;
use crate::time::Clock as _;

fn schedule() -> Fields {
    [("next", "2027-01-15T09:00:00Z"), ("last", "2027-01-15T08:00:00Z/SUCCEEDED"), ("plan", "1/ff")]
        .map(|(name, value)| (format!("leasehold_schedule_{name}"), value.to_owned()))
        .into()
}

impl Account {
    /// The schedule's fields, as they stand in the lock's record.
    async fn schedule(&self) -> Fields {
        let stored = self.store.read_record(&path("nightly")).await.unwrap().fields;
        let is_its = |name: &str| name.starts_with("leasehold_schedule_");
        stored.into_iter().filter(|(name, _)| is_its(name)).collect()
    }

    /// Adds the fields to a lock that nobody holds.
    async fn make_scheduled(&self) {
        let mut fields = self.store.read_record(&path("nightly")).await.unwrap().fields;
        fields.extend(schedule());
        let (now, time) = (self.clock.now(), self.clock.wall());
        self.store.locks().write_without_lease(&path("nightly"), fields, now, time).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn t19_grants_saves_resumes_and_releases_keep_the_fields_of_a_schedule() {
    let account = Account::new();
    let (here, there) = (account.sidecar(), account.sidecar());
    let first = here.acquire(request("nightly")).await;
    here.release(&first).await;
    settle().await;
    account.make_scheduled().await;

    let (stream, granted_here) = here.hold(&request("nightly")).await;
    assert_eq!(account.schedule().await, schedule(), "grant");
    let value = |text: &str| CheckpointValue::new(text.as_bytes()).unwrap();
    let (lease_id, generation) = (granted_here.lease_id, Some(granted_here.generation));
    here.coordinator.save(lease_id, generation, value("page 7")).await.unwrap();
    assert_eq!(account.schedule().await, schedule(), "save");
    stream.disconnected();
    let resume = ResumeRequest {
        resume_token: granted_here.resume_token.clone(),
        attempt_id: "try".to_owned(),
        told_valid_until: None,
        trace_context: None,
    };
    let mut resumed = there.coordinator.resume(&resume).unwrap();
    let resumed_there = granted(&mut resumed).await;
    assert_eq!(account.schedule().await, schedule(), "resume");
    let (lease_id, generation) = (resumed_there.lease_id, Some(resumed_there.generation));
    there.release_saving(lease_id, generation, value("end")).await.unwrap();
    settle().await;
    assert_eq!(account.schedule().await, schedule(), "release with a save");

    let rest = crate::coordinator::HoldRequest { min_hold: MINUTE, ..request("nightly") };
    let resting = there.acquire(rest).await;
    there.release(&resting).await;
    pass(MINUTE * 2).await;
    assert_eq!(account.schedule().await, schedule(), "a rest");
    let handed = here.acquire(request("nightly")).await;
    assert!(handed.token > resting.token);
    assert_eq!(account.schedule().await, schedule(), "a grant elsewhere");
}
