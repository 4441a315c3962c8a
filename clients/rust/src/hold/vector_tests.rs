//! Plays proto/vectors/client.jsonl; docs/clients.md says what it means.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use super::{Hold, HoldEvent, HoldState};
use crate::boot_clock::{BootInstant, Clock};
use crate::client::{Client, Outcome, Settings};
use crate::connect::{Headers, Pool};
use crate::errors::Error;
use crate::fake::{HoldCall, OURS, Scripted, base, in_memory, status};
use crate::messages::LeaseSpec;

/// The clock of our kernel, in the time of a vector.
#[derive(Debug)]
struct VectorClock {
    began: Instant,
    slept: Mutex<Duration>,
}

impl VectorClock {
    #[expect(clippy::disallowed_methods, reason = "the time of a vector is that of tokio's timers")]
    fn new() -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), slept: Mutex::default() })
    }

    /// Milliseconds since the vector began.
    fn time(&self) -> u64 {
        millis(self.began.elapsed() + *self.slept.lock().unwrap())
    }
}

impl Clock for VectorClock {
    fn now(&self) -> BootInstant {
        BootInstant::from_boot(Duration::from_millis(base("ours") + self.time()))
    }

    fn boot_id(&self) -> &str {
        OURS
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap()
}

fn since_base(instant: BootInstant) -> u64 {
    millis(instant.since_boot()) - base("ours")
}

/// A stream as the sidecar has it: `None` once it has ended it.
struct Stream {
    call: Option<HoldCall>,
    is_granted: bool,
}

/// A client in a time of its own, and a sidecar that does what a vector says.
struct Stage {
    clock: Arc<VectorClock>,
    client: Client,
    sidecar: Arc<Scripted>,
    opened: UnboundedReceiver<HoldCall>,
    streams: Vec<Stream>,
    state: Arc<Mutex<Option<Arc<HoldState>>>>,
    guard: Arc<Mutex<Option<Arc<Hold>>>>,
    until: Option<u64>,
    events: (UnboundedSender<HoldEvent>, UnboundedReceiver<HoldEvent>),
    returned: (UnboundedSender<String>, UnboundedReceiver<String>),
}

impl Stage {
    fn new(kernel: &str) -> Self {
        let clock = VectorClock::new();
        let state = Arc::<Mutex<Option<Arc<HoldState>>>>::default();
        let seen = Arc::clone(&state);
        let is_valid = move || seen.lock().unwrap().as_ref().is_some_and(|state| state.is_valid());
        let sidecar = Arc::new(Scripted::new(kernel, is_valid));
        let (dial, opened) = in_memory(&sidecar);
        let pool = Pool::new(dial, Headers::new(OURS, None, Vec::new()), None);
        let of_client: Arc<dyn Clock> = Arc::<VectorClock>::clone(&clock);
        let client =
            Client::new(Arc::new(pool), "vectors".to_owned(), of_client, Settings::default());
        Self {
            clock,
            client,
            sidecar,
            opened,
            streams: Vec::new(),
            state,
            guard: Arc::default(),
            until: None,
            events: unbounded_channel(),
            returned: unbounded_channel(),
        }
    }

    fn is_valid(&self) -> bool {
        self.state.lock().unwrap().as_ref().is_some_and(|state| state.is_valid())
    }

    /// Lets the time go to a moment of the vector, and all be done that is due by then.
    async fn pass(&mut self, to: u64) {
        let awake = to - millis(*self.clock.slept.lock().unwrap());
        tokio::time::sleep_until(self.clock.began + Duration::from_millis(awake)).await;
        self.settle().await;
    }

    /// Waits until nothing but timers goes on.
    async fn settle(&mut self) {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        while let Ok(call) = self.opened.try_recv() {
            self.streams.push(Stream { call: Some(call), is_granted: false });
        }
    }

