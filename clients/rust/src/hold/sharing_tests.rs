//! What is asked for beside a lock, and told of it: priorities, shares, occurrences (S33 to S36, T1, T2).

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::*;
use crate::fake::{Bench, Words, granted};
use crate::{LockRecord, PriorityStatus, Reservation};

const AT: i64 = 1_800_000_000;

fn at() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(AT.unsigned_abs())
}

fn named() -> LeaseSpec {
    LeaseSpec::new("f").with_occurrence(at()).with_occurrence_max_attempts(3)
}

/// What was asked, and what it comes to when it is answered so.
async fn answered(
    bench: &mut Bench,
    spec: LeaseSpec,
    event: &Value,
) -> (proto::LeaseSpec, Result<Outcome<Hold>, Error>) {
    let holding = tokio::spawn(bench.client.hold(spec).into_future());
    let stream = bench.opened().await;
    stream.tell(event);
    let outcome = holding.await.unwrap();
    let request: proto::HoldLeaseRequest = stream.asked.request();
    let Some(proto::hold_lease_request::Start::Spec(asked)) = request.start else { panic!() };
    (asked, outcome)
}

#[test]
fn s33_a_busy_lock_tells_why_a_priority_waits_and_its_holder_s_place() {
    let known = [
        PriorityStatus::HolderDoesNotYield,
        PriorityStatus::NotGreater,
        PriorityStatus::WaitedTooShort,
        PriorityStatus::BrokenRecently,
        PriorityStatus::Revoked,
        PriorityStatus::CannotBreak,
        PriorityStatus::Reserved,
    ];
    let mut statuses = vec![(0, None), (99, None)];
    statuses.extend((1..).zip(known.map(Some)));
    for (priority_status, expected) in statuses {
        let record = json!({
            "sidecar": "pod-1/7", "share": "queues", "priority": 411, "yields": true,
            "reserved": {"priority": 412, "until": AT},
        });
        let busy = json!({"priority_status": priority_status, "record": record});
        let busy = crate::Busy::from_wire(Words::new("ours").typed("Busy", &busy));
        assert_eq!(busy.priority_status, expected, "{priority_status}");
        let LockRecord { sidecar, share, priority, yields, reserved, .. } = busy.record.unwrap();
        assert_eq!((sidecar.as_str(), share.as_str()), ("pod-1/7", "queues"));
        assert_eq!((priority, yields), (411, true));
        assert_eq!(reserved, Some(Reservation { priority: 412, until: Some(at()) }));
    }
    let asked = LeaseSpec::new("f").with_priority(412).yielding().with_share("queues");
    let asked = asked.rebalancing().into_wire();
    assert_eq!((asked.priority, asked.yields, asked.rebalance), (412, true, true));
    assert_eq!(asked.share, "queues");
}

#[tokio::test(start_paused = true)]
async fn t2_the_attempt_is_told_and_the_outcome_goes_with_the_release() {
    let mut bench = Bench::new();
    let granted = granted(json!({"attempt": 2}));
    let (asked, outcome) = answered(&mut bench, named(), &granted).await;
    let occurrence = Some(prost_types::Timestamp { seconds: AT, nanos: 0 });
    assert_eq!((asked.occurrence_at, asked.occurrence_max_attempts), (occurrence, 3));
    let hold = outcome.unwrap().granted().unwrap();
    assert_eq!(hold.grant().attempt, 2);
    // This sidecar says nothing of an outcome, as one that does not know any (S37).
    let released = hold.release_with_outcome(RunOutcome::Succeeded, None).await;
    assert!(matches!(released, Err(Error::OutcomeNotRecorded(_))), "{released:?}");
    assert_eq!(bench.asked().last().unwrap(), "release 1 SUCCEEDED");
}

#[tokio::test(start_paused = true)]
async fn t2_that_an_occurrence_is_over_is_an_answer() {
    let bench = &mut Bench::new();
    let run = json!({"scheduled_at": AT, "outcome": "SUCCEEDED", "attempt": 2});
    let done = json!({"already_done": {"run": run}});
    let (_, answer) = answered(bench, named(), &done).await;
    let Ok(Outcome::AlreadyDone(run)) = answer else { panic!("{answer:?}") };
    assert_eq!((run.outcome, run.attempt), (Some(RunOutcome::Succeeded), 2));
    assert_eq!(run.scheduled_at, Some(at()));
    let skipped = json!({"skipped": {"watermark": AT}});
    let (_, answer) = answered(bench, named(), &skipped).await;
    assert!(matches!(answer, Ok(Outcome::Skipped { watermark }) if watermark == Some(at())));
    let (_, unasked) = answered(bench, LeaseSpec::new("f"), &done).await;
    assert!(matches!(unasked, Err(Error::Protocol(_))), "{unasked:?}");
    let holding = tokio::spawn(bench.client.hold(named()).until_granted());
    bench.opened().await.tell(&done);
    let over = holding.await.unwrap();
    assert!(matches!(over, Err(Error::OccurrenceOver(_))), "{over:?}");
}
