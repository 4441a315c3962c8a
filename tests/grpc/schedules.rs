//! Schedules: subscribers, their runs, and what operators say.

use std::sync::Arc;
use std::time::Duration;

use leasehold::coordinator::Settings as CoordinatorSettings;
use leasehold::grpc::{Server, Settings, UnixSettings};
use leasehold::lock::{Layout, LockPath};
use leasehold::store::{DocumentPath, LeaseStoreExt as _, SqliteStore};
use leasehold_client::proto::*;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::grpc::listeners::{connect, loopback, on_tcp, run as serve};
use crate::grpc::rig::{Account, by_key, key, reason};
use crate::grpc::schedules_rig::{
    Event, Schedules, complete, completion, event, news, run, schedules, shown, spec, standby,
    subscribe, subscription, trigger,
};

/// Nothing falls due while a test with real time lasts.
const YEARLY: &str = "@yearly";

#[tokio::test(start_paused = true)]
async fn a_run_is_granted_completed_and_recorded_and_the_next_one_follows() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let client = schedules(&sidecar);
    let mut stream = subscribe(&client, subscription("*/10 * * * * *")).await;
    let first = standby(&mut stream).await;
    let understood = first.understood.unwrap();
    assert_eq!(understood.expression, "*/10 * * * * *");
    assert_eq!(understood.time_zone, "UTC");
    assert!(first.last.is_none() && !first.paused && !first.running_elsewhere);

    let granted = run(&mut stream).await;
    assert_eq!(granted.kind(), RunKind::Scheduled);
    assert_eq!(granted.scheduled_at, first.next_at);
    assert_eq!((granted.attempt, granted.max_attempts), (1, 3));
    assert!(granted.local_time.ends_with("+00:00"), "{}", granted.local_time);
    let grant = granted.grant.clone().unwrap();
    assert!(grant.fencing_token > 0 && grant.max_hold_ends.is_some());
    assert!(granted.deadline_at.is_some() && granted.previous.is_none());

    let state = shown(&client).await.state.unwrap();
    let stored = state.run.unwrap();
    assert_eq!(stored.fencing_token, grant.fencing_token);
    assert_eq!((stored.scheduled_at, stored.attempt), (granted.scheduled_at, 1));

    let answered = complete(&client, &granted, RunOutcome::Succeeded).await;
    assert_eq!(answered.result(), CompletionResult::Recorded);
    assert_eq!(answered.retry_at, None);
    let Event::Recorded(recorded) = news(&mut stream).await.unwrap() else { panic!("recorded") };
    assert_eq!(recorded.run_id, granted.run_id);
    assert_eq!(recorded.outcome(), RunOutcome::Succeeded);
    assert_eq!(recorded.result(), CompletionResult::Recorded);
    let again = complete(&client, &granted, RunOutcome::Succeeded).await;
    assert_eq!(again.result(), CompletionResult::Recorded, "a call may be repeated");

    let after = standby(&mut stream).await;
    assert!(after.understood.is_none(), "it was told");
    let last = after.last.unwrap();
    assert_eq!((last.scheduled_at, last.outcome()), (granted.scheduled_at, RunOutcome::Succeeded));
    let second = run(&mut stream).await;
    assert_eq!(second.scheduled_at, answered.next_at);
    assert_eq!(second.previous.unwrap().fencing_token, Some(grant.fencing_token));
}

