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
async fn s19_what_the_service_refuses_is_64_with_its_flag() {
    let home = Home::new();
    for (flag, value) in
        [("--lease-duration", "5s"), ("--wait", "25h"), ("--max-hold", "0s"), ("--host-id", "No")]
    {
        let ended = home.directly(&["run", "-f", "job", flag, value, "--", "true"]).await;
        assert_eq!(ended.code, 64, "{flag} {value}: {ended:?}");
        assert!(
            ended.stderr.contains(&format!("leasehold: {flag}: ")),
            "{flag} {value}: {ended:?}"
        );
        assert!(!ended.stderr.contains("spec."), "{ended:?}");
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
    assert!(help.stdout.contains("  1        stale"), "{help:?}");
}

#[tokio::test]
async fn help_is_short_or_whole_and_has_examples() {
    let home = Home::new();
    let all = home.leasehold(&["-h"]).await.stdout;
    let titles = ["Work under a lock:", "Look at locks and schedules:", "Repair:"];
    let places: Vec<usize> = titles.iter().map(|title| all.find(title).unwrap()).collect();
    assert!(places.is_sorted(), "{all}");
    let short = home.leasehold(&["run", "-h"]).await.stdout;
    let whole = home.leasehold(&["run", "--help"]).await.stdout;
    assert!(short.lines().count() * 2 < whole.lines().count(), "{short}");
    for text in [&short, &whole] {
        assert!(text.contains("Examples:\n  leasehold run nightly-report --wait 5m -- "), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
    for part in
        ["Exit status:", "Environment:", "LEASEHOLD_ENDPOINT", "Files:", "LEASEHOLD_FENCING_TOKEN"]
    {
        assert!(whole.contains(part) && !short.contains(part), "{part}: {whole}");
    }
}

#[tokio::test]
async fn what_newcomers_type_is_answered_with_what_they_mean() {
    let home = Home::new();
    for words in
        [&["run", "nightly", "./job"][..], &["run", "nightly", "./job", "-x"], &["run", "nightly"]]
    {
        let ended = home.leasehold(words).await;
        assert_eq!(ended.code, 64, "{ended:?}");
        assert!(ended.stderr.contains("leasehold run nightly -- ./job"), "{words:?}: {ended:?}");
    }
    let ended = home.leasehold(&["every", "@daily", "-f", "nightly", "./job"]).await;
    assert!(ended.stderr.contains("leasehold every '30 2 * * *' -f nightly -- ./job"), "{ended:?}");
    // A command that nobody gives is not suggested, others are.
    let ended = home.leasehold(&["run-exe"]).await;
    assert!(ended.code == 64 && !ended.stderr.contains("run-exec"), "{ended:?}");
    let ended = home.leasehold(&["chekpoint"]).await;
    assert!(ended.stderr.contains("'checkpoint'"), "{ended:?}");
}

#[tokio::test]
async fn a_mistake_in_the_command_line_is_json_where_results_are() {
    let home = Home::new();
    for words in [
        &["ls", "--nonsense", "--output", "json"][..],
        &["ls", "-o", "json", "--state", "asleep"],
        &["acquire", "--output=json", "job", "--permits", "0"],
    ] {
        let ended = home.leasehold(words).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (64, ""), "{ended:?}");
        let error = &ended.error_json()["error"];
        assert_eq!(error["exit_code"], 64, "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(!message.starts_with("error") && !message.contains("Usage"), "{message}");
    }
    let text = home.leasehold(&["ls", "--nonsense"]).await.stderr;
    assert!(text.starts_with("error: ") && text.contains("Usage: leasehold ls"), "{text}");
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
async fn names_of_locks_are_completed() {
    let sidecar = crate::cli::rig::Sidecar::start(&[]).await;
    for function in ["nightly", "nightly-eu", "hourly"] {
        assert_eq!(sidecar.leasehold(&["run", "-f", function, "--", "true"]).await.code, 0);
    }
    let script = sidecar.leasehold(&["completions", "bash"]).await.stdout;
    std::fs::write(sidecar.home.path("complete.bash"), script).unwrap();
    let complete = async |words: &str| {
        let line = sidecar.home.command(&[]);
        let mut bash = tokio::process::Command::new("bash");
        let typed = format!(
            "source complete.bash; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _leasehold_locks {} \
             \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; printf '%s ' \"${{COMPREPLY[@]}}\"",
            env!("CARGO_BIN_EXE_leasehold")
        );
        bash.args(["-c", &typed]).current_dir(sidecar.home.path(""));
        bash.envs(line.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ended = Ended::from(bash.output().await.unwrap());
        assert_eq!(ended.stderr, "");
        ended.stdout
    };
    let program = env!("CARGO_BIN_EXE_leasehold");
    assert_eq!(complete(&format!("{program} show ni")).await, "nightly nightly-eu ");
    assert_eq!(complete(&format!("{program} run -f ho")).await, "hourly ");
    let path = complete(&format!("{program} show leasehold/")).await;
    assert!(path.starts_with("leasehold/locks/") && path.contains("/hourly/"), "{path}");
    assert!(complete(&format!("{program} show --o")).await.contains("--output"));
    // Where no sidecar answers, a shell hears nothing.
    let silent = Home::new().leasehold(&["lock-names", "--", "x"]).await;
    assert_eq!((silent.code, silent.stdout.as_str(), silent.stderr.as_str()), (0, "", ""));
    for (shell, part) in [("zsh", ":_leasehold_locks'"), ("fish", "(__leasehold_locks)")] {
        let script = sidecar.leasehold(&["completions", shell]).await.stdout;
        assert!(script.contains(part), "{shell}");
    }
}

#[tokio::test]
async fn manual_pages_are_written_for_every_command() {
    let home = Home::new();
    std::fs::create_dir(home.path("man1")).unwrap();
    let written = home.leasehold(&["man", "man1"]).await;
    assert_eq!(written.code, 0, "{written:?}");
    for (page, parts) in [
        ("leasehold.1", &["check", ".SH \"EXIT STATUS\"", "126"][..]),
        (
            "leasehold-run.1",
            &[
                "forever",
                "is executed as it is given, without a shell",
                ".SH \"EXIT STATUS\"",
                ".SH EXAMPLES",
                ".SH ENVIRONMENT",
                ".SH FILES",
                ".SH \"SEE ALSO\"",
                "leasehold run consumer",
                "LEASEHOLD_ENDPOINT",
            ],
        ),
        ("leasehold-schedule-next.1", &[".SH EXAMPLES", ".SH \"EXIT STATUS\""]),
    ] {
        let text = std::fs::read_to_string(home.path("man1").join(page)).unwrap();
        // What roff takes for a hyphen is escaped.
        let text = text.replace("\\-", "-");
        for part in parts {
            assert!(text.contains(part), "{page} without {part}: {text}");
        }
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
