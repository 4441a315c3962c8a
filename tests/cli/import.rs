//! `leasehold schedule import`: from a file, from standard input, and from the storage account of a .NET app.

use std::process::Stdio;

use leasehold::testing::Azurite;
use leasehold::time::{BootClock, Clock as _};
use leasehold::timetable::UtcSecond;
use tokio::io::AsyncWriteExt as _;

use crate::cli::rig::{Ended, Home};

/// As Azure Functions writes it.
pub(crate) const STATUS: &str = r#"{"Last":"2026-01-05T02:30:00.1075034+01:00","Next":"2026-01-06T02:30:00+01:00","LastUpdated":"2026-01-05T02:30:00.1075034+01:00"}"#;

async fn import(home: &Home, words: &[&str]) -> Ended {
    let words = [&["import", "-f", "nightly"], words].concat();
    home.directly_in("schedule", &words).await
}

fn file(home: &Home, text: &str) -> String {
    let path = home.path("status.json");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

async fn shown(home: &Home) -> Ended {
    home.directly_in("schedule", &["show", "-f", "nightly", "--output", "json"]).await
}

#[tokio::test]
async fn t22_a_status_in_a_file_is_where_the_schedule_begins() {
    let home = Home::new();
    let status = file(&home, STATUS);
    let tried = import(&home, &["--status", &status, "--dry-run"]).await;
    assert_eq!(tried.code, 0, "{tried:?}");
    assert!(tried.stdout.contains("would be written"), "{tried:?}");
    assert_ne!(shown(&home).await.code, 0, "nothing was written");

    let done = import(&home, &["--status", &status, "--output", "json"]).await;
    assert_eq!(done.code, 0, "{done:?}");
    let document = done.json();
    assert_eq!(document["done_up_to"], "2026-01-05T01:30:00Z");
    assert_eq!(document["timer_next_at"], "2026-01-06T01:30:00Z");
    assert_eq!((&document["dry_run"], &document["changed"]), (&false.into(), &true.into()));
    let state = shown(&home).await.json()["state"].clone();
    assert_eq!(state["watermark"], "2026-01-05T01:30:00Z");
    assert_eq!(state["next_at"], "2026-01-06T01:30:00Z");

    let again = import(&home, &["--status", &status]).await;
    assert!(again.code == 0 && again.stdout.contains("stands there already"), "{again:?}");
    let other = file(&home, &STATUS.replace("01-05", "01-04"));
    let refused = import(&home, &["--status", &other]).await;
    assert!(refused.code == 64 && refused.stderr.contains("--replace"), "{refused:?}");
    let replaced = import(&home, &["--status", &other, "--replace"]).await;
    assert_eq!(replaced.code, 0, "{replaced:?}");
}

/// The blobs of a .NET app in the emulator: one status.
pub(crate) async fn blob(container: &str, name: &str, text: &str) {
    // Another test of this process may have chosen it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let sas_url = Azurite::shared().sas_url();
    let (endpoint, sas) = sas_url.split_once('?').unwrap();
    let put = |path: &str| {
        let url = format!("{endpoint}/{path}{sas}");
        reqwest::Client::new().put(url).header("x-ms-version", "2025-11-05")
    };
    let made = put(&format!("{container}?restype=container&"));
    made.header("content-length", "0").send().await.unwrap();
    let written = put(&format!("{container}/{name}?")).header("x-ms-blob-type", "BlockBlob");
    let written = written.body(text.to_owned()).send().await.unwrap();
    assert_eq!(written.status().as_u16(), 201, "{}", written.text().await.unwrap());
}

#[tokio::test]
async fn t22_a_timer_is_found_in_the_storage_account() {
    let home = Home::new();
    let container = "webjobs-import";
    blob(container, "timers/myapp/Host.Functions.Nightly/status", STATUS).await;
    let on_azure = async |words: &[&str]| {
        let store = [
            "schedule",
            "import",
            "-f",
            "nightly",
            "--store",
            "azure",
            "--set",
            "store.azure.connection_string_env=CONNECTION",
            "--set",
            "store.azure.create_container=true",
            "--set",
            "paths.container=import-here",
            "--timer-container",
            container,
        ];
        let mut command = home.command(&[&store[..], words].concat());
        command.env("CONNECTION", Azurite::shared().connection_string());
        Ended::of(command).await
    };
    let of = ["--timer-host-id", "myapp", "--timer"];
    let done = on_azure(&[&of[..], &["Host.Functions.Nightly"]].concat()).await;
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stdout.contains("2026-01-05T01:30:00Z"), "{done:?}");
    let none = on_azure(&[&of[..], &["Nightly"]].concat()).await;
    assert_eq!(none.code, 64, "{none:?}");
    assert!(none.stderr.contains("webjobs-import/timers/myapp/Nightly/status"), "{none:?}");
    assert!(none.stderr.contains("--timer-host-id"), "{none:?}");
}

