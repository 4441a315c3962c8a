//! Calls that need no storage, over a bare tonic echo.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::store::MemoryStore;
use leasehold::time::BootClock;
use leasehold_client::proto::{
    GetLockRequest, LockKey, LockSelector, ReportProgressRequest, ReportProgressResponse,
    lock_selector,
};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic_prost::ProstCodec;

use crate::echo;
use crate::figure::{Figures, Stopwatch, median, typical};
use crate::sidecar::{self, Client, acquire, connect, runtime};

/// In each turn.
const WARM_UP: usize = 20;
const CALLS: usize = 100;
const AT_ONCE: usize = 64;
const EACH: usize = 10;
const TURNS: usize = 20;

pub(crate) fn measure(figures: &mut Figures) {
    let ratios = typical(|| runtime().block_on(compare()));
    for (name, [median, throughput]) in
        [("GetLock, held here", [ratios[0], ratios[1]]), ("ReportProgress", [ratios[2], ratios[3]])]
    {
        figures.at_most(&format!("{name}: median over a bare tonic echo"), median, 1.5, " ×");
        let name = format!("{name}: throughput over a bare tonic echo");
        figures.at_least(&name, throughput, 0.6, " ×");
    }
}

/// One kind of call.
#[derive(Clone)]
enum Call {
    Echo(Channel),
    GetLock(Client),
    ReportProgress(Client, String),
}

impl Call {
    async fn make(&mut self) {
        match self {
            Self::Echo(channel) => echo(channel).await,
            Self::GetLock(client) => {
                let key = LockKey { function: "held".to_owned(), ..LockKey::default() };
                let lock = LockSelector { lock: Some(lock_selector::Lock::Key(key)), permit: 0 };
                client
                    .get_lock(GetLockRequest { lock: Some(lock), ..GetLockRequest::default() })
                    .await
                    .unwrap();
            }
            Self::ReportProgress(client, lease_id) => {
                let lease_id = lease_id.clone();
                let request = ReportProgressRequest { lease_id, generation: 0 };
                client.report_progress(request).await.unwrap();
            }
        }
    }
}

/// One call of the echo.
pub(crate) async fn echo(channel: &Channel) {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    let codec = ProstCodec::<ReportProgressRequest, ReportProgressResponse>::default();
    let request = tonic::Request::new(ReportProgressRequest::default());
    grpc.unary(request, PathAndQuery::from_static("/bench.Echo/Echo"), codec).await.unwrap();
}

/// Of each call, its time and its throughput over the echo's.
async fn compare() -> [f64; 4] {
    let folder = tempfile::tempdir().unwrap();
    let (ours, bare) = (folder.path().join("sidecar"), folder.path().join("echo"));
    sidecar::start(&ours, Arc::new(MemoryStore::new(Arc::new(BootClock::new()))));
    echo::serve(&bare);
    let mut client = Client::new(connect(&ours).await);
    let lease_id = acquire(&mut client, "held", 0).await.lease_id;
    let mut calls = [
        Call::Echo(connect(&bare).await),
        Call::GetLock(client.clone()),
        Call::ReportProgress(client, lease_id),
    ];
    let watch = Stopwatch::new();
    let mut times: [Vec<Duration>; 3] = Default::default();
    let mut spans = [Duration::ZERO; 3];
    for turn in 0..=TURNS {
        for (index, call) in calls.iter_mut().enumerate() {
            // A server that has just been idle takes longer: not counted.
            for number in 0..WARM_UP + CALLS {
                let ((), time) = watch.time(call.make()).await;
                if turn > 0 && number >= WARM_UP {
                    times[index].push(time);
                }
            }
            let ((), span) = watch.time(many(call)).await;
            if turn > 0 {
                spans[index] += span;
            }
        }
    }
    let [echo, get_lock, report] = times.map(median);
    let [echo_span, get_lock_span, report_span] = spans.map(|span| span.as_secs_f64());
    [get_lock / echo, echo_span / get_lock_span, report / echo, echo_span / report_span]
}

async fn many(call: &Call) {
    let callers = (0..AT_ONCE).map(|_| {
        let mut call = call.clone();
        async move {
            for _ in 0..EACH {
                call.make().await;
            }
        }
    });
    join_all(callers).await;
}
