//! Leading: a term after the other, and what ends it.

use std::sync::Mutex;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::Status;

use super::*;
use crate::fake::{Bench, HoldCall, OURS, PATIENCE, eventually, grant, seconds, validity};
use crate::proto::hold_lease_request::Start;
use crate::proto::hold_lease_response::Event;
use crate::proto::{LossReason, Lost, Revoked};

/// Pauses that take no time and are told.
struct Told(UnboundedSender<Duration>);

impl Pacing for Told {
    async fn sleep(&self, pause: Duration) {
        let _gone = self.0.send(pause);
        tokio::task::yield_now().await;
    }

    fn random(&self) -> f64 {
        1.0
    }
}

/// What the work of a term does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    /// Lasts until it is told to end.
    UntilLost,
    /// Ends at the notice.
    UntilRevoked,
    /// Ends at once.
    Once,
    /// Fails at once.
    Fails,
}

/// A leader at work.
struct Leader {
    done: JoinHandle<Result<Option<u64>, Error>>,
    stop: Option<oneshot::Sender<()>>,
    terms: UnboundedReceiver<Arc<Hold>>,
    pauses: UnboundedReceiver<Duration>,
}

impl Leader {
    fn start(bench: &Bench, work: Work) -> Self {
        let client = bench.client.clone();
        let ((told, pauses), (begun, terms)) = (unbounded_channel(), unbounded_channel());
        let (stop, stopped) = oneshot::channel();
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
            let spec = LeaseSpec::new("f");
            let leading = Leading { client: &client, spec, work: run, pacing: &Told(told) };
            leading.run(pin!(stopped)).await
        });
        Self { done, stop: Some(stop), terms, pauses }
    }

    /// Grants the next term.
    async fn term(&mut self, bench: &mut Bench) -> (Arc<Hold>, HoldCall) {
        let call = bench.sidecar.hold().await;
        let Start::Spec(spec) = &call.start else { panic!("a term is a new hold") };
        assert!(spec.wait_without_end, "a leader waits without end");
        call.tell(grant(validity(OURS, 1_058, 58))).await;
        (soon(self.terms.recv()).await.unwrap(), call)
    }

    async fn pause(&mut self) -> Duration {
        soon(self.pauses.recv()).await.unwrap()
    }

    async fn end(self) -> Result<Option<u64>, Error> {
        soon(self.done).await.unwrap()
    }
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it comes")
}

fn taken() -> Event {
    Event::Lost(Lost { reason: LossReason::Taken.into(), ..Lost::default() })
}

#[tokio::test]
async fn a_leader_leads_again_after_a_loss_until_it_is_stopped() {
    let mut bench = Bench::new().await;
    let mut leader = Leader::start(&bench, Work::UntilLost);
    for _ in 0..2 {
        let (term, call) = leader.term(&mut bench).await;
        call.tell(taken()).await;
        soon(term.lost()).await;
        assert_eq!(leader.pause().await, seconds(1), "a term that was granted makes pauses short");
    }
    let (_term, _call) = leader.term(&mut bench).await;
    leader.stop.take().unwrap().send(()).unwrap();
    assert_eq!(leader.end().await.unwrap(), None);
    // S13: each term that was lost says that it knows, and the last one is released.
    eventually("each term is over for the sidecar", || bench.sidecar.asked().len() == 3).await;
    assert_eq!(bench.sidecar.asked(), ["release lease-1 of generation 1"; 3]);
}

#[tokio::test]
async fn a_leader_that_waits_is_stopped_and_leaves_the_queue() {
    let mut bench = Bench::new().await;
    let mut leader = Leader::start(&bench, Work::UntilLost);
    let call = bench.sidecar.hold().await;
    leader.stop.take().unwrap().send(()).unwrap();
    assert_eq!(leader.end().await.unwrap(), None);
    call.ended().await;
}

#[tokio::test]
async fn work_that_comes_back_ends_leading_with_its_value_or_error() {
    let mut bench = Bench::new().await;
    for work in [Work::Once, Work::Fails] {
        let mut leader = Leader::start(&bench, work);
        let (_term, _call) = leader.term(&mut bench).await;
        match leader.end().await {
            Ok(value) => assert_eq!((value, work), (Some(65_536), Work::Once)),
            Err(error) => {
                assert!(matches!(error, Error::Protocol(_)), "{error}");
                assert_eq!(work, Work::Fails);
            }
        }
        let asked = std::mem::take(&mut bench.sidecar.script.lock().unwrap().asked);
        assert_eq!(asked, ["release lease-1 of generation 1"]);
    }
}

