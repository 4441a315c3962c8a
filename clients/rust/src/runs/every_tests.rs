//! A closure on each occurrence.

use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::Status;

use super::tests::{granted, nightly, standby};
use super::*;
use crate::fake::{Bench, Opened, seconds, soon};
use crate::messages::Completion;
use crate::proto::{CompleteRunRequest, CompleteRunResponse, Lost, RunOutcome};

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
    stream.tell(standby());
    stream.tell(Event::Run(granted()));
    stream
}

/// What was said of the only run that has ended.
fn completed(bench: &Bench) -> (RunOutcome, String) {
    let asked = bench.sidecar.calls("complete_run");
    assert_eq!(asked.len(), 1);
    let request: CompleteRunRequest = asked[0].request();
    (request.outcome(), request.detail)
}

#[tokio::test(start_paused = true)]
async fn what_the_work_gives_is_the_outcome_and_another_run_follows() {
    for (work, outcome, detail) in [
        (Work::Succeeds, RunOutcome::Succeeded, ""),
        (Work::Fails, RunOutcome::Failed, "no disk"),
        (Work::Returns, RunOutcome::Returned, ""),
        // T24: by this it is heard of again.
        (Work::Lasts, RunOutcome::Returned, ""),
    ] {
        let mut bench = Bench::new();
        let mut worker = Worker::start(&bench, work);
        let stream = granting(&mut bench).await;
        // Kept for longer than the run: nothing waits for that.
        let first = worker.begun().await;
        if work == Work::Lasts {
            stream.tell(Event::Lost(Lost::default()));
        }
        tokio::time::sleep(seconds(1)).await;
        assert_eq!(completed(&bench), (outcome, detail.to_owned()), "{work:?}");
        stream.tell(Event::Run(granted()));
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
        stream.tell(standby());
        let mut bounded = granted();
        let within = |seconds: u64| {
            let after = Some(crate::messages::wire_duration(self::seconds(seconds)));
            Some(proto::Deadline { at: None, after })
        };
        bounded.deadline = within(30);
        bounded.grant.as_mut().unwrap().max_hold_ends = within(50);
        stream.tell(Event::Run(bounded));
        let run = worker.begun().await;
        if stops {
            worker.stopped().await.unwrap();
            assert_eq!(completed(&bench), (RunOutcome::Returned, String::new()));
        } else {
            tokio::time::sleep(seconds(40)).await;
            let detail = "stopped at its deadline".to_owned();
            assert_eq!(completed(&bench), (RunOutcome::FailedFinal, detail));
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
    let away = Err::<CompleteRunResponse, _>(Status::unavailable("the store is away"));
    bench.sidecar.always("complete_run", away);
    let _stream = granting(&mut bench).await;
    let _run = worker.begun().await;
    tokio::time::sleep(seconds(1)).await;
    assert!(bench.sidecar.calls("complete_run").len() > 1);
    worker.stopped().await.unwrap();
}
