use crate::cli::rig::{Ended, Sidecar};

#[tokio::test]
async fn acquire_extend_and_release_tell_what_a_script_needs() {
    let sidecar = Sidecar::start(&[]).await;
    let terms = [
        "acquire",
        "-f",
        "job",
        "-s",
        "a",
        "--max-hold",
        "5m",
        "--min-hold",
        "0s",
        "--lease-duration",
        "15s",
    ];
    let about =
        ["--holder", "me", "--label", "team=orders", "--request-id", "r1", "--output", "json"];
    let words: Vec<&str> = terms.into_iter().chain(about).collect();
    let granted = sidecar.leasehold(&words).await;
    assert_eq!(granted.code, 0, "{granted:?}");
    let grant = granted.json();
    assert!(grant["fencing_token"].as_u64().unwrap() > 0, "{grant}");
    assert!(grant["validity"]["valid_for_seconds"].as_f64().unwrap() <= 14.2, "{grant}");
    assert!(grant["lock_path"].as_str().unwrap().ends_with("/job/a/FUNCTION"), "{grant}");
    let again = sidecar.leasehold(&words).await.json();
    assert_eq!(again["lease_id"], grant["lease_id"], "the same request has the same grant");

    let record =
        sidecar.leasehold(&["show", "-f", "job", "-s", "a", "--output", "json"]).await.json();
    assert_eq!((&record["holder"], &record["labels"]["team"]), (&"me".into(), &"orders".into()));

    let lease_id = grant["lease_id"].as_str().unwrap();
    let extended =
        sidecar.leasehold(&["extend", lease_id, "--max-hold", "1h", "--output", "json"]).await;
    assert_eq!(extended.code, 0, "{extended:?}");
    assert!(extended.json()["max_hold_ends_at"].is_string(), "{extended:?}");

    let released = sidecar.leasehold(&["release", lease_id, "--output", "json"]).await;
    assert_eq!((released.code, released.json()["outcome"].as_str()), (0, Some("released")));
    let again = sidecar.leasehold(&["release", lease_id, "--output", "json"]).await;
    assert_eq!((again.code, again.json()["outcome"].as_str()), (0, Some("already_released")));
    let late = sidecar.leasehold(&["extend", lease_id, "--max-hold", "1h"]).await;
    assert_eq!(late.code, 76, "{late:?}");
}

#[tokio::test]
async fn busy_is_75_and_says_who() {
    let sidecar = Sidecar::start(&[]).await;
    assert_eq!(sidecar.leasehold(&["acquire", "-f", "job", "--holder", "first"]).await.code, 0);
    let busy = sidecar.leasehold(&["acquire", "-f", "job"]).await;
    assert_eq!((busy.code, busy.stdout.as_str()), (75, ""), "{busy:?}");
    assert!(busy.stderr.contains("held by first"), "{busy:?}");
    let busy = sidecar.leasehold(&["acquire", "-f", "job", "--output", "json"]).await;
    assert_eq!(busy.code, 75, "{busy:?}");
    let busy = &busy.json()["busy"];
    assert_eq!((&busy["reason"], &busy["lock"]["holder"]), (&"held".into(), &"first".into()));
}

#[tokio::test]
async fn s20_a_lease_id_comes_by_the_environment_or_standard_input() {
    let sidecar = Sidecar::start(&[]).await;
    for by_input in [false, true] {
        let granted = sidecar.leasehold(&["acquire", "-f", "job"]).await;
        let lease_id = granted.stdout.lines().next().unwrap().strip_prefix("lease_id=").unwrap();
        let released = if by_input {
            std::fs::write(sidecar.home.path("lease"), format!("{lease_id}\n")).unwrap();
            let mut command = sidecar.home.command(&["release", "-"]);
            command.stdin(std::fs::File::open(sidecar.home.path("lease")).unwrap());
            Ended::of(command).await
        } else {
            let mut command = sidecar.home.command(&["release"]);
            command.env("LEASEHOLD_LEASE_ID", lease_id);
            Ended::of(command).await
        };
        assert_eq!((released.code, released.stdout.as_str()), (0, "released\n"), "{released:?}");
    }
    let none = sidecar.leasehold(&["release"]).await;
    assert_eq!(none.code, 64, "{none:?}");
    assert!(none.stderr.contains("LEASEHOLD_LEASE_ID"), "{none:?}");
}

#[tokio::test]
async fn releasing_what_was_lost_says_so() {
    let sidecar = Sidecar::start(&[]).await;
    let granted =
        sidecar.leasehold(&["acquire", "-f", "job", "--max-hold", "1s", "--output", "json"]).await;
    let grant = granted.json();
    crate::cli::rig::eventually("it is lost", || async {
        (sidecar.lock("job").await["state"] == "available").then_some(())
    })
    .await;
    let released = sidecar.leasehold(&["release", grant["lease_id"].as_str().unwrap()]).await;
    assert_eq!(released.code, 76, "{released:?}");
    assert!(released.stdout.contains("MAX_HOLD_REACHED"), "{released:?}");
    let unknown = "00000000-0000-4000-8000-000000000000";
    let released = sidecar.leasehold(&["release", unknown, "--output", "json"]).await;
    assert_eq!(released.code, 76, "{released:?}");
    let error: serde_json::Value = serde_json::from_str(&released.stderr).unwrap();
    assert_eq!(
        (&error["error"]["reason"], &error["error"]["exit_code"]),
        (&"UNKNOWN_LEASE".into(), &76.into())
    );
}

#[tokio::test]
async fn s11_a_lock_that_rests_is_told_as_such() {
    let sidecar = Sidecar::start(&[]).await;
    let granted =
        sidecar.leasehold(&["acquire", "-f", "job", "--min-hold", "1m", "--output", "json"]).await;
    let grant = granted.json();
    let released = sidecar.leasehold(&["release", grant["lease_id"].as_str().unwrap()]).await;
    assert_eq!(released.code, 0, "{released:?}");
    assert!(released.stdout.contains("min_hold"), "{released:?}");
    let busy = sidecar.leasehold(&["acquire", "-f", "job", "--output", "json"]).await;
    assert_eq!(
        (busy.code, busy.json()["busy"]["reason"].as_str()),
        (75, Some("resting")),
        "{busy:?}"
    );
}
