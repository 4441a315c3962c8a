//! Priorities and shares: flags, variables, and what is told of them (S33 to S36).

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::cli::rig::{Ended, Sidecar};

/// Obeys SIGTERM, and says so.
const OBEDIENT: &str =
    "trap 'echo stopped > stopped; exit 0' TERM; echo ready > ready; while :; do sleep 0.02; done";

async fn acquire(sidecar: &Sidecar, words: &[&str]) -> Value {
    let words = [&["acquire"], words, &["--output", "json"]].concat();
    let ended = sidecar.leasehold(&words).await;
    assert!(matches!(ended.code, 0 | 75), "{ended:?}");
    ended.json()
}

#[tokio::test]
async fn s33_a_greater_priority_takes_over_and_the_command_is_told_so() {
    let sidecar = Sidecar::start(&[]).await;
    let version = |number| {
        ["run", "job", "--priority", number, "--yields", "--lease-duration", "15s", "--wait", "60s"]
    };
    let old = [&version("411")[..], &["--", "sh", "-c", OBEDIENT]].concat();
    let old = sidecar.home.command(&old).spawn().unwrap();
    sidecar.home.file("ready").await;
    let new = [&version("412")[..], &["--", "cat", "stopped"]].concat();
    let (old, new) = tokio::join!(Ended::of_child(old), sidecar.leasehold(&new));
    assert_eq!(old.code, 76, "{old:?}");
    assert!(old.stderr.contains("a caller of greater priority (412) takes over"), "{old:?}");
    assert_eq!((new.code, new.stdout.as_str()), (0, "stopped\n"), "{new:?}");
}

#[tokio::test]
async fn s33_busy_says_why_a_priority_waits_and_what_to_do() {
    let sidecar = Sidecar::start(&[]).await;
    acquire(&sidecar, &["firm", "--priority", "1"]).await;
    acquire(&sidecar, &["yielding", "--priority", "7", "--yields"]).await;
    for (name, priority, status, advice) in [
        ("firm", "9", "holder_does_not_yield", "--yields"),
        ("yielding", "7", "not_greater", "greater --priority"),
        ("yielding", "9", "waited_too_short", "longer --wait"),
    ] {
        let busy = acquire(&sidecar, &[name, "--priority", priority]).await["busy"].clone();
        assert_eq!(busy["priority_status"], status, "{busy}");
        assert!(busy["priority_advice"].as_str().unwrap().contains(advice), "{busy}");
        let words = ["run", name, "--priority", priority, "--", "true"];
        let ended = sidecar.leasehold(&words).await;
        assert_eq!(ended.code, 75, "{ended:?}");
        assert!(ended.stderr.contains(advice), "{ended:?}");
    }
    let busy = acquire(&sidecar, &["firm"]).await["busy"].clone();
    assert!(busy["priority_status"].is_null() && busy["priority_advice"].is_null(), "{busy}");
}

#[tokio::test]
async fn s34_s36_ls_show_and_watch_tell_a_holder_s_place() {
    let sidecar = Sidecar::start(&[]).await;
    let place = ["--priority", "7", "--yields", "--share", "queues"];
    for name in ["q1", "q2"] {
        acquire(&sidecar, &[&[name][..], &place].concat()).await;
    }
    let plain = sidecar.leasehold(&["ls", "-o", "wide"]).await.stdout;
    assert!(plain.contains("SHARE") && plain.contains("7, yields"), "{plain}");
    acquire(&sidecar, &["other"]).await;
    let list = ["ls", "--share", "queues", "--output", "json"];
    let listed = sidecar.leasehold(&list).await.json();
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    for lock in listed.as_array().unwrap() {
        assert_eq!((&lock["share"], &lock["priority"]), (&"queues".into(), &7.into()), "{lock}");
        assert!(lock["yields"] == true && !lock["sidecar"].as_str().unwrap().is_empty(), "{lock}");
    }
    let shown = sidecar.leasehold(&["show", "-f", "q1"]).await.stdout;
    for field in ["sidecar", "share", "priority"] {
        assert!(shown.lines().any(|line| line.starts_with(field)), "{field}: {shown}");
    }
    let (mut watch, mut lines) = following(&sidecar, &["watch", "-f", "q1"]);
    let line = lines.next_line().await.unwrap().unwrap();
    assert!(line.contains("; share queues; priority 7, yields"), "{line}");
    watch.kill().await.unwrap();
}

