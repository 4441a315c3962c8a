//! Who takes part where reports about schedules are played again: `leasehold every` with a shell script, and
//! a client that does what no client does.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::testing::Azurite;
use leasehold_client::proto::schedule_service_client::ScheduleServiceClient;
use leasehold_client::proto::subscribe_schedule_response::Event;
use leasehold_client::proto::{
    LockKey, Run, ScheduleSpec, SubscribeScheduleRequest, SubscribeScheduleResponse,
};
use tonic::Streaming;
use tonic::transport::Channel;

use super::{second, show};
use crate::faults::process::{PATIENCE, Sidecar, program, until};

/// What a job writes of its run, and then it goes on.
const WRITES: &str = r#"echo "$LEASEHOLD_SCHEDULED_AT $LEASEHOLD_ATTEMPT $LEASEHOLD_MISSED $LEASEHOLD_LATENESS ${LEASEHOLD_REQUEST_ID:--}" >>"$0""#;

/// What operators may do is allowed.
pub(super) const MAY_CHANGE: &str = "admin.allow_schedule_changes=true";

/// A sidecar at the emulator that all share.
pub(super) async fn sidecar(host: &str, more: &[&str]) -> Sidecar {
    Sidecar::on_azurite(host, &[&[MAY_CHANGE], more].concat()).await
}

/// A sidecar behind a proxy.
pub(super) async fn behind(host: &str, connection: String) -> Sidecar {
    let environment = vec![("LEASEHOLD_STORE_AZURE_CONNECTION_STRING", connection)];
    Sidecar::start(host, &[MAY_CHANGE], environment).await
}

/// A run, as its job saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Started {
    /// Unix seconds.
    pub(super) due: u64,
    pub(super) attempt: u32,
    pub(super) missed: u64,
    /// In whole seconds.
    pub(super) late: u64,
    pub(super) is_by_hand: bool,
}

/// `leasehold every` at a sidecar.
pub(super) struct Every {
    child: Child,
    folder: tempfile::TempDir,
}

impl Every {
    /// With the job `script`, after it has written of its run.
    pub(super) fn start(sidecar: &Sidecar, expression: &str, flags: &[&str], script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let notes = File::create(folder.path().join("notes")).unwrap();
        let mut command = Command::new(program());
        command.args(["every", expression, "--endpoint", &sidecar.endpoint()]).args(flags);
        command.args(["--", "sh", "-c", &format!("{WRITES}\n{script}")]);
        command.arg(folder.path().join("journal"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(notes);
        Self { child: command.spawn().unwrap(), folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn notes(&self) -> String {
        std::fs::read_to_string(self.path("notes")).unwrap()
    }

    /// The runs that its jobs saw.
    pub(super) fn journal(&self) -> Vec<Started> {
        let text = std::fs::read_to_string(self.path("journal")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(started).collect()
    }

    /// The same, once there are so many.
    pub(super) async fn runs(&self, count: usize) -> Vec<Started> {
        let look = || Some(self.journal()).filter(|journal| journal.len() >= count);
        let story = || format!("{:#?}\n{}", self.journal(), self.notes());
        until(&format!("{count} runs"), story, look).await
    }

    /// Waits until it has ended by itself: its exit code.
    pub(super) async fn code(&mut self) -> i32 {
        let ended = || self.child.try_wait().unwrap();
        until("it has ended", String::new, ended).await.code().unwrap()
    }
}

impl Drop for Every {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("every wrote:\n{}\n{:#?}", self.notes(), self.journal());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn started(line: &str) -> Started {
    let words: Vec<&str> = line.split(' ').collect();
    let [due, attempt, missed, late, request] = words[..] else { panic!("{line}") };
    Started {
        due: humantime::parse_rfc3339(due).unwrap().duration_since(UNIX_EPOCH).unwrap().as_secs(),
        attempt: attempt.parse().unwrap(),
        missed: missed.parse().unwrap(),
        late: late.parse().unwrap(),
        is_by_hand: request != "-",
    }
}

/// A subscriber that reads what it is told and says nothing.
pub(super) struct Silent {
    stream: Streaming<SubscribeScheduleResponse>,
}

impl Silent {
    pub(super) async fn subscribe(sidecar: &Sidecar, function: &str, spec: ScheduleSpec) -> Self {
        let key = LockKey { function: function.to_owned(), ..LockKey::default() };
        let (key, spec) = (Some(key), Some(spec));
        let request = SubscribeScheduleRequest { key, spec, ..Default::default() };
        let mut client = ScheduleServiceClient::<Channel>::new(sidecar.channel().await);
        Self { stream: client.subscribe_schedule(request).await.unwrap().into_inner() }
    }

    async fn next(&mut self) -> Event {
        let message = tokio::time::timeout(PATIENCE, self.stream.message()).await;
        message.expect("an event comes").unwrap().expect("the stream goes on").event.unwrap()
    }

    /// Its next run.
    pub(super) async fn run(&mut self) -> Run {
        loop {
            if let Event::Run(run) = self.next().await {
                return run;
            }
        }
    }

    /// Waits until it is told that its run is lost.
    pub(super) async fn lost(&mut self) {
        while !matches!(self.next().await, Event::Lost(_)) {}
    }

    /// Reads on, and gives the runs that it is granted: none comes to it that it has to speak of.
    pub(super) fn reads_on(mut self) -> tokio::task::JoinHandle<Run> {
        tokio::spawn(async move { self.run().await })
    }
}

/// The whole second of an occurrence.
pub(super) fn due(run: &Run) -> u64 {
    u64::try_from(run.scheduled_at.as_ref().unwrap().seconds).unwrap()
}

/// How the runs of an occurrence ended, as the record says: outcomes and attempts, the newest first.
pub(super) fn ended(sidecar: &Sidecar, function: &str, due: u64) -> Vec<(String, u64)> {
    let Some(shown) = show(sidecar, function) else { return Vec::new() };
    let ended = shown["state"]["ended"].as_array().cloned().unwrap_or_default();
    let of = ended.iter().filter(|ended| second(&ended["scheduled_at"]) == Some(due));
    let said = |ended: &serde_json::Value| {
        (ended["outcome"].as_str().unwrap().to_owned(), ended["attempt"].as_u64().unwrap())
    };
    of.map(said).collect()
}

/// Waits until the schedule is there, and says when it is due.
pub(super) async fn next_due(sidecar: &Sidecar, function: &str) -> u64 {
    let next = || second(&show(sidecar, function)?["next_at"]);
    until("the schedule is there", String::new, next).await
}

/// `leasehold schedule` with these words, about a function.
pub(super) fn operate(sidecar: &Sidecar, function: &str, words: &[&str]) {
    let mut command = Command::new(program());
    command.arg("schedule").args(words);
    command.args(["--function", function, "--endpoint", &sidecar.endpoint()]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
}

/// Now, by the clock that the emulator's dates come from.
pub(super) fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(super::now())
}

/// The emulator that all share.
pub(super) fn azurite() -> &'static Azurite {
    Azurite::shared()
}
