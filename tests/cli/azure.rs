//! The same commands on Azure's store, in the emulator, without a sidecar.

use leasehold::testing::Azurite;

use crate::cli::rig::{Ended, Home};

async fn on_azurite(home: &Home, words: &[&str]) -> Ended {
    let (first, rest) = words.split_first().unwrap();
    let all: Vec<&str> = std::iter::once(first)
        .chain(&["--set", "store.azure.create_container=true"])
        .chain(rest)
        .copied()
        .collect();
    with_defaults(home, &all).await
}

async fn with_defaults(home: &Home, words: &[&str]) -> Ended {
    let (first, rest) = words.split_first().unwrap();
    let settings = ["--store", "azure", "--set", "store.azure.connection_string_env=CONNECTION"];
    let words: Vec<&str> = std::iter::once(first).chain(&settings).chain(rest).copied().collect();
    let mut command = home.command(&words);
    command.env("CONNECTION", Azurite::shared().connection_string());
    Ended::of(command).await
}

#[tokio::test]
async fn doctor_run_ls_and_gc_work_on_azure() {
    let home = Home::new();
    let report = on_azurite(&home, &["doctor", "--output", "json"]).await;
    assert_eq!((report.code, report.json()["healthy"].as_bool()), (0, Some(true)), "{report:?}");
    let checks = report.json()["checks"].clone();
    let versions = checks.as_array().unwrap().iter().find(|one| one["check"] == "blob versions");
    assert_eq!(versions.unwrap()["status"], "good", "{report:?}");
    let kind = checks.as_array().unwrap().iter().find(|one| one["check"] == "namespace");
    // The emulator does not tell; accounts do.
    assert!(kind.unwrap()["detail"].as_str().unwrap().starts_with("unknown"), "{report:?}");
    let script = "echo $LEASEHOLD_FENCING_TOKEN; exit 3";
    let ran = on_azurite(&home, &["run", "-f", "job", "--", "sh", "-c", script]).await;
    assert_eq!(ran.code, 3, "{ran:?}");
    let listed = on_azurite(&home, &["ls", "--output", "json"]).await;
    let locks = listed.json();
    assert_eq!(locks.as_array().unwrap().len(), 1, "the doctor left nothing: {locks}");
    assert_eq!(locks[0]["fencing_token"].to_string(), ran.stdout.trim());
    assert_eq!(locks[0]["state"], "available");
    let collected = on_azurite(&home, &["gc", "--idle", "1h", "--output", "json"]).await;
    assert_eq!((collected.code, &collected.json()["kept"]), (0, &1.into()), "{collected:?}");
}

#[tokio::test]
async fn s18_a_mistyped_container_is_an_error_and_not_a_second_one() {
    let home = Home::new();
    let words = ["--set", "paths.container=leasehodl", "-f", "job", "--", "true"];
    let words: Vec<&str> = std::iter::once("run").chain(words).collect();
    let ended = with_defaults(&home, &words).await;
    assert_ne!(ended.code, 0, "{ended:?}");
    assert!(ended.stderr.contains("the container \"leasehodl\" does not exist"), "{ended:?}");
    assert!(ended.stderr.contains("store.azure.create_container"), "{ended:?}");
}

#[tokio::test]
async fn s20_a_refused_key_is_told_without_it() {
    let home = Home::new();
    let good = Azurite::shared().connection_string();
    let (before, after) = good.split_once("AccountKey=").unwrap();
    let (_, after) = after.split_once(';').unwrap();
    let wrong = "c29tZWJvZHktZWxzZQ==";
    std::fs::write(home.path("wrong"), format!("{before}AccountKey={wrong};{after}")).unwrap();
    let file = format!("store.azure.connection_string_file={}", home.path("wrong").display());
    let report = home.leasehold(&["doctor", "--store", "azure", "--set", &file]).await;
    assert_eq!(report.code, 78, "{report:?}");
    assert!(report.stdout.contains("✗ reach"), "{report:?}");
    assert!(!format!("{report:?}").contains(wrong), "{report:?}");
    let ran = home
        .leasehold(&["run", "--store", "azure", "--set", &file, "-f", "job", "--", "true"])
        .await;
    assert_eq!(ran.code, 77, "{ran:?}");
}

/// Leases the blob of a lock without end, as `az storage blob lease acquire` does when it is given no
/// duration.
async fn lease_without_end(lock_path: &str) {
    // An error says that it is there already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let signed = Azurite::shared().sas_url_for("rwdl");
    let (account, query) = signed.split_once('?').unwrap();
    let url = format!("{}/{lock_path}?comp=lease&{query}", account.trim_end_matches('/'));
    let leasing = reqwest::Client::new()
        .put(url)
        .header("x-ms-version", "2021-12-02")
        .header("x-ms-lease-action", "acquire")
        .header("x-ms-lease-duration", "-1")
        .header("content-length", "0");
    let leased = leasing.send().await.unwrap();
    assert_eq!(leased.status().as_u16(), 201, "{}", leased.text().await.unwrap());
}

#[tokio::test]
async fn a_lease_without_end_of_a_stranger_says_so_and_how_to_break_it() {
    let home = Home::new();
    let container = ["--set", "paths.container=strangers", "--set", "admin.allow_break=true"];
    let on = async |words: &[&str]| {
        let (first, rest) = words.split_first().unwrap();
        on_azurite(&home, &[&[*first][..], &container, rest].concat()).await
    };
    let run = ["run", "-f", "job", "--holder", "pod-a", "--label", "team=orders", "--", "true"];
    assert_eq!(on(&run).await.code, 0);
    let before = on(&["show", "-f", "job", "--output", "json"]).await.json();
    lease_without_end(before["lock_path"].as_str().unwrap()).await;
    let stranger =
        "somebody else than Leasehold, with a lease without end, which `leasehold break`";
    let shown = on(&["show", "-f", "job", "--output", "json"]).await.json();
    assert!(shown["holder"].as_str().unwrap().starts_with(stranger), "{shown}");
    assert_eq!(shown["fencing_token"], before["fencing_token"], "the newest grant is what it was");
    assert!(shown["acquired_at"].is_null() && shown["labels"] == serde_json::json!({}), "{shown}");
    let listed = on(&["ls", "-o", "wide"]).await;
    let waited = on(&["run", "-f", "job", "--", "true"]).await;
    assert_eq!((listed.code, waited.code), (0, 75), "{listed:?} {waited:?}");
    assert!(listed.stdout.contains(stranger), "{listed:?}");
    assert!(waited.stderr.contains(&format!("is held by {stranger}")), "{waited:?}");
    let broken = on(&["break", "-f", "job", "--reason", "nobody needs it"]).await;
    assert_eq!(broken.code, 0, "{broken:?}");
    assert_eq!(on(&["run", "-f", "job", "--wait", "1m", "--", "true"]).await.code, 0);
}
