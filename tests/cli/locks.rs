use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::cli::rig::Sidecar;

async fn acquire(sidecar: &Sidecar, function: &str) -> serde_json::Value {
    let granted = sidecar.leasehold(&["acquire", "-f", function, "--output", "json"]).await;
    assert_eq!(granted.code, 0, "{granted:?}");
    granted.json()
}

#[tokio::test]
async fn ls_lists_all_or_what_is_held_or_what_has_a_prefix() {
    let sidecar = Sidecar::start(&[]).await;
    acquire(&sidecar, "held").await;
    for function in ["free-1", "free-2"] {
        let ended = sidecar.leasehold(&["run", "-f", function, "--", "true"]).await;
        assert_eq!(ended.code, 0, "{ended:?}");
    }
    let count = async |words: &[&str]| {
        let all: Vec<&str> = ["ls", "--output", "json"].iter().chain(words).copied().collect();
        let listed = sidecar.leasehold(&all).await;
        assert_eq!(listed.code, 0, "{listed:?}");
        listed.json().as_array().unwrap().len()
    };
    assert_eq!(count(&[]).await, 3);
    assert_eq!(count(&["--state", "held"]).await, 1);
    assert_eq!(count(&["--state", "held", "--state", "available"]).await, 3);
    assert_eq!(count(&["--label", "team=orders"]).await, 0);
    let labelled = ["acquire", "labelled", "--label", "team=orders", "--label", "tier=gold"];
    assert_eq!(sidecar.leasehold(&labelled).await.code, 0);
    assert_eq!(count(&["--label", "team=orders"]).await, 1);
    assert_eq!(count(&["--label", "team=orders", "--label", "tier=plain"]).await, 0);
    assert_eq!(count(&["--prefix", "leasehold/locks/"]).await, 4);
    assert_eq!(count(&["--host-id", "somebody-else"]).await, 0);
    let table = sidecar.leasehold(&["ls"]).await.stdout;
    let held = table.lines().find(|line| line.starts_with("held/")).unwrap();
    assert!(table.starts_with("under leasehold/locks/") && held.contains("  held  "), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    let wide = sidecar.leasehold(&["ls", "-o", "wide"]).await.stdout;
    assert!(wide.starts_with("LOCK") && wide.contains("SIDECAR"), "{wide}");
    assert!(
        wide.lines().any(|line| line.starts_with("leasehold/locks/") && line.contains("/held/"))
    );
    let direct =
        sidecar.home.directly(&["ls", "--set", "host_id.host_type=test", "--output", "json"]).await;
    assert_eq!(direct.json().as_array().unwrap().len(), 4, "{direct:?}");
}

#[tokio::test]
async fn show_finds_a_lock_by_name_and_by_path() {
    let sidecar = Sidecar::start(&[]).await;
    let grant = acquire(&sidecar, "job").await;
    let path = grant["lock_path"].as_str().unwrap();
    let by_path = sidecar.leasehold(&["show", path, "--output", "json"]).await.json();
    let by_name = sidecar.lock("job").await;
    assert_eq!(by_path, by_name);
    assert_eq!((&by_name["state"], &by_name["held_here"]), (&"held".into(), &true.into()));
    assert_eq!(by_name["fencing_token"], grant["fencing_token"]);
    let listener =
        sidecar.leasehold(&["show", "-f", "job", "--mode", "listener", "--output", "json"]).await;
    assert_eq!(listener.json()["state"], "available", "another lock of the same name");
    let text = sidecar.leasehold(&["show", path]).await.stdout;
    assert!(text.contains("state") && text.contains("held"), "{text}");
    let both = sidecar.leasehold(&["show", path, "-f", "job"]).await;
    assert_eq!(both.code, 64, "{both:?}");
}

#[tokio::test]
async fn watch_tells_each_change_as_an_object_a_line() {
    let sidecar = Sidecar::start(&[]).await;
    let mut command = sidecar.home.command(&["watch", "-f", "job", "--output", "json"]);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next_state = async || {
        let line = lines.next_line().await.unwrap().expect("a line");
        let record: serde_json::Value = serde_json::from_str(&line).unwrap();
        record["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(next_state().await, "available");
    acquire(&sidecar, "job").await;
    while next_state().await != "held" {}
    child.kill().await.unwrap();
}

#[tokio::test]
async fn ls_watch_tells_each_change_of_each_lock_as_an_object_a_line() {
    let sidecar = Sidecar::start(&[]).await;
    acquire(&sidecar, "held").await;
    let mut command = sidecar.home.command(&["ls", "--watch", "--output", "json"]);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line = lines.next_line().await.unwrap().expect("a line");
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        let lock = &event["changed"];
        let path = lock["lock_path"].as_str().unwrap().to_owned();
        (path, lock["state"].as_str().unwrap().to_owned())
    };
    let (path, state) = next().await;
    assert!(path.contains("/held/") && state == "held", "{path} {state}");
    let ended = sidecar.leasehold(&["run", "-f", "job", "--", "true"]).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    while next().await.1 != "available" {}
    child.kill().await.unwrap();
}

#[tokio::test]
async fn info_says_what_the_sidecar_is() {
    let sidecar = Sidecar::start(&["admin.allow_break=true", "limits.holds=7"]).await;
    let info = sidecar.leasehold(&["info", "--output", "json"]).await.json();
    assert_eq!((&info["layout"], &info["limits"]["holds"]), (&"readable".into(), &7.into()));
    let features = info["features"].as_array().unwrap();
    assert!(features.contains(&"break".into()) && features.contains(&"wait-without-end".into()));
    let text = sidecar.leasehold(&["info"]).await.stdout;
    assert!(text.contains("version") && text.contains("wait-without-end"), "{text}");
    assert!(text.contains("callers on this one machine only"), "{text}");
}

#[tokio::test]
async fn path_shows_where_a_lock_is_and_why() {
    let sidecar = Sidecar::start(&[]).await;
    let shown = sidecar.leasehold(&["path", "-f", "a b", "-s", "c", "--output", "json"]).await;
    let shown = shown.json();
    assert_eq!(shown["provider"], "host-type");
    assert_eq!(shown["layout"], "readable");
    assert_eq!(shown["host_type"], "test");
    let path = shown["lock_path"].as_str().unwrap();
    assert!(path.ends_with("/a%20b/c/FUNCTION"), "{path}");
    let overridden = sidecar.leasehold(&["path", "-f", "a", "--host-id", "other"]).await;
    assert!(overridden.stdout.contains("leasehold/locks/other/a/"), "{overridden:?}");
}

#[tokio::test]
async fn s5_check_token_tells_current_stale_and_unknown_by_its_exit_code() {
    let sidecar = Sidecar::start(&[]).await;
    let token = acquire(&sidecar, "job").await["fencing_token"].as_u64().unwrap();
    for (token, code, status) in
        [(token, 0, "current"), (token - 1, 1, "stale"), (token + 1, 2, "unknown")]
    {
        let token = token.to_string();
        let words = ["check-token", "-f", "job", "--token", &token, "--output", "json"];
        let checked = sidecar.leasehold(&words).await;
        assert_eq!(checked.code, code, "{checked:?}");
        assert_eq!(checked.json()["status"], status);
    }
}

#[tokio::test]
async fn s17_a_break_needs_leave_a_reason_and_for_now_a_word_more() {
    let sidecar = Sidecar::start(&[]).await;
    acquire(&sidecar, "job").await;
    let refused = sidecar.leasehold(&["break", "-f", "job", "--reason", "test"]).await;
    assert_eq!(refused.code, 77, "{refused:?}");
    assert!(refused.stderr.contains("admin.allow_break"), "{refused:?}");
    assert_eq!(sidecar.leasehold(&["break", "-f", "job"]).await.code, 64, "no reason");
    let unasked = sidecar.leasehold(&["break", "-f", "job", "--reason", "test", "--now"]).await;
    assert_eq!(unasked.code, 64, "{unasked:?}");
    assert!(unasked.stderr.contains("two holders are possible"), "{unasked:?}");

    let allowed = Sidecar::start(&["admin.allow_break=true"]).await;
    acquire(&allowed, "job").await;
    let words = ["break", "-f", "job", "--reason", "test", "--by", "me", "--output", "json"];
    let broken = allowed.leasehold(&words).await;
    assert_eq!(broken.code, 0, "{broken:?}");
    let broken = broken.json();
    assert_eq!(broken["outcome"], "breaking");
    assert!(broken["free_in_seconds"].as_f64().unwrap() > 0.0, "{broken}");
    assert_eq!(broken["lock"]["break_note"]["broken_by"], "me", "{broken}");
    // S17: it says who has the lock, and is for that grant only.
    acquire(&allowed, "other").await;
    let words = ["break", "-f", "other", "--reason", "test", "--token", "1"];
    let late = allowed.leasehold(&words).await;
    assert_eq!(late.code, 75, "{late:?}");
    assert!(late.stderr.contains("another holder"), "{late:?}");
    let shown = allowed.leasehold(&["break", "-f", "other", "--reason", "test"]).await;
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(shown.stderr.contains("; token "), "{shown:?}");
    assert!(shown.stdout.contains("available in ") && !shown.stdout.contains("ms"), "{shown:?}");
    let words = ["break", "-f", "nobody-has-it", "--reason", "test", "--output", "json"];
    assert_eq!(allowed.leasehold(&words).await.code, 64, "there is no such lock");
    assert_eq!(allowed.leasehold(&["run", "-f", "nobody-has-it", "--", "true"]).await.code, 0);
    assert_eq!(allowed.leasehold(&words).await.json()["outcome"], "not_held");
}

#[tokio::test]
async fn a_wait_says_what_it_is_for() {
    let sidecar = Sidecar::start(&[]).await;
    acquire(&sidecar, "job").await;
    let waiting =
        sidecar.leasehold(&["acquire", "job", "--wait", "3s", "--holder", "second"]).await;
    assert_eq!(waiting.code, 75, "{waiting:?}");
    let said = waiting.stderr.lines().next().unwrap_or_default();
    assert!(said.contains("waiting for ") && said.contains("/job"), "{waiting:?}");
    assert!(said.contains(", held by ") && said.contains(", since 2"), "{waiting:?}");
    let last = waiting.stderr.lines().last().unwrap_or_default();
    assert!(last.contains(" is held by ") && last.contains(", since 2"), "{waiting:?}");
}

#[tokio::test]
async fn a_busy_lock_of_another_host_type_names_both() {
    let sidecar = Sidecar::start(&[]).await;
    let of =
        |host_type: &'static str| ["-f", "job", "--host-id", "shared", "--host-type", host_type];
    let acquire = |host_type| [&["acquire"][..], &of(host_type)].concat();
    assert_eq!(sidecar.leasehold(&acquire("billing")).await.code, 0);
    let own = sidecar.leasehold(&acquire("billing")).await;
    assert!(own.code == 75 && !own.stderr.contains("host type"), "{own:?}");
    let both = "its holder is of the host type billing, and this caller of orders: both share the host id shared";
    let other = sidecar.leasehold(&acquire("orders")).await;
    assert!(other.code == 75 && other.stderr.contains(both), "{other:?}");
    let run = [&["run", "--wait", "1s"][..], &of("orders"), &["--", "true"]].concat();
    let run = sidecar.leasehold(&run).await;
    assert_eq!(run.code, 75, "{run:?}");
    assert!(run.stderr.lines().filter(|line| line.contains(both)).count() == 2, "{run:?}");
}
