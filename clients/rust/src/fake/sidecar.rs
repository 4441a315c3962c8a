//! The sidecar of tests, over pipes in this process: it notes what is asked, and answers what and when a test
//! says.

use std::collections::HashMap;
use std::fmt::Debug;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};

use prost::Message;
use protox::prost_reflect::{DynamicMessage, MessageDescriptor};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use super::{Words, soon};
use crate::connect::Dial;
use crate::hold::HoldState;
use crate::proto::lease_service_server::{LeaseService, LeaseServiceServer};
use crate::proto::schedule_service_server::{ScheduleService, ScheduleServiceServer};
use crate::proto::*;

/// What a call, or a stream, is answered with: a message as it is sent.
pub(crate) type Answer = Result<Vec<u8>, Status>;

/// A call that a client has made.
#[derive(Clone)]
pub(crate) struct Asked {
    /// As the stubs name it.
    pub(crate) call: &'static str,
    request: Vec<u8>,
    metadata: MetadataMap,
    /// Over which connection it came, from 1.
    pub(crate) connection: usize,
    /// Whether the holder could rely on its hold then.
    pub(crate) while_valid: bool,
}

impl Asked {
    pub(crate) fn request<M: Message + Default>(&self) -> M {
        M::decode(self.request.as_slice()).unwrap()
    }

    pub(super) fn decoded(&self, kind: MessageDescriptor) -> DynamicMessage {
        DynamicMessage::decode(kind, self.request.as_slice()).unwrap()
    }

    /// What came with it under this name, or nothing.
    pub(crate) fn metadata(&self, name: &str) -> &str {
        self.metadata.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// A stream that a client has opened.
pub(crate) struct Opened {
    pub(crate) asked: Asked,
    events: mpsc::UnboundedSender<Answer>,
}

impl Opened {
    pub(crate) fn tell(&self, said: &Value) {
        self.say(Words::new("ours").told(self.asked.call, said));
    }

    pub(crate) fn say(&self, bytes: Vec<u8>) {
        self.events.send(Ok(bytes)).unwrap();
    }

    pub(crate) fn fail(self, status: Status) {
        self.events.send(Err(status)).unwrap();
    }

    /// Waits until the client has ended the stream.
    pub(crate) async fn ended(&self) {
        soon(self.events.closed()).await;
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.events.is_closed()
    }
}

#[derive(Default)]
struct State {
    connections: usize,
    is_away: bool,
    asked: Vec<Asked>,
    /// Calls that were not answered yet, the oldest first.
    waiting: Vec<(&'static str, oneshot::Sender<Answer>)>,
    /// Answers to calls that are yet to come, the oldest first.
    prepared: Vec<(String, Answer)>,
    /// Answers to calls for which none is prepared.
    always: HashMap<&'static str, Answer>,
    believed: Option<Arc<HoldState>>,
}

/// What was asked, and what is answered.
pub(crate) struct Sidecar {
    state: Mutex<State>,
    opened: mpsc::UnboundedSender<Opened>,
}

impl Sidecar {
    pub(super) fn new(opened: mpsc::UnboundedSender<Opened>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), opened })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Opens connections to it.
    pub(super) fn dial(self: &Arc<Self>) -> Dial {
        let sidecar = Arc::clone(self);
        Dial::by(move || {
            let service = Service::new(&sidecar);
            async move {
                let service = service.ok_or(io::ErrorKind::ConnectionRefused)?;
                let (ours, theirs) = tokio::io::duplex(1 << 16);
                let connection = tokio_stream::once(Ok::<_, io::Error>(theirs));
                let server = Server::builder()
                    .add_service(LeaseServiceServer::new(service.clone()))
                    .add_service(ScheduleServiceServer::new(service))
                    .serve_with_incoming(connection);
                tokio::spawn(async move { server.await.unwrap() });
                Ok(ours)
            }
        })
    }

    /// Whether nobody answers who connects.
    pub(crate) fn set_away(&self, is_away: bool) {
        self.state().is_away = is_away;
    }

    /// How many connections were asked for.
    pub(crate) fn connections(&self) -> usize {
        self.state().connections
    }

    /// Answers the oldest call of this name; where none waits, the next one.
    pub(crate) fn give(&self, call: &str, answer: Answer) {
        let mut state = self.state();
        state.waiting.retain(|(_, answer)| !answer.is_closed());
        match state.waiting.iter().position(|(waits, _)| *waits == call) {
            Some(oldest) => state.waiting.remove(oldest).1.send(answer).unwrap(),
            None => state.prepared.push((call.to_owned(), answer)),
        }
    }

    pub(crate) fn answer(&self, call: &str, said: &Value) {
        self.give(call, Ok(Words::new("ours").told(call, said)));
    }

    pub(crate) fn refuse(&self, call: &str, status: Status) {
        self.give(call, Err(status));
    }

    /// Answers all calls of this name to which nothing else is given.
    pub(crate) fn always(&self, call: &'static str, answer: Result<Value, Status>) {
        let answer = answer.map(|said| Words::new("ours").told(call, &said));
        self.state().always.insert(call, answer);
    }

    /// The hold that its holder relies on.
    pub(crate) fn believe(&self, hold: &Arc<HoldState>) {
        self.state().believed = Some(Arc::clone(hold));
    }

    pub(crate) fn believed(&self) -> Option<Arc<HoldState>> {
        self.state().believed.clone()
    }

    /// What was asked since this was called last.
    pub(crate) fn taken(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state().asked)
    }

    /// The calls of this name so far.
    pub(crate) fn calls(&self, call: &str) -> Vec<Asked> {
        self.state().asked.iter().filter(|asked| asked.call == call).cloned().collect()
    }

