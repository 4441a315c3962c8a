//! Plays proto/vectors/client.jsonl and runs.jsonl; their README says what they mean.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot};

use super::{Hold, HoldEvent};
use crate::boot_clock::BootInstant;
use crate::client::{Client, Outcome};
use crate::errors::Error;
use crate::fake::{Bench, Opened, Sidecar, Words, base, status};
use crate::messages::{Completion, LeaseSpec, ScheduleSpec, Subscription};
use crate::runs::{Run, Runs, ScheduleEvent};

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap()
}

fn since_base(instant: BootInstant) -> u64 {
    millis(instant.since_boot()) - base("ours")
}

/// What work fails with.
const FAILED: &str = "the work has failed";

fn nightly() -> Subscription {
    Subscription::new("f", ScheduleSpec::cron("30 2 * * *"))
}

/// What the holder has.
#[derive(Clone)]
enum Had {
    Hold(Arc<Hold>),
    Run(Arc<Run>),
}

impl Had {
    fn hold(&self) -> &Hold {
        match self {
            Self::Hold(hold) => hold,
            Self::Run(run) => run.hold(),
        }
    }

    /// When it ends, however long its validity is.
    fn ends(&self) -> Option<BootInstant> {
        match self {
            Self::Hold(hold) => hold.max_hold_ends(),
            Self::Run(run) => run.deadline(),
        }
    }
}

/// A holder, whose deeds go on by themselves.
#[derive(Clone)]
struct Holder {
    client: Client,
    had: Arc<Mutex<Option<Had>>>,
    runs: Arc<tokio::sync::Mutex<Option<Runs>>>,
    closed: Arc<Notify>,
    /// Ends the work of a term or of a run, and says whether it fails.
    finish: Arc<Mutex<Option<oneshot::Sender<bool>>>>,
    told: UnboundedSender<String>,
    returned: UnboundedSender<String>,
}

impl Holder {
    /// What the holder does, and what comes of it.
    async fn does(self, sidecar: Arc<Sidecar>, name: String, deed: Value) {
        let done = match name.as_str() {
            "hold" => self.hold(&deed).await,
            "lead" => self.lead(&sidecar).await,
            "every" => self.every(&sidecar).await,
            "finish" => {
                let fails = deed["fails"].as_bool().unwrap_or(false);
                self.finish.lock().unwrap().take().unwrap().send(fails).unwrap();
                return;
            }
            "next_run" => {
                // A caller that closes drops the question.
                tokio::select! {
                    biased;
                    () = self.closed.notified() => Ok("closed".to_owned()),
                    run = self.next_run() => run,
                }
            }
            "close" => {
                self.closed.notify_waiters();
                drop(self.runs.lock().await.take());
                Ok("done".to_owned())
            }
            "release" | "complete" => {
                let had = self.had.lock().unwrap().take().unwrap();
                match had {
                    Had::Hold(hold) => released(Arc::into_inner(hold).unwrap()).await,
                    Had::Run(run) => completed(Arc::into_inner(run).unwrap(), &deed).await,
                }
            }
            _ => {
                let had = self.had.lock().unwrap().clone().unwrap();
                asked(had.hold(), &name, &deed).await
            }
        };
        let done = done.unwrap_or_else(|error| name_of(&error));
        if let Some(had) = self.had.lock().unwrap().as_ref() {
            sidecar.believe(had.hold().state());
        }
        let _gone = self.returned.send(format!("{name} {done}"));
    }

    async fn hold(&self, deed: &Value) -> Result<String, Error> {
        let (sender, events) = unbounded_channel();
        self.tell(events, text_of);
        Ok(match self.client.hold(spec_of(deed)).events(sender).await? {
            Outcome::Granted(hold) => {
                *self.had.lock().unwrap() = Some(Had::Hold(Arc::new(hold)));
                "held".to_owned()
            }
            Outcome::Busy(busy) => format!("busy {}", format!("{:?}", busy.reason).to_uppercase()),
            Outcome::AlreadyDone(_) | Outcome::Skipped { .. } => "over".to_owned(),
        })
    }

    async fn next_run(&self) -> Result<String, Error> {
        let mut runs = self.runs.lock().await;
        let run = runs.get_or_insert_with(|| self.subscribe()).next().await?;
        self.tell(run.take_events().unwrap(), text_of);
        let attempt = run.attempt();
        *self.had.lock().unwrap() = Some(Had::Run(Arc::new(run)));
        Ok(format!("run {attempt}"))
    }

    async fn lead(&self, sidecar: &Sidecar) -> Result<String, Error> {
        let work = async |term: Arc<Hold>| {
            self.work(&term, format!("term {}", term.fencing_token()), sidecar).await
        };
        self.client.lead(LeaseSpec::new("f"), work).await.map(|()| "done".to_owned())
    }

    async fn every(&self, sidecar: &Sidecar) -> Result<String, Error> {
        let work = async |run: Arc<Run>| {
            let done = self.work(run.hold(), format!("run {}", run.attempt()), sidecar).await;
            // Without a text, for which a vector has no words.
            done.map_err(|_failed| "")
        };
        self.client.every(nightly(), work).await.map(|()| "done".to_owned())
    }

