//! Who may do what with a schedule.

use leasehold::access::{Right, Rule};
use leasehold_client::proto::*;
use tonic::Status;

use crate::grpc::access::{by_token, functions, is_denied, serve, with};
use crate::grpc::listeners::Running;
use crate::grpc::rig::{Account, by_key};
use crate::grpc::schedules_rig::{
    Schedules, complete, run, schedules, spec, standby, subscribe, subscription, trigger,
};

fn client(running: &Running) -> Schedules {
    Schedules::new(running.channel.clone())
}

/// Calls one rpc with a token; whether the rules let it through, whatever came of it then.
async fn is_let_through(running: &Running, rpc: &str, token: &str, run_id: &str) -> bool {
    let (mut client, lock) = (client(running), by_key("nightly"));
    let answer: Result<(), Status> = match rpc {
        "SubscribeSchedule" => {
            client.subscribe_schedule(with(token, subscription("@yearly"))).await.map(drop)
        }
        "CompleteRun" => {
            let request = CompleteRunRequest {
                run_id: run_id.to_owned(),
                outcome: RunOutcome::Succeeded.into(),
                ..CompleteRunRequest::default()
            };
            client.complete_run(with(token, request)).await.map(drop)
        }
        "GetSchedule" => {
            client.get_schedule(with(token, GetScheduleRequest { lock })).await.map(drop)
        }
        "ListSchedules" => {
            let request = ListSchedulesRequest::default();
            client.list_schedules(with(token, request)).await.map(drop)
        }
        "PauseSchedule" => {
            client.pause_schedule(with(token, PauseScheduleRequest { lock })).await.map(drop)
        }
        "ResumeSchedule" => {
            client.resume_schedule(with(token, ResumeScheduleRequest { lock })).await.map(drop)
        }
        "TriggerSchedule" => client.trigger_schedule(with(token, trigger("r-2"))).await.map(drop),
        "PreviewSchedule" => {
            let request = PreviewScheduleRequest {
                spec: Some(spec("@daily")),
                ..PreviewScheduleRequest::default()
            };
            client.preview_schedule(with(token, request)).await.map(drop)
        }
        other => panic!("{other}"),
    };
    !answer.is_err_and(|status| is_denied(&status))
}

#[tokio::test]
async fn each_call_needs_its_right() {
    let sidecar = Account::new().sidecar();
    let rules = Right::ALL.map(|(name, right)| by_token(name, &[right]));
    let running = serve(&sidecar, rules.to_vec()).await;
    let inside = schedules(&sidecar);
    let mut stream = subscribe(&inside, subscription("@yearly")).await;
    standby(&mut stream).await;
    inside.clone().trigger_schedule(trigger("r-1")).await.unwrap();
    let granted = run(&mut stream).await;
    complete(&inside, &granted, RunOutcome::Succeeded).await;
    for (rpc, needed) in [
        ("SubscribeSchedule", Some(Right::Acquire)),
        ("CompleteRun", Some(Right::Acquire)),
        ("GetSchedule", Some(Right::Read)),
        ("ListSchedules", Some(Right::Read)),
        ("PauseSchedule", Some(Right::Schedule)),
        ("ResumeSchedule", Some(Right::Schedule)),
        ("TriggerSchedule", Some(Right::Schedule)),
        ("PreviewSchedule", None),
    ] {
        for (token, right) in Right::ALL {
            let expected = needed.is_none_or(|needed| needed == right);
            let through = is_let_through(&running, rpc, token, &granted.run_id).await;
            assert_eq!(through, expected, "{rpc} with {token}");
        }
    }
}

#[tokio::test]
async fn a_rule_for_functions_is_for_their_schedules() {
    let sidecar = Account::new().sidecar();
    let rights = [Right::Acquire, Right::Read, Right::Schedule];
    let of = |name: &str| Rule { functions: functions(&[name]), ..by_token(name, &rights) };
    let changes = by_token("operator", &[Right::Schedule]);
    let running = serve(&sidecar, vec![of("nightly"), of("other"), changes]).await;
    let inside = schedules(&sidecar);
    let mut stream = subscribe(&inside, subscription("@yearly")).await;
    standby(&mut stream).await;
    inside.clone().trigger_schedule(trigger("r-1")).await.unwrap();
    let granted = run(&mut stream).await;
    complete(&inside, &granted, RunOutcome::Succeeded).await;
    let calls = ["SubscribeSchedule", "CompleteRun", "GetSchedule", "PauseSchedule"];
    for rpc in calls {
        assert!(is_let_through(&running, rpc, "nightly", &granted.run_id).await, "{rpc}");
        assert!(!is_let_through(&running, rpc, "other", &granted.run_id).await, "{rpc}");
    }
    let list = async |token: &str| {
        let request = with(token, ListSchedulesRequest::default());
        client(&running).list_schedules(request).await.unwrap().into_inner().schedules.len()
    };
    assert_eq!((list("nightly").await, list("other").await), (1, 0));

    let lock = by_key("nightly");
    let resume = async |token: &str| {
        let request = with(token, ResumeScheduleRequest { lock: lock.clone() });
        client(&running).resume_schedule(request).await.unwrap().into_inner().schedule
    };
    assert!(resume("operator").await.is_none(), "it may not read the schedule");
    assert!(!resume("nightly").await.unwrap().paused);
}
