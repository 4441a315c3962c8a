//! Checkpoints: read, replaced, and the runner's file.

use rustix::process::Signal;

use crate::cli::rig::{Ended, Home, Sidecar, signal_to};

/// The checkpoint of the lock `job`, and its version.
async fn saved(sidecar: &Sidecar) -> (String, u64) {
    let ended = sidecar.leasehold(&["checkpoint", "get", "-f", "job", "--output", "json"]).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let checkpoint = &ended.json()["checkpoint"];
    let text = checkpoint["text"].as_str().unwrap().to_owned();
    (text, checkpoint["version"].as_u64().unwrap())
}

async fn set(sidecar: &Sidecar, value: &str) -> Ended {
    sidecar.leasehold(&["checkpoint", "set", "-f", "job", "--value", value]).await
}

#[tokio::test]
async fn s23_a_checkpoint_is_set_under_the_lock_and_read_without_it() {
    let sidecar = Sidecar::start(&[]).await;
    let none = sidecar.leasehold(&["checkpoint", "get", "-f", "job"]).await;
    assert_eq!((none.code, none.stdout.as_str()), (66, ""), "{none:?}");
    assert!(none.stderr.contains("no checkpoint"), "{none:?}");
    let first = set(&sidecar, "page 7").await;
    assert_eq!(first.code, 0, "{first:?}");
    assert_eq!(sidecar.lock("job").await["state"], "available", "it was released");
    let read = sidecar.leasehold(&["checkpoint", "get", "-f", "job"]).await;
    assert_eq!((read.code, read.stdout.as_str()), (0, "page 7"), "as it is: {read:?}");
    let (_, before) = saved(&sidecar).await;

    let path = sidecar.lock("job").await["lock_path"].as_str().unwrap().to_owned();
    std::fs::write(sidecar.home.path("bytes"), [0, 255, 10]).unwrap();
    let words = ["checkpoint", "set", "-f", "job", "--file", "bytes", "--output", "json"];
    let second = sidecar.leasehold(&words).await;
    assert!(second.json()["version"].as_u64().unwrap() > before, "{second:?}");
    let words = ["checkpoint", "get", &path, "--file", "copy"];
    let read = sidecar.leasehold(&words).await;
    assert_eq!((read.code, read.stdout.as_str()), (0, ""), "{read:?}");
    assert_eq!(std::fs::read(sidecar.home.path("copy")).unwrap(), [0, 255, 10]);
    let lock = sidecar.lock("job").await;
    assert_eq!((&lock["checkpoint_size"], lock["checkpoint_version"].is_u64()), (&3.into(), true));
}

#[tokio::test]
async fn a_checkpoint_comes_from_standard_input_and_may_be_empty() {
    let sidecar = Sidecar::start(&[]).await;
    // The rig gives an empty standard input.
    let empty = sidecar.leasehold(&["checkpoint", "set", "-f", "job"]).await;
    assert_eq!(empty.code, 0, "{empty:?}");
    assert_eq!(saved(&sidecar).await.0, "");
    let mut words = sidecar.home.command(&["checkpoint", "set", "-f", "job", "--file", "-"]);
    std::fs::write(sidecar.home.path("input"), "from a pipe").unwrap();
    words.stdin(std::fs::File::open(sidecar.home.path("input")).unwrap());
    assert_eq!(Ended::of(words).await.code, 0);
    assert_eq!(saved(&sidecar).await.0, "from a pipe");
}

#[tokio::test]
async fn s24_a_busy_lock_s_checkpoint_is_set_by_its_holder_only() {
    let sidecar = Sidecar::start(&[]).await;
    let granted = sidecar.leasehold(&["acquire", "job", "--output", "json"]).await.json();
    let lease_id = granted["lease_id"].as_str().unwrap();
    let busy = set(&sidecar, "another's").await;
    assert_eq!(busy.code, 75, "{busy:?}");
    let under = |value| {
        let mut words = sidecar.home.command(&["checkpoint", "set", "--value", value]);
        words.env("LEASEHOLD_LEASE_ID", lease_id);
        words
    };
    let ended = Ended::of(under("the holder's")).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(saved(&sidecar).await.0, "the holder's");
    assert_eq!(sidecar.leasehold(&["release", lease_id]).await.code, 0);
    let late = Ended::of(under("too late")).await;
    assert_eq!(late.code, 76, "{late:?}");
    assert_eq!(saved(&sidecar).await.0, "the holder's");
    let granted = sidecar.leasehold(&["acquire", "job", "--output", "json"]).await.json();
    assert_eq!(granted["checkpoint"]["text"], "the holder's");
}