    /// The newest request of this call.
    pub(crate) fn last<M: Message + Default>(&self, call: &str) -> M {
        self.calls(call).last().expect("it is called").request()
    }

    pub(crate) fn check_last<M>(&self, call: &str, expected: M)
    where
        M: Message + Default + PartialEq + Debug,
    {
        assert_eq!(self.last::<M>(call), expected, "{call}");
    }
}

/// What answers over one connection.
#[derive(Clone)]
struct Service {
    sidecar: Arc<Sidecar>,
    connection: usize,
}

impl Service {
    fn new(sidecar: &Arc<Sidecar>) -> Option<Self> {
        let mut state = sidecar.state();
        state.connections += 1;
        let connection = state.connections;
        (!state.is_away).then(|| Self { sidecar: Arc::clone(sidecar), connection })
    }

    fn note<M: Message>(&self, call: &'static str, request: &Request<M>) -> Asked {
        let believed = self.sidecar.believed();
        let asked = Asked {
            call,
            request: request.get_ref().encode_to_vec(),
            metadata: request.metadata().clone(),
            connection: self.connection,
            while_valid: believed.is_some_and(|hold| hold.is_valid()),
        };
        self.sidecar.state().asked.push(asked.clone());
        asked
    }

    async fn answered<Q: Message, A: Message + Default>(
        &self,
        call: &'static str,
        request: Request<Q>,
    ) -> Result<Response<A>, Status> {
        self.note(call, &request);
        let (answer, answered) = oneshot::channel();
        {
            let mut state = self.sidecar.state();
            let prepared = state.prepared.iter().position(|(waits, _)| waits == call);
            let prepared = prepared.map(|oldest| state.prepared.remove(oldest).1);
            match prepared.or_else(|| state.always.get(call).cloned()) {
                Some(ready) => answer.send(ready).unwrap(),
                None => state.waiting.push((call, answer)),
            }
        }
        Ok(Response::new(A::decode(answered.await.unwrap()?.as_slice()).unwrap()))
    }

    fn opened<Q: Message, M: Message + Default>(
        &self,
        call: &'static str,
        request: &Request<Q>,
    ) -> Response<Events<M>> {
        let (events, told) = mpsc::unbounded_channel::<Answer>();
        let asked = self.note(call, request);
        let _gone = self.sidecar.opened.send(Opened { asked, events });
        let told = UnboundedReceiverStream::new(told);
        Response::new(Box::pin(
            told.map(|told| told.map(|bytes| M::decode(bytes.as_slice()).unwrap())),
        ))
    }
}

type Events<M> = Pin<Box<dyn tokio_stream::Stream<Item = Result<M, Status>> + Send>>;

/// Serves the streams in the braces, and the other calls.
macro_rules! serve {
    (
        $service:ident
        { $($stream:ident: $open:ident($asks:ident) -> $says:ident;)* }
        $($call:ident($request:ident) -> $answer:ident;)*
    ) => {
        #[tonic::async_trait]
        impl $service for Service {
            $(
                type $stream = Events<$says>;

                async fn $open(
                    &self,
                    request: Request<$asks>,
                ) -> Result<Response<Self::$stream>, Status> {
                    Ok(self.opened(stringify!($open), &request))
                }
            )*
            $(
                async fn $call(
                    &self,
                    request: Request<$request>,
                ) -> Result<Response<$answer>, Status> {
                    self.answered(stringify!($call), request).await
                }
            )*
        }
    };
}

serve! {
    LeaseService {
        HoldLeaseStream: hold_lease(HoldLeaseRequest) -> HoldLeaseResponse;
        WatchLockStream: watch_lock(WatchLockRequest) -> WatchLockResponse;
        WatchLocksStream: watch_locks(WatchLocksRequest) -> WatchLocksResponse;
    }
    acquire_lease(AcquireLeaseRequest) -> AcquireLeaseResponse;
    release_lease(ReleaseLeaseRequest) -> ReleaseLeaseResponse;
    extend_lease(ExtendLeaseRequest) -> ExtendLeaseResponse;
    report_progress(ReportProgressRequest) -> ReportProgressResponse;
    get_hold(GetHoldRequest) -> GetHoldResponse;
    save_checkpoint(SaveCheckpointRequest) -> SaveCheckpointResponse;
    get_lock(GetLockRequest) -> GetLockResponse;
    list_locks(ListLocksRequest) -> ListLocksResponse;
    check_token(CheckTokenRequest) -> CheckTokenResponse;
    break_lock(BreakLockRequest) -> BreakLockResponse;
    resolve_path(ResolvePathRequest) -> ResolvePathResponse;
    get_server_info(GetServerInfoRequest) -> GetServerInfoResponse;
}

serve! {
    ScheduleService {
        SubscribeScheduleStream: subscribe_schedule(SubscribeScheduleRequest) -> SubscribeScheduleResponse;
    }
    complete_run(CompleteRunRequest) -> CompleteRunResponse;
    get_schedule(GetScheduleRequest) -> GetScheduleResponse;
    list_schedules(ListSchedulesRequest) -> ListSchedulesResponse;
    preview_schedule(PreviewScheduleRequest) -> PreviewScheduleResponse;
    pause_schedule(PauseScheduleRequest) -> PauseScheduleResponse;
    resume_schedule(ResumeScheduleRequest) -> ResumeScheduleResponse;
    trigger_schedule(TriggerScheduleRequest) -> TriggerScheduleResponse;
    remove_schedule(RemoveScheduleRequest) -> RemoveScheduleResponse;
    reset_schedule(ResetScheduleRequest) -> ResetScheduleResponse;
}
