//! Processes that die.

use std::process::{Command, Stdio};

use leasehold_client::proto::{
    HoldLeaseRequest, Resume, hold_lease_request::Start, hold_lease_response::Event,
};
use rustix::process::Signal;

use crate::faults::process::{Sidecar, event, kill, patient, program, spec, until};

#[tokio::test]
async fn s14_the_next_waiter_has_the_lock_when_a_client_is_killed() {
    let sidecar = Sidecar::on_azurite("Killed-Client", &[]).await;
    let mut client = Command::new(program())
        .args(["run", "--endpoint", &sidecar.endpoint(), "--function", "nightly", "--"])
        .args(["sleep", "1000"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let rpc = sidecar.client().await;
    let held = async {
        loop {
            let key = spec("nightly").key;
            let record = rpc.get_lock(key).await.unwrap();
            if record.held_here {
                return record.fencing_token.unwrap();
            }
        }
    };
    let held = tokio::time::timeout(crate::faults::process::PATIENCE, held).await.unwrap();
    // At D = 60 s nobody would get it by waiting for the lease to run out.
    let mut waiting = spec("nightly");
    waiting.wait = std::time::Duration::from_secs(30);
    let kill = async {
        while sidecar.log().is_empty() {
            tokio::task::yield_now().await;
        }
        kill(&mut client);
    };
    let (next, ()) = tokio::join!(sidecar.granted(waiting), kill);
    assert!(next.fencing_token > held);
}

#[tokio::test]
async fn s6_the_lease_of_a_killed_sidecar_runs_out_and_the_next_one_has_the_lock() {
    let mut first = Sidecar::on_azurite("Killed-Sidecar", &[]).await;
    let second = Sidecar::on_azurite("Killed-Sidecar", &[]).await;
    let (grant, _stream) = first.hold(patient("nightly")).await;
    first.kill();
    let next = second.granted(patient("nightly")).await;
    assert!(next.fencing_token > grant.fencing_token);
}

#[tokio::test]
async fn s15_a_sidecar_that_is_told_to_end_hands_its_locks_over_at_once() {
    let mut first = Sidecar::on_azurite("Terminated", &[]).await;
    let second = Sidecar::on_azurite("Terminated", &[]).await;
    let (grant, mut stream) = first.hold(spec("nightly")).await;
    first.signal(Signal::TERM);
    loop {
        match event(&mut stream).await {
            Event::Draining(_) => break drop(stream),
            Event::Renewed(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(first.ended().await.code(), Some(0), "{}", first.log());
    // At D = 60 s this is a release, and no lease that ran out.
    let mut waiting = spec("nightly");
    waiting.wait = std::time::Duration::from_secs(20);
    let next = second.granted(waiting).await;
    assert!(next.fencing_token > grant.fencing_token);
}

#[tokio::test]
async fn s15_a_second_signal_ends_a_sidecar_at_once() {
    let mut sidecar = Sidecar::on_azurite("Impatient", &["drain.period=60s"]).await;
    let (_, mut stream) = sidecar.hold(spec("nightly")).await;
    sidecar.signal(Signal::TERM);
    while !matches!(event(&mut stream).await, Event::Draining(_)) {}
    sidecar.signal(Signal::TERM);
    assert_ne!(sidecar.ended().await.code(), Some(0));
}

#[tokio::test]
async fn s16_a_client_resumes_at_a_sidecar_that_was_killed_and_started_again() {
    let mut sidecar = Sidecar::on_azurite("Restarted", &[]).await;
    let (grant, _stream) = sidecar.hold(spec("nightly")).await;
    sidecar.kill();
    sidecar.restart().await;
    let resume = Resume {
        resume_token: grant.resume_token,
        told_valid_until: grant.validity.and_then(|validity| validity.valid_until),
        attempt_id: "attempt-1".to_owned(),
    };
    let request = HoldLeaseRequest { start: Some(Start::Resume(resume)), needs: 0 };
    let mut stream = sidecar.rpc().await.hold_lease(request).await.unwrap().into_inner();
    let Event::Granted(again) = event(&mut stream).await else { panic!("not granted") };
    assert_eq!(again.fencing_token, grant.fencing_token);
    assert_eq!(again.lease_id, grant.lease_id);
}

#[tokio::test]
async fn s16_the_client_library_holds_on_over_a_restart_by_itself() {
    let mut sidecar = Sidecar::on_azurite("Library", &[]).await;
    let guard = sidecar.client().await.hold(spec("nightly")).await.unwrap().granted().unwrap();
    let token = guard.fencing_token();
    sidecar.kill();
    sidecar.restart().await;
    let rpc = sidecar.client().await;
    let key = || spec("nightly").key;
    let back = async {
        while !rpc.get_lock(key()).await.unwrap().held_here {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::faults::process::PATIENCE, back).await.unwrap();
    assert!(guard.is_valid());
    assert_eq!(guard.fencing_token(), token);
    guard.release().await.unwrap();
    until(
        "the lock is free",
        || sidecar.log(),
        || sidecar.log().contains("released").then_some(()),
    )
    .await;
}

/// `drain.hand_over`: the client's own library goes on at the replacement, over the socket and over TCP.
#[tokio::test]
async fn s15_s16_the_client_library_holds_on_over_a_hand_over() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let tcp = format!("listen.tcp={address}");
    let mut sidecar = Sidecar::on_azurite("Handed-Over", &["drain.hand_over=true", &tcp]).await;
    let local = sidecar.client().await;
    let remote = leasehold_client::Client::connect(format!("http://{address}")).await.unwrap();
    let mut guards = Vec::new();
    for (client, function) in [(&local, "by-socket"), (&remote, "by-tcp")] {
        guards.push(client.hold(spec(function)).await.unwrap().granted().unwrap());
    }
    let tokens: Vec<u64> = guards.iter().map(|guard| guard.fencing_token()).collect();
    sidecar.signal(Signal::TERM);
    assert_eq!(sidecar.ended().await.code(), Some(0), "{}", sidecar.log());
    let ended = sidecar.log();
    assert!(!ended.contains("\"lock released\"") && !ended.contains("\"lock lost\""), "{ended}");
    sidecar.restart().await;
    let rpc = sidecar.client().await;
    for function in ["by-socket", "by-tcp"] {
        let key = || spec(function).key;
        let back = async {
            while !rpc.get_lock(key()).await.unwrap().held_here {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(crate::faults::process::PATIENCE, back).await.unwrap();
    }
    for (guard, token) in guards.into_iter().zip(tokens) {
        assert!(guard.is_valid() && guard.fencing_token() == token);
        let released = guard.release().await.unwrap();
        assert_eq!(released.outcome, leasehold_client::ReleaseOutcome::Released);
    }
}
