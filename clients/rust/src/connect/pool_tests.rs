//! Over which connection a call goes: what a sidecar granted is known there alone (S37, S38).

use serde_json::{Value, json};
use tonic::Status;

use crate::fake::{Bench, granted, run, seconds, soon, too_old};
use crate::{LeaseSpec, Reason, ScheduleSpec, Subscription};

/// Over which connections these calls came.
fn connections(bench: &Bench, call: &str) -> Vec<usize> {
    bench.sidecar.calls(call).iter().map(|asked| asked.connection).collect()
}

#[tokio::test(start_paused = true)]
async fn more_streams_than_a_connection_carries_get_another_one() {
    let mut bench = Bench::new();
    let mut held = Vec::new();
    for _ in 0..=100 {
        held.push(bench.held().await);
    }
    assert_eq!(bench.client.connections(), 2);
    held.clear();
    tokio::time::sleep(seconds(1)).await;
    assert_eq!(bench.client.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn s37_a_sidecar_that_is_too_old_is_left_and_what_it_holds_is_ended_there() {
    let mut bench = Bench::new();
    let (kept, _stream, _events) = bench.held().await;
    let mut runs = bench.client.runs(Subscription::new("f", ScheduleSpec::cron("@daily")));
    let waiting = tokio::spawn(async move { runs.next().await });
    let subscribed = bench.opened().await;
    let spec = LeaseSpec::new("f").with_wait(seconds(60));
    let holding = tokio::spawn(bench.client.hold(spec).into_future());
    bench.opened().await.fail(too_old());
    let stream = bench.opened().await;
    stream.tell(&granted(Value::Null));
    let newer = holding.await.unwrap().unwrap().granted().unwrap();
    assert_eq!((subscribed.asked.connection, stream.asked.connection), (1, 2));
    subscribed.tell(&run(Value::Null));
    waiting.await.unwrap().unwrap().succeeded().await.unwrap();
    assert_eq!(connections(&bench, "complete_run"), [1]);
    for hold in [newer, kept] {
        hold.release().await.unwrap();
    }
    assert_eq!(connections(&bench, "release_lease"), [2, 1]);
}

#[tokio::test(start_paused = true)]
async fn s37_a_resume_leaves_a_sidecar_that_is_too_old_and_the_hold_is_released_where_it_went() {
    let mut bench = Bench::new();
    let (hold, stream, _events) = bench.held().await;
    stream.fail(Status::unavailable("shutting down"));
    bench.opened().await.fail(too_old());
    let stream = bench.opened().await;
    assert_eq!(stream.asked.connection, 2);
    stream.tell(&granted(json!({"generation": 2})));
    hold.release().await.unwrap();
    assert_eq!(connections(&bench, "release_lease"), [2]);
}

#[tokio::test(start_paused = true)]
async fn s37_a_call_is_asked_again_in_its_wait_where_its_release_would_go() {
    let bench = Bench::new();
    bench.sidecar.always("acquire_lease", Err(too_old()));
    let error = bench.client.acquire(LeaseSpec::new("f")).await.unwrap_err();
    assert_eq!(error.reason(), Some(&Reason::Unsupported), "{error}");
    let spec = LeaseSpec::new("f").with_wait(seconds(60));
    let granting = async {
        tokio::time::sleep(seconds(1)).await;
        bench.sidecar.always("acquire_lease", Ok(granted(Value::Null)));
    };
    let (granted, ()) = tokio::join!(bench.client.acquire(spec), granting);
    assert!(granted.unwrap().granted().is_some());
    let asked = connections(&bench, "acquire_lease");
    assert!(asked.len() > 3 && asked.iter().all(|connection| *connection == 1), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn what_was_acquired_beside_many_that_wait_is_ended_where_it_was_granted() {
    let bench = Bench::new();
    let client = &bench.client;
    let acquire = || {
        let (client, spec) = (client.clone(), LeaseSpec::new("f").with_wait(seconds(60)));
        tokio::spawn(async move { client.acquire(spec).await.unwrap().granted().unwrap().lease_id })
    };
    let waiting: Vec<_> = (0..=100).map(|_| acquire()).collect();
    tokio::time::sleep(seconds(1)).await;
    let asked = connections(&bench, "acquire_lease");
    assert_eq!((asked.len(), asked.iter().filter(|it| **it == 2).count()), (101, 1));
    for (lease, connection) in asked.iter().enumerate() {
        let lease_id = format!("{connection}-{lease}");
        bench.sidecar.answer("acquire_lease", &granted(json!({"lease_id": lease_id})));
    }
    for acquired in waiting {
        let lease_id = soon(acquired).await.unwrap();
        for call in ["get_hold", "report_progress", "extend_lease", "save_checkpoint"] {
            bench.sidecar.refuse(call, Status::unavailable("the store is away"));
        }
        client.get_hold(lease_id.as_str()).await.unwrap_err();
        client.report_progress(lease_id.as_str()).await.unwrap_err();
        client.extend(lease_id.as_str(), seconds(60)).await.unwrap_err();
        client.save_checkpoint(lease_id.as_str(), "x").await.unwrap_err();
        client.release(lease_id.as_str()).await.unwrap();
        let where_it_is = lease_id.as_bytes()[0] - b'0';
        let asked = bench.sidecar.taken();
        let ended = asked.iter().filter(|asked| asked.call != "acquire_lease");
        let ended: Vec<_> = ended.map(|asked| asked.connection).collect();
        assert_eq!(ended, [usize::from(where_it_is); 5], "{lease_id}");
    }
    assert_eq!(client.connections(), 1, "none is kept for what is released");
}