    /// Goes on until the holder finishes it, or it is dropped.
    async fn work(&self, hold: &Hold, begun: String, sidecar: &Sidecar) -> Result<(), Error> {
        sidecar.believe(hold.state());
        let _gone = self.told.send(begun);
        let (finish, finished) = oneshot::channel();
        *self.finish.lock().unwrap() = Some(finish);
        if finished.await.unwrap() { Err(Error::Protocol(FAILED)) } else { Ok(()) }
    }

    fn subscribe(&self) -> Runs {
        let (sender, events) = unbounded_channel();
        self.tell(events, text_between);
        self.client.runs(nightly()).events(sender).with_hold_events()
    }

    /// Notes what is told.
    fn tell<E: Send + 'static>(&self, mut events: UnboundedReceiver<E>, text: fn(E) -> String) {
        let told = self.told.clone();
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                let _gone = told.send(text(event));
            }
        });
    }
}

async fn released(hold: Hold) -> Result<String, Error> {
    match hold.release().await {
        Ok(result) => Ok(result.outcome.as_str().to_owned()),
        Err(Error::Lost(loss)) => Err(Error::Lost(loss)),
        Err(_) => Ok("unconfirmed".to_owned()),
    }
}

async fn completed(run: Run, deed: &Value) -> Result<String, Error> {
    let completion = match deed["outcome"].as_str().unwrap() {
        "SUCCEEDED" => Completion::succeeded(),
        "FAILED" => Completion::failed(""),
        other => panic!("there is no outcome {other}"),
    };
    Ok(run.complete(completion).await?.result.as_str().to_owned())
}

/// A stream as the sidecar has it: `None` once it has ended it.
struct Stream {
    call: Option<Opened>,
    is_granted: bool,
}

/// A holder in a time of its own, and a sidecar that does what a vector says.
struct Stage {
    bench: Bench,
    words: Words,
    streams: Vec<Stream>,
    holder: Holder,
    until: Option<u64>,
    /// Whether the holder leads, or runs something on each occurrence.
    hears_of_work_only: bool,
    told: UnboundedReceiver<String>,
    returned: UnboundedReceiver<String>,
}

impl Stage {
    fn new(kernel: &str) -> Self {
        let bench = Bench::of(Client::builder("vectors"));
        let ((tell, told), (give, returned)) = (unbounded_channel(), unbounded_channel());
        let holder = Holder {
            client: bench.client.clone(),
            had: Arc::default(),
            runs: Arc::default(),
            closed: Arc::default(),
            finish: Arc::default(),
            told: tell,
            returned: give,
        };
        let (words, streams) = (Words::new(kernel), Vec::new());
        let (until, hears_of_work_only) = (None, false);
        Self { bench, words, streams, holder, until, hears_of_work_only, told, returned }
    }

    fn is_valid(&self) -> bool {
        self.bench.sidecar.believed().is_some_and(|hold| hold.is_valid())
    }

    /// Milliseconds since the vector began.
    fn time(&self) -> u64 {
        since_base(self.bench.client.clock.now())
    }

    /// Lets the time go to a moment of the vector, and all be done that is due by then.
    async fn pass(&mut self, to: u64) {
        let awake = Duration::from_millis(to) - self.bench.clock.slept();
        tokio::time::sleep_until(self.bench.clock.began + awake).await;
        self.settle().await;
    }

    /// Waits until nothing but timers goes on.
    async fn settle(&mut self) {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        while let Some(call) = self.bench.try_opened() {
            self.streams.push(Stream { call: Some(call), is_granted: false });
        }
    }

    /// Does what a step says, and compares what came of it.
    async fn play(&mut self, step: &Value) {
        let at = step["at"].as_u64().unwrap();
        self.reach(at).await;
        let slept = step["sleep"].as_u64().unwrap_or(0);
        self.bench.clock.sleep(Duration::from_millis(slept));
        for (name, said) in entries(&step["answer"]) {
            let call = call_of(name);
            self.bench.sidecar.give(call, Ok(self.words.told(call, said)));
        }
        for (name, said) in entries(&step["refuse"]) {
            self.bench.sidecar.refuse(call_of(name), status(said));
        }
        for (name, deed) in entries(&step["do"]) {
            self.hears_of_work_only |= matches!(name.as_str(), "lead" | "every");
            let (holder, sidecar) = (self.holder.clone(), Arc::clone(&self.bench.sidecar));
            tokio::spawn(holder.does(sidecar, name.clone(), deed.clone()));
        }
        self.settle().await;
        let on = step["on"].as_u64().map_or(self.streams.len(), |on| usize::try_from(on).unwrap());
        let told = step["tell"].as_array().cloned();
        for event in told.unwrap_or_else(|| step.get("tell").cloned().into_iter().collect()) {
            let stream = &mut self.streams[on - 1];
            stream.is_granted |= event.get("granted").or_else(|| event.get("run")).is_some();
            if let Some(call) = stream.call.as_ref().filter(|call| call.is_open()) {
                call.say(self.words.told(call.asked.call, &event));
            }
        }
        if let Some(said) = step.get("break") {
            let call = self.streams[on - 1].call.take().unwrap();
            if said.get("code").is_some() {
                call.fail(status(said));
            }
        }
        self.settle().await;
        self.pass(at + slept + step["within"].as_u64().unwrap_or(0)).await;
        self.compare(at, step);
    }

