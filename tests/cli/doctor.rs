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

#[tokio::test]
async fn a_port_that_is_taken_is_told_with_who_has_it() {
    let home = Home::new();
    let server = crate::cli::reach::answering(b"HTTP/1.1 404 Not Found\r\nServer: nginx\r\n\r\n");
    let tcp = format!("listen.tcp={server}");
    let report = home.directly(&["doctor", "--set", &tcp, "--output", "json"]).await;
    assert_eq!((report.code, status(&report.json(), "listen.tcp")), (78, "bad"), "{report:?}");
    assert!(report.stdout.contains("is taken by an HTTP server (nginx)"), "{report:?}");
    // A sidecar that runs already is no mistake.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (tcp, admin) = (format!("listen.tcp={free}"), "admin.listen=");
    let sidecar = crate::cli::rig::Sidecar::start(&[&tcp]).await;
    let words = ["doctor", "--set", &tcp, "--set", admin, "--output", "json"];
    let report = sidecar.home.directly(&words).await;
    assert_eq!((report.code, status(&report.json(), "listen.tcp")), (0, "good"), "{report:?}");
    assert!(report.stdout.contains("is a sidecar that runs already"), "{report:?}");
}

#[tokio::test]
async fn a_key_of_another_certificate_is_told_as_that() {
    let home = Home::new();
    let mut pems = Vec::new();
    for name in ["one", "other"] {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(home.path(&format!("{name}.pem")), made.cert.pem()).unwrap();
        std::fs::write(home.path(&format!("{name}.key")), made.signing_key.serialize_pem())
            .unwrap();
        pems.push(made);
    }
    let doctor = async |key: &str| {
        let set = [
            "listen.tcp=127.0.0.1:0".to_owned(),
            "admin.listen=".to_owned(),
            format!("listen.tls.certificate={}", home.path("one.pem").display()),
            format!("listen.tls.key={}", home.path(key).display()),
        ];
        let mut words = vec!["doctor"];
        for setting in &set {
            words.extend(["--set", setting]);
        }
        home.directly(&[&words[..], &["--output", "json"]].concat()).await
    };
    let report = doctor("one.key").await;
    assert_eq!((report.code, status(&report.json(), "certificate")), (0, "good"), "{report:?}");
    let report = doctor("other.key").await;
    assert_eq!((report.code, status(&report.json(), "certificate")), (78, "bad"), "{report:?}");
    assert!(report.stdout.contains("it is not the key of the certificate"), "{report:?}");
}

/// The doctor on an account at this endpoint, by a key.
async fn on_account(home: &Home, endpoint: &str) -> Ended {
    std::fs::write(home.path("key"), "c2VjcmV0").unwrap();
    let key = format!("store.azure.account_key_file={}", home.path("key").display());
    let endpoint = format!("store.azure.endpoint={endpoint}");
    let (account, free) =
        ("store.azure.account=acc", ["--set", "listen.tcp=127.0.0.1:0", "--set", "admin.listen="]);
    let words = ["doctor", "--store", "azure", "--set", account, "--set", &endpoint, "--set", &key];
    home.leasehold(&[&words[..], &free].concat()).await
}

#[tokio::test]
async fn tls_against_a_plain_port_and_the_reverse_are_told_as_that() {
    let home = Home::new();
    let plain = crate::cli::reach::answering(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    let report = on_account(&home, &format!("https://{plain}/acc")).await;
    assert_eq!(report.code, 69, "{report:?}");
    assert!(report.stdout.contains("does not speak TLS: write http://"), "{report:?}");
    assert!(
        report
            .stdout
            .contains(&format!("acc at 127.0.0.1, port {}, without a proxy", plain.port())),
        "{report:?}"
    );
    let secure = crate::cli::reach::answering(&[0x15, 0x03, 0x03, 0, 2, 2, 40]);
    let report = on_account(&home, &format!("http://{secure}/acc")).await;
    assert_eq!(report.code, 69, "{report:?}");
    assert!(report.stdout.contains("if that port speaks TLS, write https://"), "{report:?}");
}

#[tokio::test]
async fn the_proxy_on_the_way_to_the_account_is_named() {
    let mut home = Home::new();
    home.set("HTTPS_PROXY", "http://me:c2VjcmV0@127.0.0.1:9");
    home.set("NO_PROXY", "");
    let report = on_account(&home, "https://acc.blob.core.windows.net").await;
    assert_eq!(report.code, 69, "{report:?}");
    let named = "port 443, through the proxy http://127.0.0.1:9 (from HTTPS_PROXY)";
    assert!(report.stdout.contains(named), "{report:?}");
    assert!(!report.stdout.contains("c2VjcmV0"), "{report:?}");
}

#[tokio::test]
async fn secrets_that_are_both_set_and_missing_variables_of_a_workload_are_named() {
    let mut home = Home::new();
    home.set("LEASEHOLD_STORE_AZURE_SAS_URL", "https://acc.blob.core.windows.net/?sv=1&sig=eA");
    home.set("LEASEHOLD_STORE_AZURE_CONNECTION_STRING", "UseDevelopmentStorage=true");
    let report = home.leasehold(&["doctor", "--store", "azure"]).await;
    assert_eq!(report.code, 78, "{report:?}");
    let both = "store.azure.connection_string and store.azure.sas_url are both set";
    assert!(report.stdout.contains(both), "{report:?}");
    let home = Home::new();
    let workload = ["store.azure.sign_in=workload_identity", "store.azure.account=acc"];
    let words = ["doctor", "--store", "azure", "--set", workload[0], "--set", workload[1]];
    let report = home.leasehold(&words).await;
    assert_eq!(report.code, 78, "{report:?}");
    let label = "the label azure.workload.identity/use: \"true\"";
    assert!(
        report.stdout.contains("store.azure.tenant_id") && report.stdout.contains(label),
        "{report:?}"
    );
}
