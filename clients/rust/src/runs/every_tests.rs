//! A closure on each occurrence.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::Status;

use super::every::Every;
use super::tests::{granted, nightly, standby};
use super::*;
use crate::fake::{Bench, PATIENCE, SubscribeCall, eventually};
use crate::hold::lead::Pacing;
use crate::messages::Completion;
use crate::proto::Lost;

/// A pacing without pauses.
struct Quick;

impl Pacing for Quick {
    async fn sleep(&self, _pause: Duration) {
        tokio::task::yield_now().await;
    }

    fn random(&self) -> f64 {
        0.0
    }
}

/// What the work of a run does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    Succeeds,
    Fails,
    Returns,
    Lasts,
}

/// A caller at work.
struct Worker {
    done: JoinHandle<Result<(), Error>>,
    stop: Option<oneshot::Sender<()>>,
    begun: UnboundedReceiver<Arc<Run>>,
}

impl Worker {
    fn start(bench: &Bench, work: Work) -> Self {
        let client = bench.client.clone();
        let ((sender, begun), (stop, stopped)) = (unbounded_channel(), oneshot::channel());
        let done = tokio::spawn(async move {
            let work = async |run: Arc<Run>| {
                sender.send(run).unwrap();
                match work {
                    Work::Succeeds => Ok(Completion::succeeded()),
                    Work::Fails => Err("no disk"),
                    Work::Returns => Ok(Completion::returned()),
                    Work::Lasts => std::future::pending().await,
                }
            };
            let runs = client.runs(nightly());
            Every { client: &client, runs, work, pacing: &Quick }.run(pin!(stopped)).await
        });
        Self { done, stop: Some(stop), begun }
    }

    async fn begun(&mut self) -> Arc<Run> {
        let begun = tokio::time::timeout(PATIENCE, self.begun.recv()).await;
        begun.expect("the work begins").unwrap()
    }

    async fn stopped(mut self) -> Result<(), Error> {
        drop(self.stop.take());
        let done = tokio::time::timeout(PATIENCE, self.done).await;
        done.expect("it ends").unwrap()
    }
}

async fn granting(bench: &mut Bench) -> SubscribeCall {
    let call = bench.sidecar.subscription().await;
    call.tell(standby()).await;
    call.tell(Event::Run(granted())).await;
    call
}

#[tokio::test]
async fn what_the_work_gives_is_the_outcome() {
    for (work, outcome) in [
        (Work::Succeeds, "SUCCEEDED \"\""),
        (Work::Fails, "FAILED \"no disk\""),
        (Work::Returns, "RETURNED \"\""),
    ] {
        let mut bench = Bench::new().await;
        let mut worker = Worker::start(&bench, work);
        let call = granting(&mut bench).await;
        // Kept for longer than the run: nothing waits for that.
        let first = worker.begun().await;
        let sidecar = &bench.sidecar;
        eventually("it is completed", || !sidecar.asked().is_empty()).await;
        assert!(bench.sidecar.asked()[0].ends_with(outcome), "{:?}", bench.sidecar.asked());
        call.tell(Event::Run(granted())).await;
        let second = worker.begun().await;
        assert!(!first.is_valid(), "S13");
        drop(second);
        worker.stopped().await.unwrap();
    }
}

#[tokio::test]
async fn work_is_dropped_when_the_run_is_lost_and_another_follows() {
    let mut bench = Bench::new().await;
    let mut worker = Worker::start(&bench, Work::Lasts);
    let call = granting(&mut bench).await;
    let first = worker.begun().await;
    call.tell(Event::Lost(Lost::default())).await;
    call.tell(Event::Run(granted())).await;
    let _second = worker.begun().await;
    assert!(!first.is_valid());
    // T24: by this it is heard of again.
    let asked = bench.sidecar.asked();
    assert!(asked.len() == 1 && asked[0].ends_with("RETURNED \"\""), "{asked:?}");
}

#[tokio::test]
async fn a_run_that_is_stopped_is_returned() {
    let mut bench = Bench::new().await;
    let mut worker = Worker::start(&bench, Work::Lasts);
    let _call = granting(&mut bench).await;
    let run = worker.begun().await;
    worker.stopped().await.unwrap();
    assert!(!run.is_valid());
    assert!(bench.sidecar.asked()[0].ends_with("RETURNED \"\""), "{:?}", bench.sidecar.asked());
}

#[tokio::test]
async fn it_goes_on_while_no_sidecar_answers_and_ends_where_that_does_not_help() {
    let mut bench = Bench::new().await;
    let worker = Worker::start(&bench, Work::Succeeds);
    for _ in 0..3 {
        bench.sidecar.subscription().await.fail(Status::unavailable("not yet")).await;
    }
    bench.sidecar.subscription().await.fail(Status::invalid_argument("spec.cron")).await;
    let ended = tokio::time::timeout(PATIENCE, worker.done).await.unwrap().unwrap();
    assert_eq!(ended.unwrap_err().code(), Some(crate::Code::InvalidArgument));
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_completion_that_nobody_answers() {
    let mut bench = Bench::new().await;
    let mut worker = Worker::start(&bench, Work::Succeeds);
    let away = || Err(Status::unavailable("the store is away"));
    bench.sidecar.script.lock().unwrap().completions = vec![away(); 1_000];
    let _call = granting(&mut bench).await;
    let _run = worker.begun().await;
    let sidecar = &bench.sidecar;
    eventually("it is asked", || !sidecar.asked().is_empty()).await;
    worker.stopped().await.unwrap();
}
