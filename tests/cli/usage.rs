use crate::cli::rig::{Ended, Home};

#[tokio::test]
async fn nonsense_is_64_and_says_what_would_be_right() {
    let home = Home::new();
    let cases: [(&[&str], &str); 12] = [
        (&["nonsense"], "nonsense"),
        (&[], "Usage"),
        (&["run", "--", "true"], "--function"),
        (&["run", "-f", "job"], "COMMAND"),
        (&["run", "-f", "job", "--wait", "-5s", "--", "true"], "never negative"),
        (&["run", "-f", "job", "--wait", "5", "--", "true"], "30s"),
        (&["run", "-f", "job", "--label", "x", "--", "true"], "KEY=VALUE"),
        (&["run", "-f", "job", "--skip-exit-code", "256", "--", "true"], "256"),
        (&["ls", "--set", "locks.lease_duration=30s"], "--store"),
        (&["ls", "--store", "memory", "--endpoint", "http://127.0.0.1:1"], "--store"),
        (&["ls", "--endpoint", "nonsense"], "http://host:port"),
        (&["ls", "--endpoint", "https://127.0.0.1:1", "--ca-file", "missing.pem"], "missing.pem"),
    ];
    for (words, hint) in cases {
        let ended = home.leasehold(words).await;
        assert_eq!(ended.code, 64, "{words:?}: {ended:?}");
        assert!(ended.stderr.contains(hint), "{words:?}: {ended:?}");
    }
}

#[tokio::test]
async fn s19_what_the_service_refuses_is_64_with_its_field() {
    let home = Home::new();
    for (flag, value) in
        [("--lease-duration", "5s"), ("--wait", "25h"), ("--max-hold", "0s"), ("--host-id", "No")]
    {
        let ended = home.directly(&["run", "-f", "job", flag, value, "--", "true"]).await;
        assert_eq!(ended.code, 64, "{flag} {value}: {ended:?}");
        let field = flag.trim_start_matches('-').replace('-', "_");
        assert!(ended.stderr.contains(&field), "{flag} {value}: {ended:?}");
    }
}

#[tokio::test]
async fn errors_are_json_where_results_are() {
    let home = Home::new();
    let ended = home.leasehold(&["ls", "--output", "json"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (69, ""), "{ended:?}");
    let error: serde_json::Value = serde_json::from_str(&ended.stderr).unwrap();
    assert_eq!(error["error"]["exit_code"], 69);
    assert!(error["error"]["message"].as_str().unwrap().contains("leasehold serve"), "{error}");
}

#[tokio::test]
async fn help_and_version_are_0_and_hide_what_is_not_for_people() {
    let home = Home::new();
    let help = home.leasehold(&["--help"]).await;
    assert_eq!(help.code, 0, "{help:?}");
    assert!(help.stdout.contains("check-token") && !help.stdout.contains("run-exec"), "{help:?}");
    let version = home.leasehold(&["--version"]).await;
    assert_eq!(version.stdout, format!("leasehold {}\n", env!("CARGO_PKG_VERSION")));
    let help = home.leasehold(&["check-token", "--help"]).await;
    assert!(help.stdout.contains("1 stale"), "{help:?}");
}

#[tokio::test]
async fn completions_are_scripts_that_their_shell_can_read() {
    let home = Home::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = home.leasehold(&["completions", shell]).await;
        assert_eq!(script.code, 0, "{script:?}");
        assert!(script.stdout.contains("check-token"), "{shell}");
    }
    let script = home.leasehold(&["completions", "bash"]).await.stdout;
    std::fs::write(home.path("complete.bash"), script).unwrap();
    let mut bash = tokio::process::Command::new("bash");
    bash.arg("-n").arg(home.path("complete.bash"));
    let read = Ended::from(bash.output().await.unwrap());
    assert_eq!((read.code, read.stderr.as_str()), (0, ""));
}

#[tokio::test]
async fn manual_pages_are_written_for_every_command() {
    let home = Home::new();
    std::fs::create_dir(home.path("man1")).unwrap();
    let written = home.leasehold(&["man", "man1"]).await;
    assert_eq!(written.code, 0, "{written:?}");
    for (page, what) in [("leasehold.1", "check"), ("leasehold-run.1", "forever")] {
        let text = std::fs::read_to_string(home.path("man1").join(page)).unwrap();
        assert!(text.contains(what), "{page}: {text}");
    }
    let nowhere = home.leasehold(&["man", "missing"]).await;
    assert!(nowhere.code != 0 && nowhere.stderr.contains("missing"), "{nowhere:?}");
}

#[tokio::test]
async fn a_reader_that_has_gone_is_no_error_to_tell() {
    let home = Home::new();
    let program = env!("CARGO_BIN_EXE_leasehold");
    let mut shell = tokio::process::Command::new("sh");
    shell.args(["-c", &format!("{program} completions zsh | true")]).current_dir(home.path(""));
    let ended = Ended::from(shell.output().await.unwrap());
    assert_eq!(ended.stderr, "");
}