#[tokio::test(start_paused = true)]
async fn t18_a_schedule_is_shown_paused_resumed_and_run_by_hand() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut client = schedules(&sidecar);
    let unknown = GetScheduleRequest { lock: by_key("nightly") };
    let refused = client.get_schedule(unknown).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::NotFound, "UNKNOWN_SCHEDULE".to_owned()));

    let mut stream = subscribe(&client, subscription(YEARLY)).await;
    let first = standby(&mut stream).await;
    let known = shown(&client).await;
    assert_eq!(known.next_at, first.next_at, "known before the first run");
    assert_eq!((known.state, known.subscribers_here), (None, 1));
    let definition = known.spec.unwrap();
    assert_eq!((definition.max_attempts, definition.grace), (0, None), "T16: nobody gave them");
    assert_eq!(definition.catch_up(), CatchUp::Latest);
    assert!(known.record.is_some() && known.problem.is_empty());

    let lock = by_key("nightly");
    let paused = client.pause_schedule(PauseScheduleRequest { lock: lock.clone() }).await.unwrap();
    assert!(paused.into_inner().schedule.unwrap().paused);
    assert!(standby(&mut stream).await.paused);
    let resumed = client.resume_schedule(ResumeScheduleRequest { lock }).await.unwrap();
    assert!(!resumed.into_inner().schedule.unwrap().paused);

    client.trigger_schedule(trigger("r-1")).await.unwrap();
    let granted = run(&mut stream).await;
    assert_eq!((granted.kind(), granted.request_id.as_str()), (RunKind::Manual, "r-1"));
    assert_eq!(complete(&client, &granted, RunOutcome::FailedFinal).await.retry_at, None);
    let repeated = client.trigger_schedule(trigger("r-1")).await.unwrap().into_inner();
    let schedule = repeated.schedule.unwrap();
    assert!(schedule.waiting_request_ids.is_empty(), "the same run, which is over");
    let ended = &schedule.state.unwrap().ended[0];
    assert_eq!((ended.kind(), ended.outcome()), (RunKind::Manual, RunOutcome::FailedFinal));
    assert_eq!(ended.request_id, "r-1");

    let page = client.list_schedules(ListSchedulesRequest::default()).await.unwrap().into_inner();
    assert_eq!(page.schedules.len(), 1);
    assert_eq!(page.schedules[0].lock_path, schedule.lock_path);
    assert!(page.schedules[0].record.is_none() && page.schedules[0].spec.is_some());
}

