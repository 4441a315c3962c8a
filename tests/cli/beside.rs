//! `every` beside a host of .NET, on the storage account that both share (T22).

use std::sync::Arc;
use std::time::Duration;

use leasehold::lock::{Container, HostId, LeaseId, LockPath, TimerPath};
use leasehold::store::azure::{AzureCredential, AzureSettings, AzureStore};
use leasehold::store::{Acquire, DocumentPath, LeaseStoreExt as _, Secret};
use leasehold::testing::Azurite;
use leasehold::time::{BootClock, Clock as _};
use leasehold::timetable::{Timetable, UtcSecond};
use serde_json::Value;
use tokio::process::Command;
use uuid::Uuid;

use crate::cli::import::blob;
use crate::cli::rig::{Ended, Home, eventually};

const EACH_10_S: &str = "*/10 * * * * *";
const TIMER: &str = "Keeper.Jobs.Nightly";

/// The host of .NET: its blobs, by its own client.
struct Dotnet {
    container: &'static str,
    store: AzureStore,
    lock: LockPath,
    schedule: Timetable,
}

impl Dotnet {
    fn new(container: &'static str) -> Self {
        let connection = Secret::new(Azurite::shared().connection_string());
        let credential = AzureCredential::ConnectionString(connection);
        let settings = AzureSettings { create_container: true, ..AzureSettings::new(credential) };
        let name = format!("locks/keeper-a/{TIMER}.Listener");
        Self {
            container,
            store: AzureStore::new(&settings, Arc::new(BootClock::new())).unwrap(),
            lock: LockPath::from_parts(&Container::parse(container).unwrap(), &name),
            schedule: Timetable::parse(EACH_10_S, "UTC").unwrap(),
        }
    }

    fn now() -> UtcSecond {
        BootClock::new().wall().into()
    }

    /// Takes the listener lock, as soon as it is free.
    async fn listen(&self) -> LeaseId {
        let lease_id = LeaseId::from_uuid(Uuid::new_v4());
        let duration = Duration::from_secs(60);
        eventually("the listener lock is free", || async {
            let request = Acquire { lease_id, duration, if_match: None };
            self.store.acquire(&self.lock, request).await.ok()
        })
        .await;
        lease_id
    }

    async fn stop(&self, lease_id: LeaseId) {
        self.store.release(&self.lock, lease_id, None).await.unwrap();
    }

    /// The status as .NET writes it after a run that began at `at`.
    async fn write(&self, at: UtcSecond) {
        let local = |at: UtcSecond| UtcSecond(at.0 + 7_200).to_string().replace('Z', "");
        let next = self.schedule.next(at).unwrap();
        let (last, next) = (local(at), local(next));
        let text = format!(
            r#"{{"Last":"{last}.1075034+02:00","Next":"{next}+02:00","LastUpdated":"{last}.1075034+02:00"}}"#
        );
        blob(self.container, &format!("timers/keeper-a/{TIMER}/status"), &text).await;
    }

    /// The fields of the status.
    async fn stored(&self) -> Value {
        let container = Container::parse(self.container).unwrap();
        let host_id = HostId::parse("keeper-a").unwrap();
        let timer = TimerPath { container, host_id, timer: TIMER.to_owned() };
        let read = self.store.read_document(DocumentPath::TimerStatus(timer)).await.unwrap();
        serde_json::from_str(&read.document.unwrap().text).unwrap()
    }

    async fn status(&self, home: &Home) -> Value {
        let words = ["schedule", "show", "-f", TIMER, "--mode", "listener", "--output", "json"];
        let shown = Ended::of(self.leasehold(home, &words)).await;
        assert_eq!(shown.code, 0, "{shown:?}");
        shown.json()
    }

    fn leasehold(&self, home: &Home, words: &[&str]) -> Command {
        let container = format!("paths.container={}", self.container);
        let (command, rest) = match words.split_first().unwrap() {
            (first @ &"schedule", rest) => (vec![*first, rest[0]], &rest[1..]),
            (first, rest) => (vec![*first], rest),
        };
        let settings = [
            "--store",
            "azure",
            "--set",
            "store.azure.connection_string_env=CONNECTION",
            "--set",
            "paths.layout=webjobs",
            "--set",
            &container,
            "--set",
            "host_id.provider=static",
            "--set",
            "host_id.host_id=keeper-a",
        ];
        let mut leasehold = home.command(&[&command[..], &settings, rest].concat());
        leasehold.env("CONNECTION", Azurite::shared().connection_string());
        leasehold
    }