    /// Lets the time go on to a step. The validity ends at its end, neither sooner nor later.
    async fn reach(&mut self, at: u64) {
        if let Some(until) = self.until.filter(|until| self.time() < *until && *until < at) {
            self.pass(until - 1).await;
            assert!(self.is_valid(), "before {at}: the hold is over already");
            self.pass(until).await;
            assert!(!self.is_valid(), "before {at}: the hold is not over");
        }
        self.pass(at).await;
    }

    fn compare(&mut self, at: u64, step: &Value) {
        let sent = self.bench.sidecar.taken();
        let sent: Vec<_> = sent.iter().map(|asked| self.words.said(asked)).collect();
        assert_eq!(sent, texts(&step["sent"]), "at {at}: sent");
        let is_valid = self.is_valid();
        let mut is_replaced = false;
        for stream in self.streams.iter().rev() {
            let is_ended = stream.call.as_ref().is_some_and(|call| !call.is_open());
            let is_kept = !(is_ended && is_valid && !is_replaced);
            assert!(is_kept, "at {at}: a stream was ended while the hold was valid (S14)");
            is_replaced |= stream.is_granted;
        }
        let told: Vec<_> = std::iter::from_fn(|| self.told.try_recv().ok()).collect();
        let mut expected = texts(&step["told"]);
        if self.hears_of_work_only {
            expected.retain(|text| text.starts_with("term ") || text.starts_with("run "));
        }
        assert_eq!(told, expected, "at {at}: told");
        let mut returned: Vec<_> = std::iter::from_fn(|| self.returned.try_recv().ok()).collect();
        let mut expected = texts(&step["returned"]);
        if step["do"].get("close").is_some() {
            // In whatever order.
            returned.sort();
            expected.sort();
        }
        assert_eq!(returned, expected, "at {at}: returned");
        if let Some(until) = step.get("until") {
            self.until = until.as_u64();
        }
        let state = self.bench.sidecar.believed().filter(|_| is_valid);
        let until = state.map(|state| since_base(state.valid_until()));
        assert_eq!(until, self.until, "at {at}: until");
        if let Some(max_hold) = step["max_hold"].as_u64() {
            let ends = self.holder.had.lock().unwrap().as_ref().and_then(|had| had.ends());
            assert_eq!(ends.map(since_base), Some(max_hold), "at {at}: max_hold");
        }
        if let Some(open) = step["open"].as_array() {
            let lives = |stream: &Stream| stream.call.as_ref().is_some_and(Opened::is_open);
            let numbers = self.streams.iter().zip(1_u64..).filter(|(stream, _)| lives(stream));
            let seen: Vec<_> = numbers.map(|(_, number)| Value::from(number)).collect();
            assert_eq!(seen, *open, "at {at}: open");
        }
    }
}

async fn asked(hold: &Hold, name: &str, deed: &Value) -> Result<String, Error> {
    match name {
        "report_progress" => hold.report_progress().await?,
        "extend_lease" => {
            let max_hold = deed["max_hold"].as_u64().unwrap();
            hold.extend(Duration::from_millis(max_hold)).await?;
        }
        "save_checkpoint" => {
            return Ok(hold.save(deed["value"].as_str().unwrap()).await?.to_string());
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
    if matches!(error, Error::Protocol(FAILED)) {
        return "failed".to_owned();
    }
    format!("refused {}", error.reason().map_or("", |reason| reason.as_str()))
}

/// How a vector says what a holder is told.
pub(super) fn text_of(event: HoldEvent) -> String {
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

/// How the stubs name a call.
fn call_of(name: &str) -> &str {
    if name == "release" { "release_lease" } else { name }
}

fn text_between(event: ScheduleEvent) -> String {
    match event {
        ScheduleEvent::Subscribed(_) => "subscribed".to_owned(),
        ScheduleEvent::Standby(_) => "standby".to_owned(),
        ScheduleEvent::DefinitionInForce(definition) if definition.conflict => {
            "definition conflict".to_owned()
        }
        ScheduleEvent::DefinitionInForce(_) => "definition".to_owned(),
        ScheduleEvent::Draining { time_left } => format!("draining {}", time_left.as_millis()),
        ScheduleEvent::Interrupted { .. } => "interrupted".to_owned(),
    }
}

#[test]
fn the_client_does_with_a_hold_what_the_vectors_say() {
    play_all(include_str!("../../../../proto/vectors/client.jsonl"));
}

#[test]
fn the_client_does_with_runs_what_the_vectors_say() {
    play_all(include_str!("../../../../proto/vectors/runs.jsonl"));
}

fn play_all(text: &str) {
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