#[tokio::test(start_paused = true)]
async fn t18_changes_need_the_operators_word() {
    let account = Account::new();
    let sidecar = account.sidecar_with(|settings| settings.allow_schedule_changes = false);
    let mut client = schedules(&sidecar);
    let mut stream = subscribe(&client, subscription(YEARLY)).await;
    standby(&mut stream).await;
    let lock = by_key("nightly");
    let pause = client.pause_schedule(PauseScheduleRequest { lock: lock.clone() }).await;
    let resume = client.resume_schedule(ResumeScheduleRequest { lock }).await;
    let trigger = client.trigger_schedule(trigger("r-1")).await;
    for refused in [pause.unwrap_err(), resume.unwrap_err(), trigger.unwrap_err()] {
        let expected = (Code::FailedPrecondition, "SCHEDULE_CHANGES_NOT_ENABLED".to_owned());
        assert_eq!(reason(&refused), expected);
        assert!(refused.message().contains("admin.allow_schedule_changes"), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn t20_a_run_whose_stream_is_cancelled_is_abandoned() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let client = schedules(&sidecar);
    let request = subscription("@every 600s");
    let mut first = subscribe(&client, request.clone()).await;
    let granted = run(&mut first).await;
    let mut second = subscribe(&client, request).await;
    assert!(standby(&mut second).await.next_at.is_some());
    drop(first);
    let again = run(&mut second).await;
    assert_eq!((again.scheduled_at, again.attempt), (granted.scheduled_at, 2));
    let late = complete(&client, &granted, RunOutcome::Succeeded).await;
    assert_eq!(late.result(), CompletionResult::Superseded);
}

#[tokio::test(start_paused = true)]
async fn t4_a_run_whose_process_has_gone_is_shown_as_abandoned() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let client = schedules(&sidecar);
    let mut only = subscribe(&client, subscription("@every 600s")).await;
    run(&mut only).await;
    assert!(!shown(&client).await.run_abandoned, "it goes on");
    drop(only);
    tokio::time::sleep(Duration::from_secs(120)).await;
    let after = shown(&client).await;
    assert!(after.run_abandoned && after.state.unwrap().run.is_some());
    // T25: a reset forgets it, also before anybody writes that.
    let (lock, reason) = (by_key("nightly"), "a wrong clock".to_owned());
    let request = ResetScheduleRequest { lock, reason, ..Default::default() };
    client.clone().reset_schedule(request).await.unwrap();
    let after = shown(&client).await;
    assert!(!after.run_abandoned && after.state.unwrap().run.is_none());
}

#[tokio::test(start_paused = true)]
async fn t20_a_drain_tells_a_subscriber_and_sends_it_away() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let client = schedules(&sidecar);
    let mut stream = subscribe(&client, subscription(YEARLY)).await;
    standby(&mut stream).await;
    sidecar.coordinator.drain(Duration::ZERO).await;
    assert!(matches!(news(&mut stream).await, Ok(Event::Draining(_))));
    let ended = news(&mut stream).await.unwrap_err();
    assert_eq!(reason(&ended), (Code::Unavailable, "SHUTTING_DOWN".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn t22_the_layout_webjobs_has_schedules_of_listeners() {
    let account = Account::new();
    let sidecar = account.sidecar_with(|settings| settings.host.namespace.layout = Layout::WebJobs);
    let client = schedules(&sidecar);
    let refused = client.clone().subscribe_schedule(subscription("*/10 * * * * *")).await;
    let refused = refused.map(drop).unwrap_err();
    assert_eq!(reason(&refused), (Code::InvalidArgument, "INVALID_FIELD".to_owned()));
    assert!(refused.message().contains("LISTENER"), "{refused}");

    let mut request = subscription("*/10 * * * * *");
    request.key.as_mut().unwrap().set_mode(LockMode::Listener);
    let mut stream = subscribe(&client, request).await;
    let granted = run(&mut stream).await;
    let answered = complete(&client, &granted, RunOutcome::Succeeded).await;
    assert_eq!(answered.result(), CompletionResult::Recorded);

    let host = sidecar.coordinator.host();
    let path = LockPath::from_parts(
        &host.namespace.container,
        &format!("{}nightly.Listener", host.namespace.host_prefix(&host.host_id)),
    );
    let timer = DocumentPath::TimerStatus(host.namespace.timer_of(&path).unwrap());
    let status = account.store.read_document(timer).await.unwrap().document.unwrap().text;
    let done = granted.scheduled_at.unwrap().seconds;
    let next = leasehold::timetable::UtcSecond(done + 10).to_string().replace('Z', "+00:00");
    assert!(status.contains(&format!(r#""Next":"{next}""#)), "{status}");

    let info = sidecar.client.clone().get_server_info(GetServerInfoRequest::default()).await;
    let features = info.unwrap().into_inner().features;
    assert!(features.iter().any(|feature| feature == "schedules"), "{features:?}");
}

#[tokio::test(start_paused = true)]
async fn t22_a_store_that_dotnet_cannot_share_has_no_schedules_in_the_layout_webjobs() {
    let account = Account::new();
    let folder = tempfile::tempdir().unwrap();
    let embedded =
        SqliteStore::open(&folder.path().join("locks.db"), Arc::clone(&account.clock) as _);
    let webjobs = |settings: &mut CoordinatorSettings| {
        settings.host.namespace.layout = Layout::WebJobs;
    };
    let sidecar = account.sidecar_on(Arc::new(embedded.unwrap()), webjobs);
    let mut client = schedules(&sidecar);
    let lock = by_key("nightly");
    let get = client.get_schedule(GetScheduleRequest { lock: lock.clone() }).await.map(drop);
    let calls = [
        client.subscribe_schedule(subscription(YEARLY)).await.map(drop),
        client.complete_run(CompleteRunRequest::default()).await.map(drop),
        get,
        client.list_schedules(ListSchedulesRequest::default()).await.map(drop),
        client.pause_schedule(PauseScheduleRequest { lock: lock.clone() }).await.map(drop),
        client.resume_schedule(ResumeScheduleRequest { lock }).await.map(drop),
        client.trigger_schedule(trigger("r-1")).await.map(drop),
    ];
    for refused in calls {
        let refused = refused.unwrap_err();
        assert_eq!(reason(&refused), (Code::Unimplemented, "UNSUPPORTED".to_owned()));
        assert!(refused.message().contains("webjobs"), "{refused}");
        assert!(refused.message().contains("storage account"), "{refused}");
    }
    let preview = PreviewScheduleRequest {
        spec: Some(spec("0 12 * * *")),
        count: 2,
        key: Some(key("nightly")),
        after: None,
        needs: 0,
    };
    let shown = client.preview_schedule(preview).await.unwrap().into_inner();
    assert_eq!(shown.occurrences.len(), 2);
    assert_eq!(shown.occurrences[0].starts_at, shown.occurrences[0].at, "without a spread");
    let info = sidecar.client.clone().get_server_info(GetServerInfoRequest::default()).await;
    let features = info.unwrap().into_inner().features;
    assert!(!features.iter().any(|feature| feature.starts_with("schedule")), "{features:?}");
}

#[tokio::test]
async fn a_run_is_granted_to_one_of_two_streams_over_tcp_and_a_socket() {
    let sidecar = Account::new().sidecar();
    let folder = tempfile::tempdir().unwrap();
    let unix = UnixSettings { path: folder.path().join("s"), allowed_uids: Vec::new() };
    let settings = Settings {
        tcp: Some(loopback()),
        unix: Some(unix),
        connections: 8,
        streams_per_connection: 8,
        header_list_bytes: 16_384,
        ..Settings::default()
    };
    let server = Server::bind(settings).await.unwrap();
    let socket = server.endpoints().remove(1);
    let running = serve(server, &sidecar.scheduler, folder, CancellationToken::new()).await;
    let over_tcp = Schedules::new(running.channel.clone());
    let over_unix = Schedules::new(connect(&socket).await);
    let mut streams = [
        subscribe(&over_tcp, subscription(YEARLY)).await,
        subscribe(&over_unix, subscription(YEARLY)).await,
    ];
    for stream in &mut streams {
        assert!(standby(stream).await.understood.is_some());
    }
    over_unix.clone().trigger_schedule(trigger("r-1")).await.unwrap();
    let [tcp, unix] = &mut streams;
    let (granted, runner, other) = tokio::select! {
        granted = run(tcp) => (granted, &over_tcp, &over_unix),
        granted = run(unix) => (granted, &over_unix, &over_tcp),
    };
    assert_eq!(granted.request_id, "r-1");
    let renewed = runner.clone().complete_run(completion(&granted, RunOutcome::Returned)).await;
    assert_eq!(renewed.unwrap().into_inner().result(), CompletionResult::Recorded);
    assert_eq!(shown(other).await.subscribers_here, 2);
}

#[tokio::test]
async fn s16_a_run_whose_connection_breaks_is_resumed() {
    let sidecar = Account::new().sidecar();
    let running = on_tcp(&sidecar, loopback()).await;
    let client = Schedules::new(running.channel.clone());
    let mut stream = subscribe(&client, subscription(YEARLY)).await;
    standby(&mut stream).await;
    client.clone().trigger_schedule(trigger("r-1")).await.unwrap();
    let granted = run(&mut stream).await;
    // Nothing shows that a client on TCP without a boot id is on this kernel.
    drop(stream);
    let grant = granted.grant.clone().unwrap();
    let resume = |run_id: &str, key: LockKey| SubscribeScheduleRequest {
        key: Some(key),
        resume: Some(Resume {
            resume_token: grant.resume_token.clone(),
            told_valid_until: grant.validity.clone().unwrap().valid_until,
            attempt_id: "first".to_owned(),
        }),
        run_id: run_id.to_owned(),
        ..subscription(YEARLY)
    };
    let wrong = resume(&granted.run_id, key("other"));
    let refused = client.clone().subscribe_schedule(wrong).await.unwrap_err();
    assert_eq!(crate::grpc::rig::fields(&refused), ["run_id"], "it is another lock's");

    let mut stream = subscribe(&client, resume(&granted.run_id, key("nightly"))).await;
    let again = loop {
        match event(&mut stream).await.unwrap() {
            Event::Run(run) => break run,
            Event::Standby(_) | Event::Renewed(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((again.run_id.as_str(), again.attempt), (granted.run_id.as_str(), 1));
    let resumed = again.grant.clone().unwrap();
    assert_eq!(resumed.fencing_token, grant.fencing_token);
    assert!(resumed.generation > grant.generation);
    let answered = complete(&client, &again, RunOutcome::Succeeded).await;
    assert_eq!(answered.result(), CompletionResult::Recorded);
}