#[tokio::test]
async fn s19_what_is_no_checkpoint_is_64_and_saves_nothing() {
    let sidecar = Sidecar::start(&[]).await;
    let long = "x".repeat(2_049);
    std::fs::write(sidecar.home.path("long"), &long).unwrap();
    let cases: [(&[&str], &str); 6] = [
        (&["checkpoint", "set", "-f", "job", "--value", &long], "2048 bytes"),
        (&["checkpoint", "set", "-f", "job", "--file", "long"], "2048 bytes"),
        (&["checkpoint", "set", "-f", "job", "--file", "missing"], "missing"),
        (&["checkpoint", "set", "-f", "job", "--file", "long", "--value", "x"], "--value"),
        (&["checkpoint", "set", "--value", "x"], "LEASEHOLD_LEASE_ID"),
        (&["checkpoint", "get"], "--function"),
    ];
    for (words, hint) in cases {
        let ended = sidecar.leasehold(words).await;
        assert_eq!(ended.code, 64, "{ended:?}");
        assert!(ended.stderr.contains(hint), "{hint}: {ended:?}");
    }
    assert_eq!(sidecar.lock("job").await["checkpoint_version"], serde_json::Value::Null);
}

/// Counts in the runner's file.
const COUNT: &str = "n=$(cat $LEASEHOLD_CHECKPOINT_FILE 2>/dev/null || echo 0); \
                     printf %s $((n + 1)) > $LEASEHOLD_CHECKPOINT_FILE; echo $n";

#[tokio::test]
async fn s25_a_command_goes_on_where_the_last_one_stopped() {
    let sidecar = Sidecar::start(&[]).await;
    // A cursor that is not the lock's.
    std::fs::write(sidecar.home.path("cursor"), "99").unwrap();
    let run = ["run", "job", "--checkpoint", "cursor", "--", "sh", "-c", COUNT];
    for n in 0..3 {
        let ended = sidecar.leasehold(&run).await;
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (0, format!("{n}\n").as_str()),
            "{ended:?}"
        );
        // As on another machine.
        std::fs::remove_file(sidecar.home.path("cursor")).unwrap();
    }
    let (value, version) = saved(&sidecar).await;
    assert_eq!(value, "3");
    let run = ["run", "job", "--checkpoint", "cursor", "--", "cat", "cursor"];
    let ended = sidecar.leasehold(&run).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "3"), "{ended:?}");
    assert_eq!(saved(&sidecar).await.1, version, "what has not changed is not saved");
}

#[tokio::test]
async fn a_command_that_fails_saves_nothing_and_one_that_asks_for_it_does() {
    let home = Home::new();
    let run = |script| {
        let words = ["run", "job", "--checkpoint", "cursor", "--", "sh", "-c", script];
        home.direct_command(&words)
    };
    let get = async || home.directly_in("checkpoint", &["get", "-f", "job"]).await;
    let ended = Ended::of(run("echo half > cursor; exit 3")).await;
    assert_eq!(ended.code, 3, "{ended:?}");
    assert_eq!(get().await.code, 66);
    let ended = Ended::of(run("printf whole > cursor")).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(get().await.stdout, "whole");
    let ended = Ended::of(run("rm cursor")).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(get().await.stdout, "whole", "no file, nothing to save");
}

#[tokio::test]
async fn the_command_of_run_saves_while_it_works() {
    let sidecar = Sidecar::start(&[]).await;
    let program = env!("CARGO_BIN_EXE_leasehold");
    let script = format!("{program} checkpoint set --value halfway && exit 3");
    let ended = sidecar.leasehold(&["run", "job", "--", "sh", "-c", &script]).await;
    assert_eq!(ended.code, 3, "{ended:?}");
    assert_eq!(saved(&sidecar).await.0, "halfway");
}