    /// Does what a step says, and compares what came of it.
    async fn play(&mut self, step: &Value) {
        let at = step["at"].as_u64().unwrap();
        self.reach(at).await;
        let slept = step["sleep"].as_u64().unwrap_or(0);
        *self.clock.slept.lock().unwrap() += Duration::from_millis(slept);
        for (name, said) in entries(&step["answer"]) {
            self.sidecar.answer(name, said);
        }
        for (name, said) in entries(&step["refuse"]) {
            self.sidecar.refuse(name, said);
        }
        for (name, deed) in entries(&step["do"]) {
            tokio::spawn(self.deed(name.clone(), deed.clone()));
        }
        self.settle().await;
        let on = step["on"].as_u64().map_or(self.streams.len(), |on| usize::try_from(on).unwrap());
        let told = step["tell"].as_array().cloned();
        for events in told.unwrap_or_else(|| vec![step["tell"].clone()]) {
            for (name, said) in entries(&events) {
                self.tell(on, name, said).await;
            }
        }
        if let Some(said) = step.get("break") {
            let call = self.streams[on - 1].call.take().unwrap();
            if said.get("code").is_some() {
                call.fail(status(said)).await;
            }
        }
        self.settle().await;
        self.pass(at + slept + step["within"].as_u64().unwrap_or(0)).await;
        self.compare(at, step);
    }

    async fn tell(&mut self, on: usize, name: &str, said: &Value) {
        let stream = &mut self.streams[on - 1];
        stream.is_granted |= name == "granted";
        if let Some(call) = stream.call.as_ref().filter(|call| call.is_open()) {
            call.tell(self.sidecar.event(name, said)).await;
        }
    }

    /// Lets the time go on to a step. The validity ends at its end, neither sooner nor later.
    async fn reach(&mut self, at: u64) {
        if let Some(until) = self.until.filter(|until| self.clock.time() < *until && *until < at) {
            self.pass(until - 1).await;
            assert!(self.is_valid(), "before {at}: the hold is over already");
            self.pass(until).await;
            assert!(!self.is_valid(), "before {at}: the hold is not over");
        }
        self.pass(at).await;
    }

    fn compare(&mut self, at: u64, step: &Value) {
        let (sent, mut faults) = self.sidecar.taken();
        let is_valid = self.is_valid();
        let mut is_replaced = false;
        for stream in self.streams.iter().rev() {
            let is_ended = stream.call.as_ref().is_some_and(|call| !call.is_open());
            if is_ended && is_valid && !is_replaced {
                faults.push("S14: a stream was ended while the hold was valid".to_owned());
            }
            is_replaced |= stream.is_granted;
        }
        assert_eq!(sent, texts(&step["sent"]), "at {at}: sent");
        assert_eq!(faults, [""; 0], "at {at}");
        let told: Vec<_> =
            std::iter::from_fn(|| self.events.1.try_recv().ok()).map(text_of).collect();
        assert_eq!(told, texts(&step["told"]), "at {at}: told");
        let returned: Vec<_> = std::iter::from_fn(|| self.returned.1.try_recv().ok()).collect();
        assert_eq!(returned, texts(&step["returned"]), "at {at}: returned");
        if let Some(until) = step.get("until") {
            self.until = until.as_u64();
        }
        let state = self.state.lock().unwrap().clone();
        let until =
            state.as_ref().filter(|_| is_valid).map(|state| since_base(state.valid_until()));
        assert_eq!(until, self.until, "at {at}: until");
        if let Some(max_hold) = step["max_hold"].as_u64() {
            let ends = state.and_then(|state| state.max_hold_ends()).map(since_base);
            assert_eq!(ends, Some(max_hold), "at {at}: max_hold");
        }
        if let Some(open) = step["open"].as_array() {
            let lives = |stream: &Stream| stream.call.as_ref().is_some_and(HoldCall::is_open);
            let numbers = self.streams.iter().zip(1_u64..).filter(|(stream, _)| lives(stream));
            let seen: Vec<_> = numbers.map(|(_, number)| Value::from(number)).collect();
            assert_eq!(seen, *open, "at {at}: open");
        }
    }

