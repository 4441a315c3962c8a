//! A closure on each occurrence.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::Status;

use super::tests::{completed, granted, nightly, standby};
use super::*;
use crate::fake::{Bench, Opened, run, seconds, soon};
use crate::messages::Completion;

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
            client.every_until(nightly(), stopped, work).await
        });
        Self { done, stop: Some(stop), begun }
    }

    async fn begun(&mut self) -> Arc<Run> {
        soon(self.begun.recv()).await.unwrap()
    }

    async fn stopped(mut self) -> Result<(), Error> {
        drop(self.stop.take());
        soon(self.done).await.unwrap()
    }
}

async fn granting(bench: &mut Bench) -> Opened {
    let stream = bench.opened().await;
    stream.tell(&standby());
    stream.tell(&granted());
    stream
}

#[tokio::test(start_paused = true)]
async fn what_the_work_gives_is_the_outcome_and_another_run_follows() {
    for (work, outcome) in [
        (Work::Succeeds, "complete_run 1 SUCCEEDED"),
        (Work::Fails, "complete_run 1 FAILED no disk"),
        (Work::Returns, "complete_run 1 RETURNED"),
        // T24: by this it is heard of again.
        (Work::Lasts, "complete_run 1 RETURNED"),
    ] {
        let mut bench = Bench::new();
        let mut worker = Worker::start(&bench, work);
        let stream = granting(&mut bench).await;
        // Kept for longer than the run: nothing waits for that.
        let first = worker.begun().await;
        if work == Work::Lasts {
            stream.tell(&json!({"lost": {}}));
        }
        tokio::time::sleep(seconds(1)).await;
        assert_eq!(completed(&bench), [outcome], "{work:?}");
        if work == Work::Lasts {
            let _another = granting(&mut bench).await;
        } else {
            stream.tell(&granted());
        }
        let _second = worker.begun().await;
        assert!(!first.is_valid(), "S13");
        worker.stopped().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_stopped_is_returned_and_one_past_its_deadline_has_failed() {
    for stops in [true, false] {
        let mut bench = Bench::new();
        let mut worker = Worker::start(&bench, Work::Lasts);
        let stream = bench.opened().await;
        stream.tell(&standby());
        stream.tell(&run(json!({"deadline": {"after": 30_000}, "max_hold": {"after": 50_000}})));
        let run = worker.begun().await;
        if stops {
            worker.stopped().await.unwrap();
            assert_eq!(completed(&bench), ["complete_run 1 RETURNED"]);
        } else {
            tokio::time::sleep(seconds(40)).await;
            let outcome = "complete_run 1 FAILED_FINAL stopped at its deadline";
            assert_eq!(completed(&bench), [outcome]);
        }
        assert!(!run.is_valid());
    }
}

#[tokio::test(start_paused = true)]
async fn it_goes_on_while_no_sidecar_answers_and_ends_where_that_does_not_help() {
    let mut bench = Bench::new();
    let worker = Worker::start(&bench, Work::Succeeds);
    for _ in 0..3 {
        bench.opened().await.fail(Status::unavailable("not yet"));
    }
    bench.opened().await.fail(Status::invalid_argument("spec.cron"));
    let ended = soon(worker.done).await.unwrap();
    assert_eq!(ended.unwrap_err().code(), Some(crate::Code::InvalidArgument));
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_completion_that_nobody_answers() {
    let mut bench = Bench::new();
    let mut worker = Worker::start(&bench, Work::Succeeds);
    bench.sidecar.always("complete_run", Err(Status::unavailable("the store is away")));
    let _stream = granting(&mut bench).await;
    let _run = worker.begun().await;
    tokio::time::sleep(seconds(1)).await;
    assert!(bench.sidecar.calls("complete_run").len() > 1);
    worker.stopped().await.unwrap();
}
