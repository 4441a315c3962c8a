use std::os::unix::fs::PermissionsExt as _;

use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::cli::rig::{Ended, Home};

fn status<'a>(report: &'a serde_json::Value, check: &str) -> &'a str {
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().find(|one| one["check"] == check);
    found.unwrap_or_else(|| panic!("no check {check} in {report}"))["status"].as_str().unwrap()
}

#[tokio::test]
async fn an_embedded_store_is_well_and_nothing_is_left_in_it() {
    let home = Home::new();
    let report = home.directly(&["doctor", "--output", "json"]).await;
    assert_eq!(report.code, 0, "{report:?}");
    let report = report.json();
    assert_eq!(report["healthy"], true);
    assert_eq!(status(&report, "host id"), "warning", "nobody named the kind of host");
    for check in ["configuration", "file", "disk", "store", "reach", "clocks", "delete a lock"] {
        assert_eq!(status(&report, check), "good", "{report}");
    }
    let listed = home.directly(&["ls", "--output", "json"]).await;
    assert_eq!(listed.json(), serde_json::json!([]));
    let text = home.directly(&["doctor"]).await;
    assert!(text.stdout.starts_with("✓ configuration"), "{text:?}");
}

#[tokio::test]
async fn mistakes_of_the_configuration_are_78() {
    let home = Home::new();
    let report = home.leasehold(&["doctor", "--set", "locks.lease_duration=5s"]).await;
    assert_eq!(report.code, 78, "{report:?}");
    assert!(
        report.stdout.contains("✗ configuration") && report.stdout.contains("15s"),
        "{report:?}"
    );
    let report = home.leasehold(&["doctor", "--config", "missing.toml", "--output", "json"]).await;
    assert_eq!((report.code, report.json()["healthy"].as_bool()), (78, Some(false)), "{report:?}");
}

#[tokio::test]
async fn a_file_that_is_no_store_is_78_and_is_left_alone() {
    let home = Home::new();
    std::fs::write(home.store(), "this is a text of somebody else's, long enough to be looked at")
        .unwrap();
    std::fs::set_permissions(home.store(), std::fs::Permissions::from_mode(0o600)).unwrap();
    let report = home.directly(&["doctor"]).await;
    assert_eq!(report.code, 78, "{report:?}");
    assert!(report.stdout.contains("is not a Leasehold database"), "{report:?}");
    assert!(std::fs::read_to_string(home.store()).unwrap().starts_with("this is a text"));
}

#[tokio::test]
async fn s20_a_file_that_others_may_read_is_78() {
    let home = Home::new();
    assert_eq!(home.directly(&["doctor"]).await.code, 0);
    std::fs::set_permissions(home.store(), std::fs::Permissions::from_mode(0o644)).unwrap();
    let report = home.directly(&["doctor", "--output", "json"]).await;
    assert_eq!((report.code, status(&report.json(), "store")), (78, "bad"), "{report:?}");
    assert!(report.stdout.contains("chmod 600"), "{report:?}");
}

#[tokio::test]
async fn s18_an_account_that_is_not_there_is_69() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("store.azure.endpoint=http://{}/acc", free.local_addr().unwrap());
    drop(free);
    let home = Home::new();
    std::fs::write(home.path("key"), "c2VjcmV0").unwrap();
    let key = format!("store.azure.account_key_file={}", home.path("key").display());
    let account = "store.azure.account=acc";
    let words = ["doctor", "--store", "azure", "--set", account, "--set", &endpoint, "--set", &key];
    let report = home.leasehold(&words).await;
    assert_eq!(report.code, 69, "{report:?}");
    assert!(report.stdout.contains("✗ reach"), "{report:?}");
    assert!(!report.stdout.contains("c2VjcmV0"), "{report:?}");
}

#[tokio::test]
async fn the_store_refuses_what_the_sidecar_holds() {
    let sidecar = crate::cli::rig::Sidecar::start(&[]).await;
    let report = sidecar.home.directly(&["doctor", "--exclusion", "--output", "json"]).await;
    assert_eq!(report.code, 0, "{report:?}");
    for check in ["exclusion", "release through the sidecar"] {
        assert_eq!(status(&report.json(), check), "good", "{report:?}");
    }
    let listed = sidecar.leasehold(&["ls", "--output", "json"]).await;
    assert_eq!(listed.json(), serde_json::json!([]), "nothing is left");
}

#[tokio::test]
async fn a_sidecar_with_another_store_excludes_nobody_here_and_that_is_78() {
    let sidecar = crate::cli::rig::Sidecar::start(&[]).await;
    let other = format!("store.embedded.path={}", sidecar.home.path("other.db").display());
    let words = ["doctor", "--exclusion", "--store", "embedded", "--set", &other];
    let report = sidecar.leasehold(&words).await;
    assert_eq!(report.code, 78, "{report:?}");
    assert!(report.stdout.contains("✗ exclusion"), "{report:?}");
    assert!(report.stdout.contains("different stores"), "{report:?}");
}

#[tokio::test]
async fn exclusion_waits_for_a_sidecar_that_is_being_replaced() {
    let mut sidecar = crate::cli::rig::Sidecar::start(&[]).await;
    let words = ["doctor", "--exclusion", "--wait", "10m"];
    let mut command = sidecar.home.direct_command(&words);
    let mut waiting = None;
    sidecar
        .crash(async {
            let mut child = command.spawn().unwrap();
            let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
            let line = said.next_line().await.unwrap().unwrap();
            assert!(line.contains("trying again while --wait lasts"), "{line}");
            waiting = Some((child, said));
        })
        .await;
    let (child, _said) = waiting.unwrap();
    let report = Ended::of_child(child).await;
    assert_eq!(report.code, 0, "{report:?}");
    assert!(report.stdout.contains("✓ release through the sidecar"), "{report:?}");
}

#[tokio::test]
async fn the_wait_for_a_sidecar_is_bounded_and_is_for_one() {
    let home = Home::new();
    let report = home.directly(&["doctor", "--exclusion", "--wait", "1s"]).await;
    assert_eq!(report.code, 69, "{report:?}");
    assert!(report.stdout.contains("✗ exclusion"), "{report:?}");
    let report = home.directly(&["doctor", "--wait", "1s"]).await;
    assert_eq!(report.code, 64, "{report:?}");
    assert!(report.stderr.contains("--exclusion"), "{report:?}");
}

#[tokio::test]
async fn without_a_sidecar_exclusion_is_69_and_its_flags_need_the_flag() {
    let home = Home::new();
    let report = home.directly(&["doctor", "--exclusion"]).await;
    assert_eq!(report.code, 69, "{report:?}");
    assert!(report.stdout.contains("✗ exclusion"), "{report:?}");
    let report = home.directly(&["doctor", "--endpoint", &home.endpoint()]).await;
    assert_eq!(report.code, 64, "{report:?}");
    assert!(report.stderr.contains("--exclusion"), "{report:?}");
}
