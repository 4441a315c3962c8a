//! Leading: a term after the other, and what ends it.

use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::{Code, Status};

use super::*;
use crate::fake::{Bench, Opened, granted, seconds, soon};
use crate::hold::tests::taken;
use crate::proto::HoldLeaseRequest;
use crate::proto::hold_lease_request::Start;

/// A leader waits without end.
const ASKED: &str = "hold wait_without_end";

/// What the work of a term does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    UntilLost,
    UntilRevoked,
    Once,
    Fails,
}

/// A leader at work.
struct Leader {
    done: JoinHandle<Result<Option<u64>, Error>>,
    stop: Option<oneshot::Sender<()>>,
    terms: UnboundedReceiver<Arc<Hold>>,
}

impl Leader {
    fn start(bench: &Bench, work: Work) -> Self {
        let client = bench.client.clone();
        let ((begun, terms), (stop, stopped)) = (unbounded_channel(), oneshot::channel());
        let done = tokio::spawn(async move {
            let run = async |term: Arc<Hold>| {
                begun.send(Arc::clone(&term)).unwrap();
                match work {
                    Work::UntilLost => std::future::pending().await,
                    Work::UntilRevoked => drop(term.revoked().await),
                    Work::Once => {}
                    Work::Fails => return Err(Error::Protocol("the work has failed")),
                }
                Ok(term.fencing_token())
            };
            client.lead_until(LeaseSpec::new("f"), stopped, run).await
        });
        Self { done, stop: Some(stop), terms }
    }

    /// Grants the next term.
    async fn term(&mut self, bench: &mut Bench) -> (Arc<Hold>, Opened) {
        let stream = bench.opened().await;
        let request: HoldLeaseRequest = stream.asked.request();
        let Some(Start::Spec(spec)) = request.start else { panic!("a term is a new hold") };
        assert!(spec.wait_without_end, "a leader waits without end");
        stream.tell(&granted(Value::Null));
        (soon(self.terms.recv()).await.unwrap(), stream)
    }

    async fn end(mut self, stops: bool) -> Result<Option<u64>, Error> {
        if stops {
            drop(self.stop.take());
        }
        soon(self.done).await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_leads_again_after_a_loss_until_it_is_stopped() {
    let mut bench = Bench::new();
    let mut leader = Leader::start(&bench, Work::UntilLost);
    let (mut term, mut stream) = leader.term(&mut bench).await;
    for _ in 0..20 {
        stream.tell(&json!({"lost": {}}));
        soon(term.lost()).await;
        let lost = bench.client.clock.now();
        (term, stream) = leader.term(&mut bench).await;
        let pauses = SHORTEST_TERM_PAUSE..=FIRST_TERM_PAUSE;
        let paused = bench.client.clock.now().saturating_since(lost);
        assert!(pauses.contains(&paused), "a term that was granted makes pauses short");
    }
    assert_eq!(leader.end(true).await.unwrap(), None);
    // S13: each term that was lost says that it knows, and the last one is released.
    tokio::time::sleep(seconds(1)).await;
    assert_eq!(bench.sidecar.calls("release_lease").len(), 21);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_waits_is_stopped_and_leaves_the_queue() {
    let mut bench = Bench::new();
    let leader = Leader::start(&bench, Work::UntilLost);
    let stream = bench.opened().await;
    assert_eq!(leader.end(true).await.unwrap(), None);
    stream.ended().await;
}

#[tokio::test(start_paused = true)]
async fn work_that_comes_back_ends_leading_with_its_value_or_error() {
    let mut bench = Bench::new();
    for work in [Work::Once, Work::Fails] {
        let mut leader = Leader::start(&bench, work);
        let (_term, _stream) = leader.term(&mut bench).await;
        match leader.end(false).await {
            Ok(value) => assert_eq!((value, work), (Some(65_536), Work::Once)),
            Err(error) => {
                assert!(matches!(error, Error::Protocol(_)) && work == Work::Fails, "{error}");
            }
        }
        assert_eq!(bench.asked(), [ASKED, "release 1"]);
    }
    // S13: the lock may have been another's while it worked.
    bench.sidecar.answer("release_lease", &taken());
    let mut leader = Leader::start(&bench, Work::Once);
    let (_term, _stream) = leader.term(&mut bench).await;
    let error = leader.end(false).await.unwrap_err();
    assert!(matches!(error, Error::Lost(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn s22_work_that_comes_back_after_its_notice_is_followed_by_another_term() {
    let mut bench = Bench::new();
    let mut leader = Leader::start(&bench, Work::UntilRevoked);
    let (_term, stream) = leader.term(&mut bench).await;
    stream.tell(&json!({"revoked": {"by": {}}}));
    let (_term, _stream) = leader.term(&mut bench).await;
    assert_eq!(bench.asked(), [ASKED, "release 1", ASKED]);
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_while_no_sidecar_answers_and_leading_goes_on() {
    let mut bench = Bench::new();
    bench.sidecar.set_away(true);
    let mut leader = Leader::start(&bench, Work::UntilLost);
    tokio::time::sleep(seconds(1_000)).await;
    // 5 s a try, at the average, and 0.5 s if pauses did not grow.
    let tries = bench.sidecar.connections();
    assert!((100..400).contains(&tries), "{tries}");
    bench.sidecar.set_away(false);
    let (_term, _stream) = leader.term(&mut bench).await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_trying_again_does_not_help_ends_leading() {
    for (code, passes) in [
        (Code::PermissionDenied, false),
        (Code::InvalidArgument, false),
        (Code::DataLoss, false),
        (Code::Unavailable, true),
        (Code::ResourceExhausted, true),
        (Code::Internal, true),
    ] {
        let mut bench = Bench::new();
        let mut leader = Leader::start(&bench, Work::UntilLost);
        bench.opened().await.fail(Status::new(code, "no"));
        if passes {
            let _again = leader.term(&mut bench).await;
        } else {
            let error = leader.end(false).await.unwrap_err();
            assert!(matches!(error, Error::Refused(_)), "{code:?}: {error}");
        }
    }
}

#[test]
fn pauses_are_spread_between_a_tenth_of_a_second_and_their_longest() {
    for (failures, longest) in [(0, 1), (1, 2), (2, 4), (3, 8), (4, 10), (u32::MAX, 10)] {
        assert_eq!(pause(failures, 0.0), SHORTEST_TERM_PAUSE);
        assert_eq!(pause(failures, 1.0), seconds(longest));
    }
}

/// As programs call it, and from a task of its own.
#[tokio::test(start_paused = true)]
async fn a_caller_leads_in_a_task_of_its_own_with_a_plain_closure() {
    let mut bench = Bench::new();
    let client = bench.client.clone();
    let leading = tokio::spawn(async move {
        client.lead(LeaseSpec::new("f"), async |term| Ok::<_, Error>(term.fencing_token())).await
    });
    bench.opened().await.tell(&granted(Value::Null));
    assert_eq!(soon(leading).await.unwrap().unwrap(), 65_536);
}
