use crate::cli::rig::{Home, Sidecar};

#[tokio::test]
async fn a_sidecar_that_is_ready_is_0() {
    let sidecar = Sidecar::start(&[]).await;
    let probed = sidecar.leasehold(&["probe"]).await;
    assert_eq!((probed.code, probed.stdout.as_str()), (0, "ready\n"), "{probed:?}");
    let service = sidecar.leasehold(&["probe", "--service", "leasehold.v1.LeaseService"]).await;
    assert_eq!(service.code, 0, "{service:?}");
    let other = sidecar.leasehold(&["probe", "--service", "another"]).await;
    assert_eq!(other.code, 69, "{other:?}");
    assert!(other.stderr.contains("leasehold.v1.LeaseService"), "{other:?}");
}

#[tokio::test]
async fn a_sidecar_that_is_not_there_is_69_and_nonsense_is_64() {
    let home = Home::new();
    for words in [&["probe"][..], &["probe", "--live"], &["probe", "--wait", "300ms"]] {
        let probed = home.leasehold(words).await;
        assert_eq!(probed.code, 69, "{probed:?}");
        assert!(probed.stderr.contains("leasehold serve"), "{probed:?}");
    }
    let nonsense = home.leasehold(&["probe", "--endpoint", "localhost", "--wait", "1h"]).await;
    assert_eq!(nonsense.code, 64, "it does not wait for what cannot get better: {nonsense:?}");
}

#[tokio::test]
async fn s18_a_sidecar_that_cannot_use_its_store_is_not_ready() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = format!("http://{}/acc", free.local_addr().unwrap());
    drop(free);
    let home = Home::new();
    std::fs::write(home.path("key"), "c2VjcmV0").unwrap();
    let settings = [
        "store.kind=azure".to_owned(),
        "store.azure.account=acc".to_owned(),
        format!("store.azure.endpoint={nowhere}"),
        format!("store.azure.account_key_file={}", home.path("key").display()),
        format!("listen.unix={}", home.path("sidecar.sock").display()),
        "listen.tcp=".to_owned(),
        "admin.listen=".to_owned(),
    ];
    let mut words = vec!["serve"];
    for setting in &settings {
        words.extend(["--set", setting]);
    }
    let mut sidecar = home.command(&words).spawn().unwrap();
    let probed = crate::cli::rig::eventually("it answers", || async {
        let probed = home.leasehold(&["probe"]).await;
        (!probed.stderr.contains("no sidecar answers")).then_some(probed)
    })
    .await;
    assert_eq!(probed.code, 69, "{probed:?}");
    assert!(probed.stderr.contains("not ready"), "{probed:?}");
    let live = home.leasehold(&["probe", "--live"]).await;
    assert_eq!((live.code, live.stdout.as_str()), (0, "alive\n"), "{live:?}");
    let acquired = home.leasehold(&["acquire", "-f", "job"]).await;
    assert_eq!(acquired.code, 69, "{acquired:?}");
    sidecar.kill().await.unwrap();
}