#[tokio::test]
async fn s26_a_checkpoint_that_is_too_large_is_not_saved_and_its_lock_is_released() {
    let sidecar = Sidecar::start(&[]).await;
    assert_eq!(set(&sidecar, "before").await.code, 0);
    let script = "head -c 2049 /dev/zero > cursor";
    let run = ["run", "job", "--checkpoint", "cursor", "--", "sh", "-c", script];
    let ended = sidecar.leasehold(&run).await;
    assert_eq!(ended.code, 74, "{ended:?}");
    assert!(ended.stderr.contains("not saved") && ended.stderr.contains("2048 bytes"), "{ended:?}");
    assert_eq!(sidecar.lock("job").await["state"], "available");
    assert_eq!(saved(&sidecar).await.0, "before");
}

#[tokio::test]
async fn s22_a_command_that_is_told_to_stop_saves_before_the_next_one_starts() {
    let sidecar = Sidecar::start(&["admin.allow_break=true"]).await;
    let script = "trap 'printf %s told > cursor; exit 0' TERM; echo ready > ready; \
                  while :; do sleep 0.02; done";
    let run = ["run", "job", "--checkpoint", "cursor", "--", "sh", "-c", script];
    let child = sidecar.home.command(&run).spawn().unwrap();
    sidecar.home.file("ready").await;
    let broken = sidecar.leasehold(&["break", "-f", "job", "--reason", "a new version"]).await;
    assert_eq!(broken.code, 0, "{broken:?}");
    let ended = Ended::of_child(child).await;
    assert_eq!(ended.code, 76, "{ended:?}");
    assert!(ended.stderr.contains("a new version"), "{ended:?}");
    let run = ["run", "job", "--checkpoint", "cursor", "--", "cat", "cursor"];
    let next = sidecar.leasehold(&run).await;
    assert_eq!((next.code, next.stdout.as_str()), (0, "told"), "at once: {next:?}");
}

#[tokio::test]
async fn a_command_that_a_signal_ended_saves_nothing() {
    let sidecar = Sidecar::start(&[]).await;
    let script = "echo half > cursor; echo ready > ready; exec sleep 300";
    let run = ["run", "job", "--checkpoint", "cursor", "--", "sh", "-c", script];
    let child = sidecar.home.command(&run).spawn().unwrap();
    sidecar.home.file("ready").await;
    signal_to(&child, Signal::TERM);
    assert_eq!(Ended::of_child(child).await.code, 143);
    assert_eq!(sidecar.lock("job").await["checkpoint_version"], serde_json::Value::Null);
}

#[tokio::test]
async fn s23_a_layout_without_checkpoints_is_found_out_before_the_command_runs() {
    let home = Home::new();
    let words = ["run", "job", "--set", "paths.layout=webjobs", "--set", "host_id.host_type=test"];
    let rest = ["--checkpoint", "cursor", "--", "touch", "ran"];
    let words: Vec<&str> = words.into_iter().chain(rest).collect();
    let ended = home.directly(&words).await;
    assert_eq!(ended.code, 64, "{ended:?}");
    assert!(ended.stderr.contains("webjobs"), "{ended:?}");
    assert!(!home.path("ran").exists());
}

#[tokio::test]
async fn s28_a_command_knows_its_permit_and_more_than_are_possible_are_refused() {
    let home = Home::new();
    let run = ["run", "job", "--permits", "1", "--", "printenv", "LEASEHOLD_PERMIT"];
    let ended = home.directly(&run).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "0\n"), "{ended:?}");
    for permits in ["0", "33", "-1"] {
        let ended = home.directly(&["run", "job", "--permits", permits, "--", "true"]).await;
        assert_eq!(ended.code, 64, "{ended:?}");
        assert!(ended.stderr.contains("1..=32"), "{ended:?}");
    }
    // Whether or not the version serves permits, this layout does not.
    let words = ["run", "job", "--set", "paths.layout=webjobs", "--set", "host_id.host_type=test"];
    let words: Vec<&str> =
        words.into_iter().chain(["--permits", "2", "--", "touch", "ran"]).collect();
    let ended = home.directly(&words).await;
    assert_eq!(ended.code, 64, "{ended:?}");
    assert!(ended.stderr.contains("permits"), "{ended:?}");
    assert!(!home.path("ran").exists());
}