#[tokio::test]
async fn s34_ls_by_sidecar_has_a_line_a_sidecar_and_follows_it() {
    let sidecar = Sidecar::start(&[]).await;
    let first = acquire(&sidecar, &["q1", "--share", "queues"]).await;
    acquire(&sidecar, &["q2", "--share", "queues"]).await;
    acquire(&sidecar, &["other"]).await;
    let words = ["ls", "--by-sidecar", "--output", "json"];
    let all = sidecar.leasehold(&words).await.json();
    let one = &all.as_array().unwrap()[..];
    assert!(one.len() == 1 && one[0]["locks"] == 3, "{all}");
    let counts: Vec<_> = one[0]["shares"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (&it["share"], &it["locks"]))
        .collect();
    assert_eq!(counts, [(&"".into(), &1.into()), (&"queues".into(), &2.into())], "{all}");
    let table = sidecar.leasehold(&["ls", "--by-sidecar", "--names"]).await.stdout;
    let path = first["lock_path"].as_str().unwrap();
    assert!(table.starts_with("SIDECAR") && table.contains(&format!("  {path}")), "{table}");

    let words = ["ls", "--by-sidecar", "--watch", "--share", "queues", "--output", "json"];
    let (mut watch, mut lines) = following(&sidecar, &words);
    let mut next = async || {
        let line = lines.next_line().await.unwrap().unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    let told = next().await;
    assert_eq!(told["changed"]["locks"], 2, "{told}");
    let name = told["changed"]["sidecar"].clone();
    let lease_id = first["lease_id"].as_str().unwrap();
    assert_eq!(sidecar.leasehold(&["release", lease_id]).await.code, 0);
    let told = next().await;
    assert_eq!((&told["changed"]["sidecar"], &told["changed"]["locks"]), (&name, &1.into()));
    watch.kill().await.unwrap();
}

#[tokio::test]
async fn s33_to_s35_a_pod_s_variables_are_the_flags_of_run_and_acquire() {
    let sidecar = Sidecar::start(&[]).await;
    let variables = [
        ("LEASEHOLD_PRIORITY", "7"),
        ("LEASEHOLD_YIELDS", "true"),
        ("LEASEHOLD_SHARE", "queues"),
        ("LEASEHOLD_REBALANCE", "true"),
    ];
    let with = async |words: &[&str], variables: &[(&str, &str)]| {
        let mut command = sidecar.home.command(words);
        command.envs(variables.iter().copied());
        Ended::of(command).await
    };
    assert_eq!(with(&["acquire", "job"], &variables).await.code, 0);
    let lock = sidecar.lock("job").await;
    let place = (&lock["priority"], &lock["yields"], &lock["share"]);
    assert_eq!(place, (&7.into(), &true.into(), &"queues".into()), "{lock}");
    let run = ["run", "mine", "--priority", "8", "--share", "", "--rebalance=false", "--", "true"];
    assert_eq!(with(&run, &variables).await.code, 0);
    let lock = sidecar.lock("mine").await;
    assert_eq!((&lock["priority"], &lock["share"]), (&8.into(), &"".into()), "{lock}");
    let wrong = with(&["run", "job", "--", "true"], &[("LEASEHOLD_PRIORITY", "new")]).await;
    assert!(wrong.code == 64 && wrong.stderr.contains("LEASEHOLD_PRIORITY"), "{wrong:?}");
    for (flags, flag) in [
        (&["--rebalance"][..], "--rebalance: "),
        (&["--permits", "2", "--share", "queues"], "--share: "),
    ] {
        let words = [&["run", "job"][..], flags, &["--", "true"]].concat();
        let refused = sidecar.leasehold(&words).await;
        assert!(refused.code == 64 && refused.stderr.contains(flag), "{refused:?}");
    }
}

type Lines = tokio::io::Lines<BufReader<tokio::process::ChildStdout>>;

fn following(sidecar: &Sidecar, words: &[&str]) -> (tokio::process::Child, Lines) {
    let mut child = sidecar.home.command(words).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}
