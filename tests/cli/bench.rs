use crate::cli::rig::Home;

#[tokio::test]
async fn a_short_load_loses_nothing_and_leaves_nothing_over() {
    let home = Home::new();
    let load = "bench --clients 200 --connections 20 --locks 60 --unary 40 --hold 300ms --duration 8s --output json";
    let words: Vec<&str> = load.split(' ').collect();
    let done = home.leasehold(&words).await;
    assert_eq!(done.code, 0, "{done:?}");
    let report = done.json();
    crate::cli::json::has_the_kept_shape("bench", &report);
    for none in ["lost", "failed", "violations"] {
        assert_eq!(report[none], 0, "{none}: {report}");
    }
    assert!(report["grants_by_stream"].as_u64().unwrap() > 60, "{report}");
    assert!(report["grants_by_call"].as_u64().unwrap() > 60, "{report}");
    let after = &report["after"];
    assert_eq!((&after["holds"], &after["waiters"]), (&0.into(), &0.into()), "{report}");
    assert_eq!(report["left_over"], false, "{report}");
    assert!(after["resident_kib"].as_u64().unwrap() > 1_000, "{report}");
}

#[tokio::test]
async fn what_cannot_start_or_measure_says_so() {
    let home = Home::new();
    let short = home.leasehold(&["bench", "--duration", "1s"]).await;
    assert_eq!((short.code, short.stderr.contains("5s")), (64, true), "{short:?}");
    let wrong = home.leasehold(&["bench", "--set", "locks.poll_cap=1"]).await;
    assert!(wrong.code != 0 && wrong.stderr.contains("locks.poll_cap"), "{wrong:?}");
}