#[tokio::test]
async fn s22_work_that_comes_back_after_its_notice_is_followed_by_another_term() {
    let mut bench = Bench::new().await;
    let mut leader = Leader::start(&bench, Work::UntilRevoked);
    let (_term, call) = leader.term(&mut bench).await;
    call.tell(Event::Revoked(Revoked::default())).await;
    let (_term, _call) = leader.term(&mut bench).await;
    assert_eq!(bench.sidecar.asked(), ["release lease-1 of generation 1"], "the first term");
}

#[tokio::test]
async fn s13_a_last_term_whose_release_finds_the_lock_lost_is_an_error() {
    let mut bench = Bench::new().await;
    bench.sidecar.script.lock().unwrap().release = Some(crate::proto::ReleaseResult {
        outcome: crate::proto::ReleaseOutcome::AlreadyLost.into(),
        ..crate::proto::ReleaseResult::default()
    });
    let mut leader = Leader::start(&bench, Work::Once);
    let (_term, _call) = leader.term(&mut bench).await;
    let error = leader.end().await.unwrap_err();
    assert!(matches!(error, Error::Lost(_)), "{error}");
}

#[tokio::test]
async fn pauses_grow_while_no_sidecar_answers_and_leading_goes_on() {
    let mut bench = Bench::new().await;
    bench.kill();
    let mut leader = Leader::start(&bench, Work::UntilLost);
    for wanted in [1, 2, 4, 8, 10, 10] {
        assert_eq!(leader.pause().await, seconds(wanted));
    }
    bench.start();
    let (_term, _call) = leader.term(&mut bench).await;
}

#[tokio::test]
async fn a_refusal_that_trying_again_does_not_help_ends_leading() {
    use tonic::Code;
    let mut bench = Bench::new().await;
    for (code, passes) in [
        (Code::PermissionDenied, false),
        (Code::InvalidArgument, false),
        (Code::Internal, false),
        (Code::DataLoss, false),
        (Code::Unavailable, true),
        (Code::ResourceExhausted, true),
    ] {
        let mut leader = Leader::start(&bench, Work::UntilLost);
        bench.sidecar.hold().await.fail(Status::new(code, "no")).await;
        if passes {
            leader.pause().await;
            leader.done.abort();
            assert!(soon(&mut leader.done).await.is_err());
            // One that it may have asked for meanwhile is not the next leader's.
            bench.kill();
            bench.start();
        } else {
            let error = leader.end().await.unwrap_err();
            assert!(matches!(error, Error::Refused(_)), "{code:?}: {error}");
        }
    }
}

#[test]
fn pauses_are_spread_between_a_tenth_of_a_second_and_their_longest() {
    struct Least;
    impl Pacing for Least {
        async fn sleep(&self, _pause: Duration) {}
        fn random(&self) -> f64 {
            0.0
        }
    }
    assert_eq!(Least.pause(3), Duration::from_millis(100));
    let pauses: Vec<Duration> = (0..100).map(|_| Timer.pause(0)).collect();
    assert!(pauses.iter().all(|pause| (SHORTEST_TERM_PAUSE..=FIRST_TERM_PAUSE).contains(pause)));
    assert!(pauses.iter().any(|pause| pause != &pauses[0]));
}

/// As programs call it, and from a task of its own.
#[tokio::test]
async fn a_caller_leads_in_a_task_of_its_own_with_a_plain_closure() {
    let mut bench = Bench::new().await;
    let client = bench.client.clone();
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&tokens);
    let leading = tokio::spawn(async move {
        client
            .lead(LeaseSpec::new("f"), async |term| {
                seen.lock().unwrap().push(term.fencing_token());
                Ok::<_, Error>(1)
            })
            .await
    });
    bench.sidecar.hold().await.tell(grant(validity(OURS, 1_058, 58))).await;
    assert_eq!(soon(leading).await.unwrap().unwrap(), 1);
    assert_eq!(*tokens.lock().unwrap(), [65_536]);
}
