use crate::cli::rig::{Ended, Home, Sidecar, eventually};

/// Waits until somebody waits for the lock.
async fn waited_for(home: &Home, function: &str) {
    eventually("somebody waits", || async {
        let shown = home.leasehold(&["show", "-f", function, "--output", "json"]).await;
        (shown.code == 0 && shown.json()["waiters_here"] == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_wait_survives_a_crash_of_the_sidecar() {
    let mut sidecar = Sidecar::start(&[]).await;
    for lock in ["one", "two", "three"] {
        let taken = ["acquire", lock, "--lease-duration", "15s"];
        assert_eq!(sidecar.leasehold(&taken).await.code, 0);
    }
    let start = |words: &[&str]| sidecar.home.command(words).spawn().unwrap();
    let forever = start(&["run", "one", "--wait", "forever", "--", "sh", "-c", "echo one"]);
    let long = start(&["run", "two", "--wait", "10m", "--", "sh", "-c", "echo two"]);
    let acquiring = start(&["acquire", "three", "--wait", "10m"]);
    for lock in ["one", "two", "three"] {
        waited_for(&sidecar.home, lock).await;
    }
    let endpoint = sidecar.home.endpoint();
    let words = ["run", "four", "--wait", "10m", "--endpoint", &endpoint, "--", "true"];
    let home = Home::new();
    let mut late = None;
    sidecar
        .crash(async {
            // Nobody is there when it starts.
            let child = home.command(&words).stderr(std::process::Stdio::piped()).spawn().unwrap();
            late = Some(child);
        })
        .await;
    for (child, said) in [(forever, "one\n"), (long, "two\n")] {
        let ended = Ended::of_child(child).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (0, said), "{ended:?}");
    }
    let ended = Ended::of_child(acquiring).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let ended = Ended::of_child(late.unwrap()).await;
    assert_eq!(ended.code, 0, "{ended:?}");
}

#[tokio::test]
async fn a_sidecar_that_stays_away_is_69_when_the_wait_is_over() {
    let home = Home::new();
    let ended = home.leasehold(&["run", "job", "--wait", "1s", "--", "true"]).await;
    assert_eq!(ended.code, 69, "{ended:?}");
    assert!(ended.stderr.contains("trying again while --wait lasts"), "{ended:?}");
    let ended = home.leasehold(&["run", "job", "--", "true"]).await;
    assert!(ended.code == 69 && !ended.stderr.contains("trying again"), "{ended:?}");
}

#[tokio::test]
async fn the_command_s_own_75_and_76_can_be_told_from_ours() {
    let sidecar = Sidecar::start(&[]).await;
    assert_eq!(sidecar.leasehold(&["acquire", "taken"]).await.code, 0);
    let codes = ["--busy-exit-code", "10", "--lost-exit-code", "11"];
    let run = async |lock: &str, command: &[&str]| {
        let words: Vec<&str> = ["run", lock].iter().chain(&codes).chain(command).copied().collect();
        sidecar.leasehold(&words).await
    };
    let busy = run("taken", &["--", "true"]).await;
    assert!(busy.code == 10 && busy.stderr.contains("is held"), "{busy:?}");
    for own in ["75", "76"] {
        let command = format!("exit {own}");
        let ended = run("free", &["--", "sh", "-c", &command]).await;
        assert_eq!(ended.code.to_string(), own, "{ended:?}");
    }
    let lost = run("bounded", &["--max-hold", "3s", "--", "sleep", "60"]).await;
    assert_eq!(lost.code, 11, "{lost:?}");
}