#[tokio::test]
async fn t22_what_the_timer_has_missed_is_run_when_a_replica_starts() {
    let home = Home::new();
    let three_hours_ago = UtcSecond(UtcSecond::from(BootClock::new().wall()).0 - 3 * 3_600);
    let never = "0001-01-01T00:00:00";
    let text = format!(
        r#"{{"Last":"{three_hours_ago}","Next":"{never}","LastUpdated":"{three_hours_ago}"}}"#
    );
    let status = file(&home, &text);
    assert_eq!(import(&home, &["--status", &status]).await.code, 0);
    let script = "echo $LEASEHOLD_MISSED $LEASEHOLD_ATTEMPT";
    let ran = ["every", "@hourly", "-f", "nightly", "--once", "--", "sh", "-c", script];
    let ran = home.directly(&ran).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    // It ran at once. An hour may have begun meanwhile.
    assert!(["2 1", "3 1"].contains(&ran.stdout.trim()), "{ran:?}");
}

#[tokio::test]
async fn t22_a_status_without_offsets_needs_a_zone() {
    let home = Home::new();
    let text = STATUS.replace("+01:00", "");
    let status = file(&home, &text);
    let refused = import(&home, &["--status", &status]).await;
    assert_eq!(refused.code, 64, "{refused:?}");
    for hint in ["`Last`", "--status-tz"] {
        assert!(refused.stderr.contains(hint), "{hint}: {refused:?}");
    }
    let mut command = home.command(&[
        "schedule",
        "import",
        "-f",
        "nightly",
        "--store",
        "memory",
        "--status",
        "-",
        "--status-tz",
        "Europe/Copenhagen",
    ]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).await.unwrap();
    let read = Ended::of_child(child).await;
    assert_eq!(read.code, 0, "{read:?}");
    assert!(read.stdout.contains("2026-01-05T01:30:00Z"), "{read:?}");
}

#[tokio::test]
async fn t22_bad_input_is_64_names_what_is_wrong_and_writes_nothing() {
    let home = Home::new();
    let (broken, empty) = (home.path("broken"), home.path("empty"));
    std::fs::write(&broken, &STATUS[..60]).unwrap();
    std::fs::write(&empty, "{}").unwrap();
    let good = file(&home, STATUS);
    let future = home.path("future");
    std::fs::write(&future, STATUS.replace("2026-01", "3026-01")).unwrap();
    let [broken, empty, future] = [broken, empty, future].map(|path| path.display().to_string());
    let cases: [(&[&str], &str); 9] = [
        (&[], "--status"),
        (&["--status", &broken], "not the JSON object"),
        (&["--status", &empty], "`Last`"),
        (&["--status", &future], "ahead of the store's time"),
        (&["--status", "/no/such/file"], "--status: cannot read /no/such/file"),
        (&["--status", &good, "--timer", "Nightly"], "cannot be used with"),
        (&["--status", &good, "--status-tz", "Europe/Kopenhagen"], "did you mean"),
        (&["--timer", "Nightly"], "--store azure"),
        (&["--status", &good, "--set", "paths.layout=webjobs"], "layout `webjobs`"),
    ];
    for (words, hint) in cases {
        let ended = import(&home, words).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (64, ""), "{words:?}: {ended:?}");
        assert!(ended.stderr.contains(hint), "{words:?} says {hint}: {ended:?}");
    }
    assert_ne!(shown(&home).await.code, 0, "nothing was written");
}