    /// What the holder does, and what comes of it.
    fn deed(&self, name: String, deed: Value) -> impl Future<Output = ()> + Send + use<> {
        let (client, events) = (self.client.clone(), self.events.0.clone());
        let (held, state) = (Arc::clone(&self.guard), Arc::clone(&self.state));
        let returned = self.returned.0.clone();
        async move {
            let done = if name == "hold" {
                match client.hold(spec_of(&deed)).events(events).await {
                    Ok(Outcome::Granted(guard)) => {
                        *state.lock().unwrap() = Some(Arc::clone(guard.state()));
                        *held.lock().unwrap() = Some(Arc::new(guard));
                        "held".to_owned()
                    }
                    Ok(Outcome::Busy(busy)) => {
                        format!("busy {}", format!("{:?}", busy.reason).to_uppercase())
                    }
                    Ok(Outcome::AlreadyDone(_) | Outcome::Skipped { .. }) => "over".to_owned(),
                    Err(error) => name_of(&error),
                }
            } else if name == "release" {
                let guard = held.lock().unwrap().take().unwrap();
                match Arc::into_inner(guard).unwrap().release().await {
                    Ok(result) => result.outcome.as_str().to_owned(),
                    Err(Error::Lost(loss)) => format!("lost {}", loss.reason.as_str()),
                    Err(_) => "unconfirmed".to_owned(),
                }
            } else {
                let guard = held.lock().unwrap().clone().unwrap();
                let done = on(&guard, &name, &deed).await;
                done.unwrap_or_else(|error| name_of(&error))
            };
            let _gone = returned.send(format!("{name} {done}"));
        }
    }
}

async fn on(guard: &Hold, name: &str, deed: &Value) -> Result<String, Error> {
    match name {
        "report_progress" => guard.report_progress().await?,
        "extend_lease" => {
            let max_hold = deed["max_hold"].as_u64().unwrap();
            guard.extend(Duration::from_millis(max_hold)).await?;
        }
        "save_checkpoint" => {
            let version = guard.save(deed["value"].as_str().unwrap()).await?;
            return Ok(version.to_string());
        }
        _ => panic!("there is no deed {name}"),
    }
    Ok("done".to_owned())
}

fn spec_of(deed: &Value) -> LeaseSpec {
    let mut spec = LeaseSpec::new("f");
    let number = |name: &str| deed[name].as_u64().unwrap_or(0);
    spec.wait = Duration::from_millis(number("wait"));
    spec.permits = u32::try_from(number("permits").max(1)).unwrap();
    spec.priority = u32::try_from(number("priority")).unwrap();
    spec.yields = deed["yields"].as_bool().unwrap_or(false);
    spec.share = deed["share"].as_str().unwrap_or("").to_owned();
    spec
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn name_of(error: &Error) -> String {
    if let Error::Lost(loss) = error {
        return format!("lost {}", loss.reason.as_str());
    }
    format!("refused {}", error.reason().map_or("", |reason| reason.as_str()))
}

fn text_of(event: HoldEvent) -> String {
    match event {
        HoldEvent::Waiting(waiting) => format!("waiting {}", waiting.position),
        HoldEvent::Renewed { .. } => "renewed".to_owned(),
        HoldEvent::AtRisk { cause, .. } => format!("at_risk {}", cause.as_str()),
        HoldEvent::Recovered { .. } => "recovered".to_owned(),
        HoldEvent::Draining { time_left } => format!("draining {}", time_left.as_millis()),
        HoldEvent::Revoked(notice) => {
            format!("revoked by {}", notice.break_note.unwrap().broken_by)
        }
        HoldEvent::Interrupted { .. } => "interrupted".to_owned(),
        HoldEvent::Resumed { .. } => "resumed".to_owned(),
        HoldEvent::Lost(loss) => format!("lost {}", loss.reason.as_str()),
        HoldEvent::Released(outcome) => format!("released {}", outcome.as_str()),
        HoldEvent::ReleaseUnconfirmed { detail } => format!("not released: {detail}"),
    }
}

#[test]
fn the_client_does_what_the_vectors_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto/vectors/client.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let mut vectors: Vec<(Value, Vec<Value>)> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let read: Value = serde_json::from_str(line).unwrap();
        match vectors.last_mut() {
            Some((_, steps)) if read.get("vector").is_none() => steps.push(read),
            _ => vectors.push((read, Vec::new())),
        }
    }
    let mut failed = Vec::new();
    for (vector, steps) in vectors {
        let play = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(async {
                let mut stage = Stage::new(vector["kernel"].as_str().unwrap_or("ours"));
                for step in &steps {
                    stage.play(step).await;
                }
            });
        };
        // All that fail are told.
        if catch_unwind(AssertUnwindSafe(play)).is_err() {
            failed.push(vector["vector"].clone());
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
