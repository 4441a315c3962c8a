//! Resume tokens and run ids are the client's word, and may be forged (S16): a caller can do no more with one
//! than with the lock's key, and nobody else notices.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use leasehold::access::{Right, Rule};
use leasehold::lock::Layout;
use leasehold_client::proto::hold_lease_request::Start;
use leasehold_client::proto::hold_lease_response::Event;
use leasehold_client::proto::*;
use serde_json::Value;
use tonic::{Code, Status};

use crate::grpc::access::{by_token, client, functions, is_denied, serve, with};
use crate::grpc::listeners::Running;
use crate::grpc::loopholes::{lines_with, log};
use crate::grpc::rig::{Account, spec};
use crate::grpc::schedules_rig::{Schedules, completion, run, standby, subscription, trigger};

/// A token with some of its content changed.
fn forged(token: &str, changes: &[(&str, &str)]) -> String {
    let bytes = URL_SAFE_NO_PAD.decode(token).unwrap();
    let mut content: serde_json::Map<String, Value> = serde_json::from_slice(&bytes).unwrap();
    for (name, value) in changes {
        content.insert((*name).to_owned(), Value::String((*value).to_owned()));
    }
    URL_SAFE_NO_PAD.encode(Value::Object(content).to_string())
}

fn owner_and_guest() -> Vec<Rule> {
    let mut rules = ["owner", "guest"].map(|name| by_token(name, &[Right::Acquire]));
    rules[1].functions = functions(&["sandbox"]);
    rules.to_vec()
}

async fn hold(running: &Running, token: &str, start: Start) -> Result<Event, Status> {
    let request = HoldLeaseRequest { start: Some(start), needs: 0 };
    let mut stream = client(running).hold_lease(with(token, request)).await?.into_inner();
    let event = stream.message().await?.unwrap().event.unwrap();
    // The stream stays, and its hold with it.
    std::mem::forget(stream);
    Ok(event)
}

async fn resume(running: &Running, token: &str, resume_token: String) -> Result<Event, Status> {
    let attempt_id = "x".to_owned();
    let resume = Resume { resume_token, attempt_id, told_valid_until: None };
    hold(running, token, Start::Resume(resume)).await
}

#[tokio::test]
async fn s16_a_resume_token_gives_no_more_than_its_key_where_paths_hide_it() {
    let account = Account::new();
    let sidecar = account.sidecar_with(|settings| settings.host.namespace.layout = Layout::Hashed);
    let running = serve(&sidecar, owner_and_guest()).await;
    let mut tokens = Vec::new();
    for (caller, function) in [("owner", "payroll"), ("guest", "sandbox")] {
        let event = hold(&running, caller, Start::Spec(spec(function))).await.unwrap();
        let Event::Granted(granted) = event else { panic!("{event:?}") };
        tokens.push(granted.resume_token);
    }
    let [theirs, own] = tokens.as_slice() else { panic!() };
    for token in [theirs.clone(), forged(own, &[("function", "payroll")])] {
        assert!(is_denied(&resume(&running, "guest", token).await.unwrap_err()));
    }
    // With the own key it is about the own lock, whose record says whose lease that is.
    let event = resume(&running, "guest", forged(theirs, &[("function", "sandbox")])).await;
    assert!(matches!(event, Ok(Event::Lost(_))), "{event:?}");
    assert!(matches!(resume(&running, "guest", own.clone()).await, Ok(Event::Granted(_))));
}

#[tokio::test]
async fn s16_forged_resumes_keep_nobody_from_the_lock_and_fill_no_log() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let running = serve(&sidecar, owner_and_guest()).await;
    let event = hold(&running, "guest", Start::Spec(spec("sandbox"))).await.unwrap();
    let Event::Granted(granted) = event else { panic!("{event:?}") };
    sidecar.release(&granted.lease_id).await;
    log();
    for number in 0..50 {
        let lease = format!("5b1c6e1a-0b0e-4c7e-9d1c-{number:012x}");
        let token = forged(&granted.resume_token, &[("lease", &lease)]);
        let event = resume(&running, "guest", token).await.unwrap();
        assert!(matches!(event, Event::Lost(_)), "{event:?}");
    }
    assert_eq!(lines_with("lost"), [""; 0]);
    assert_eq!(lines_with("a resume was refused").len(), 1);
    // Nothing is held back for them.
    let once = LeaseSpec { wait: None, ..spec("sandbox") };
    let event = hold(&running, "guest", Start::Spec(once)).await.unwrap();
    assert!(matches!(event, Event::Granted(_)), "{event:?}");
}

#[tokio::test]
async fn s16_t8_a_run_id_gives_no_more_than_its_key_where_paths_hide_it() {
    let account = Account::new();
    let sidecar = account.sidecar_with(|settings| settings.host.namespace.layout = Layout::Hashed);
    let mut rules = owner_and_guest();
    rules[0].rights.push(Right::Schedule);
    let running = serve(&sidecar, rules).await;
    let mut schedules = Schedules::new(running.channel.clone());
    let subscribed = schedules.subscribe_schedule(with("owner", subscription("@yearly"))).await;
    let mut stream = subscribed.unwrap().into_inner();
    standby(&mut stream).await;
    schedules.trigger_schedule(with("owner", trigger("r-1"))).await.unwrap();
    let run = run(&mut stream).await;
    assert!(run.run_id.len() <= 2_048, "{}", run.run_id);
    let (id, _) = run.run_id.split_once('.').expect("the path hides the key");
    let complete = async |caller: &str, run_id: String| {
        let request = CompleteRunRequest { run_id, ..completion(&run, RunOutcome::Succeeded) };
        Schedules::new(running.channel.clone()).complete_run(with(caller, request)).await
    };
    let own = URL_SAFE_NO_PAD
        .encode(r#"{"function":"sandbox","scope":"","mode":"FUNCTION","host_type":"Keeper-A"}"#);
    // With the key that it came with, without any, and with the own one.
    assert!(is_denied(&complete("guest", run.run_id.clone()).await.unwrap_err()));
    assert!(is_denied(&complete("guest", id.to_owned()).await.unwrap_err()));
    for key in [own.as_str(), "made up"] {
        let refused = complete("guest", format!("{id}.{key}")).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
    }
    complete("owner", run.run_id.clone()).await.unwrap();
}
