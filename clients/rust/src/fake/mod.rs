//! For tests: a client in a time of its own, and a sidecar that does what a test says.

mod sidecar;
mod words;

use std::future::IntoFuture as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;
use tonic::Status;

use crate::boot_clock::{BootInstant, Clock};
use crate::messages::wire_duration;
use crate::proto::{BootTime, Validity};
use crate::{Client, ClientBuilder, Hold, HoldEvent};
pub(crate) use sidecar::{Opened, Sidecar};
pub(crate) use words::{Words, base, status};

/// The boot id of our kernel.
pub(crate) const OURS: &str = "kernel-a";

pub(crate) const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// What comes before anybody loses patience; in paused time, before anything else does.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(seconds(600), what).await.expect("it comes")
}

/// The clock of our kernel, which goes with tokio's timers, and also while the machine sleeps. It begins at
/// 1,000 s.
#[derive(Debug)]
pub(crate) struct TestClock {
    pub(crate) began: Instant,
    slept: Mutex<Duration>,
}

impl TestClock {
    #[expect(clippy::disallowed_methods, reason = "the time of a test is that of tokio's timers")]
    fn new() -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), slept: Mutex::default() })
    }

    pub(crate) fn slept(&self) -> Duration {
        *self.slept.lock().unwrap()
    }

    /// The machine sleeps for so long: no timer goes on meanwhile.
    pub(crate) fn sleep(&self, span: Duration) {
        *self.slept.lock().unwrap() += span;
    }
}

impl Clock for TestClock {
    fn now(&self) -> BootInstant {
        let began = Duration::from_millis(base("ours"));
        BootInstant::from_boot(began + self.began.elapsed() + self.slept())
    }

    fn boot_id(&self) -> &str {
        OURS
    }
}

/// A client, and the sidecar to which it talks.
pub(crate) struct Bench {
    pub(crate) client: Client,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) sidecar: Arc<Sidecar>,
    opened: UnboundedReceiver<Opened>,
}

impl Bench {
    /// A sidecar that says of each release and completion that the store has it.
    pub(crate) fn new() -> Self {
        let bench = Self::of(Client::builder("a test"));
        bench.sidecar.always("release_lease", Ok(json!({"outcome": "RELEASED"})));
        bench.sidecar.always("complete_run", Ok(json!({"result": "RECORDED"})));
        bench
    }

    /// A sidecar that says nothing by itself.
    pub(crate) fn of(builder: ClientBuilder) -> Self {
        let (clock, (streams, opened)) = (TestClock::new(), unbounded_channel());
        let sidecar = Sidecar::new(streams);
        let client = builder.over(sidecar.dial(), Arc::<TestClock>::clone(&clock));
        Self { client, clock, sidecar, opened }
    }

    /// The next stream that the client opens.
    pub(crate) async fn opened(&mut self) -> Opened {
        soon(self.opened.recv()).await.unwrap()
    }

    /// The next one, if there is one already.
    pub(crate) fn try_opened(&mut self) -> Option<Opened> {
        self.opened.try_recv().ok()
    }

    /// A hold that was granted until 1,058 s, its stream, and what happens to it.
    pub(crate) async fn held(&mut self) -> (Hold, Opened, UnboundedReceiver<HoldEvent>) {
        self.granted(Value::Null).await
    }

    /// One of whose grant this is said, too.
    pub(crate) async fn granted(
        &mut self,
        more: Value,
    ) -> (Hold, Opened, UnboundedReceiver<HoldEvent>) {
        let (sender, events) = unbounded_channel();
        let holding = self.client.hold(crate::LeaseSpec::new("f")).events(sender).into_future();
        let granting = async {
            let stream = self.opened().await;
            stream.tell(&granted(more));
            stream
        };
        let (outcome, stream) = tokio::join!(holding, granting);
        let hold = outcome.unwrap().granted().unwrap();
        self.sidecar.believe(hold.state());
        (hold, stream, events)
    }

    /// What was asked since the last time, as vectors say it.
    pub(crate) fn asked(&self) -> Vec<String> {
        let mut words = Words::new("ours");
        self.sidecar.taken().iter().map(|asked| words.said(asked)).collect()
    }
}

/// A validity on our kernel.
pub(crate) fn validity(until: u64, valid_for: u64) -> Validity {
    let since_boot = Some(wire_duration(seconds(until)));
    let valid_until = Some(BootTime { boot_id: OURS.to_owned(), since_boot });
    Validity { valid_until, valid_for: Some(wire_duration(seconds(valid_for))) }
}

/// What tells a grant until 1,058 s, and this of it.
pub(crate) fn granted(more: Value) -> Value {
    json!({"granted": valid(more)})
}

/// The same of a run.
pub(crate) fn run(more: Value) -> Value {
    json!({"run": valid(more)})
}

fn valid(mut said: Value) -> Value {
    said["until"] = 58_000.into();
    said["for"] = 58_000.into();
    said
}

/// What a sidecar says that is too old for a request (S37).
pub(crate) fn too_old() -> Status {
    let said = json!({"code": "UNIMPLEMENTED", "reason": "UNSUPPORTED", "needs": 2, "revision": 1});
    status(&said)
}