    /// Runs one occurrence by the real program; its instant.
    fn every(&self, home: &Home, script: &str) -> Command {
        let words = ["every", EACH_10_S, "-f", TIMER, "--mode", "listener", "--once"];
        let lease = ["--lease-duration", "15s", "--", "sh", "-c", script];
        self.leasehold(home, &[&words[..], &lease].concat())
    }
}

const TELL: &str = "date -u -d $LEASEHOLD_SCHEDULED_AT +%s";

async fn instant(ended: Ended) -> UtcSecond {
    assert_eq!(ended.code, 0, "{ended:?}");
    UtcSecond(ended.stdout.trim().parse().unwrap_or_else(|_| panic!("{ended:?}")))
}

#[tokio::test]
async fn t22_the_program_goes_on_after_a_host_of_dotnet_and_the_host_after_it() {
    let home = Home::new();
    let dotnet = Dotnet::new("webjobs-in-turns");
    // The host has run up to now and listens: the program waits.
    let lease_id = dotnet.listen().await;
    let first = Dotnet::now();
    dotnet.write(first).await;
    let mut waiting = dotnet.every(&home, TELL).spawn().unwrap();
    // The host runs the next two as they fall due; the program must leave them to it.
    for n in [10, 20] {
        eventually("the occurrence is due", || async {
            (Dotnet::now().0 > (first.0 / 10) * 10 + n).then_some(())
        })
        .await;
        assert!(waiting.try_wait().unwrap().is_none(), "the host listens");
        dotnet.write(Dotnet::now()).await;
    }
    let last = Dotnet::now();
    dotnet.stop(lease_id).await;
    let taken_over = instant(Ended::of_child(waiting).await).await;
    assert!(taken_over > UtcSecond(last.0 / 10 * 10), "it ran {taken_over} again");

    // The host goes on: what stands there is what it would have computed itself.
    let lease_id = dotnet.listen().await;
    let timer = dotnet.status(&home).await;
    let watermark: UtcSecond = timer["state"]["watermark"].as_str().unwrap().parse().unwrap();
    assert_eq!(watermark, taken_over, "{timer:#}");
    let stored = dotnet.stored().await;
    let of = |field: &str| UtcSecond::from_iso(stored[field].as_str().unwrap(), None).unwrap();
    assert_eq!((of("Last"), of("LastUpdated")), (taken_over, taken_over));
    assert_eq!(of("Next"), dotnet.schedule.next(taken_over).unwrap());
    assert!(stored["Last"].as_str().unwrap().ends_with("+00:00"), "{stored}");
    eventually("the next occurrence is due", || async {
        (Dotnet::now() > of("Next")).then_some(())
    })
    .await;
    let ran = Dotnet::now();
    dotnet.write(ran).await;
    dotnet.stop(lease_id).await;
    // And the program after it.
    let again = instant(Ended::of(dotnet.every(&home, TELL)).await).await;
    assert!(again > UtcSecond(ran.0 / 10 * 10), "{again} was the host's");
}

#[tokio::test]
async fn t22_a_broken_status_is_told_by_the_program() {
    let home = Home::new();
    let dotnet = Dotnet::new("webjobs-broken");
    blob("webjobs-broken", &format!("timers/keeper-a/{TIMER}/status"), "{\"Last\":1}").await;
    let refused = Ended::of(dotnet.every(&home, TELL)).await;
    assert_ne!(refused.code, 0, "{refused:?}");
    let blob = format!("webjobs-broken/timers/keeper-a/{TIMER}/status");
    for hint in [&blob, "`Last`", "repair"] {
        assert!(refused.stderr.contains(hint), "{hint}: {refused:?}");
    }
    assert!(refused.stdout.is_empty(), "{refused:?}");
}
