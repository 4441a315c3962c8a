//! A proxy before the storage emulator that does to requests what networks and services do.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use leasehold::testing::{Azurite, SeededRandom};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::faults::process::PATIENCE;
use crate::faults::statistics::Statistics;

/// What the proxy does to requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Weather {
    /// Passes everything on.
    Calm,
    /// Does one thing or the other to some of the requests.
    Stormy,
    /// Closes every connection at once.
    Gone,
    /// The same, and who would come again does not find its address: the storm sees to that.
    Nameless,
    /// Takes in connections, and nothing passes.
    Silent,
}

/// What may happen to one request.
#[derive(Clone, Copy, Debug)]
enum Fault {
    CutBefore,
    CutAfter,
    Late,
    AnswerLate,
    Twice,
    Refused(u16),
    RefusedAfter(u16),
}

const SLOW: Duration = Duration::from_secs(4);
const SLOWEST: Duration = Duration::from_secs(70);
const REFUSALS: [u16; 3] = [500, 503, 403];

/// What is asked of the service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Asked {
    Break,
    Renew,
    /// A record, under a lease.
    Write,
}

impl Asked {
    fn is(self, sent: &Sent) -> bool {
        let action = sent.headers.get("x-ms-lease-action").and_then(|action| action.to_str().ok());
        match self {
            Self::Break => action == Some("break"),
            Self::Renew => action == Some("renew"),
            Self::Write => {
                sent.method == hyper::Method::PUT
                    && sent.url.contains("comp=metadata")
                    && sent.headers.contains_key("x-ms-lease-id")
            }
        }
    }
}

/// What is done to the next request of a kind.
#[derive(Clone, Debug)]
enum Trap {
    Keep(Arc<Gate>),
    KeepAnswer(Arc<Gate>),
    /// Its connection is cut, and it arrives all the same.
    Part(Arc<Gate>),
    CutAnswer,
    Refuse(u16),
}

#[derive(Debug, Default)]
struct Gate {
    reached: Notify,
    open: Notify,
    /// How the service answered what nobody waited for any more.
    status: AtomicU16,
    answered: Notify,
}

impl Gate {
    async fn pass(&self) {
        self.reached.notify_one();
        self.open.notified().await;
    }
}

/// A request that is under way, or its answer, for as long as a test wants.
pub(crate) struct Kept(Arc<Gate>);

impl Kept {
    /// Waits until it is under way.
    pub(crate) async fn is_under_way(&self) {
        let reached = tokio::time::timeout(PATIENCE, self.0.reached.notified()).await;
        reached.expect("it is asked for");
    }

    /// Lets it arrive.
    pub(crate) fn let_go(self) {
        self.0.open.notify_one();
    }
}

/// A request whose sender has seen its connection cut, and which is on its way for as long as a test wants.
pub(crate) struct Parted(Arc<Gate>);

impl Parted {
    /// Lets it arrive; how the service answers it.
    pub(crate) async fn arrives(self) -> u16 {
        self.0.open.notify_one();
        let answered = tokio::time::timeout(PATIENCE, self.0.answered.notified()).await;
        answered.expect("it was sent, and the service answers it");
        self.0.status.load(Ordering::Relaxed)
    }
}

struct State {
    traps: Mutex<Vec<(Asked, Trap)>>,
    weather: Mutex<(Weather, SeededRandom)>,
    /// The emulator's URL, without a path.
    target: String,
    http: reqwest::Client,
    statistics: Statistics,
    dates: Dates,
    /// Connections that came, and how many of the first of them are lost: what is asked over them is not
    /// answered.
    connections: AtomicUsize,
    lost: AtomicUsize,
}

/// What is added to the dates of answers, in seconds, in turn: front ends whose clocks differ.
#[derive(Default)]
struct Dates {
    offsets: Mutex<Vec<u64>>,
    answers: AtomicUsize,
}

impl Dates {
    /// What to add to the next date.
    fn next(&self) -> Duration {
        let offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        if offsets.is_empty() {
            return Duration::ZERO;
        }
        let turn = self.answers.fetch_add(1, Ordering::Relaxed) % offsets.len();
        Duration::from_secs(offsets[turn])
    }
}

/// Running until it is dropped.
pub(crate) struct Proxy {
    state: Arc<State>,
    address: SocketAddr,
    listening: tokio::task::JoinHandle<()>,
}

impl Proxy {
    /// One before the emulator.
    pub(crate) async fn start(azurite: &Azurite, seed: u64, statistics: Statistics) -> Self {
        let endpoint = azurite.endpoint();
        let target = endpoint.rsplit_once('/').unwrap().0.to_owned();
        // An error says that it is there already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let weather = Mutex::new((Weather::Calm, SeededRandom::new(seed)));
        let (http, dates) = (reqwest::Client::new(), Dates::default());
        let (connections, lost) = Default::default();
        let traps = Mutex::default();
        let state =
            Arc::new(State { traps, weather, target, http, statistics, dates, connections, lost });
        let listening = tokio::spawn(listen(listener, Arc::clone(&state)));
        Self { state, address, listening }
    }

    /// How to sign in to the emulator through it.
    pub(crate) fn connection_string(&self, azurite: &Azurite) -> String {
        let through = format!("http://{}", self.address);
        azurite.connection_string().replace(&self.state.target, &through)
    }

    pub(crate) fn set(&self, weather: Weather) {
        self.state.weather.lock().unwrap_or_else(PoisonError::into_inner).0 = weather;
    }

    /// Loses the connections that there are, without a word; new ones work. How many there are.
    pub(crate) fn lose_connections(&self) -> usize {
        let connections = self.state.connections.load(Ordering::Relaxed);
        self.state.lost.store(connections, Ordering::Relaxed);
        connections
    }

    /// Keeps the next request of this kind on its way to the service.
    pub(crate) fn keep(&self, asked: Asked) -> Kept {
        let gate = Arc::<Gate>::default();
        self.trap(asked, Trap::Keep(Arc::clone(&gate)));
        Kept(gate)
    }

    /// Keeps the answer to the next request of this kind, which the service has done.
    pub(crate) fn keep_answer(&self, asked: Asked) -> Kept {
        let gate = Arc::<Gate>::default();
        self.trap(asked, Trap::KeepAnswer(Arc::clone(&gate)));
        Kept(gate)
    }

    /// Cuts the connection of the next request of this kind, which stays on its way to the service.
    pub(crate) fn part(&self, asked: Asked) -> Parted {
        let gate = Arc::<Gate>::default();
        self.trap(asked, Trap::Part(Arc::clone(&gate)));
        Parted(gate)
    }

    /// Cuts the connection instead of the answer to the next request of this kind, which the service has
    /// done.
    pub(crate) fn cut_answer(&self, asked: Asked) {
        self.trap(asked, Trap::CutAnswer);
    }

    /// Refuses the next request of this kind.
    pub(crate) fn refuse(&self, asked: Asked, status: u16) {
        self.trap(asked, Trap::Refuse(status));
    }

    fn trap(&self, asked: Asked, trap: Trap) {
        self.state.traps.lock().unwrap_or_else(PoisonError::into_inner).push((asked, trap));
    }

    /// Adds these seconds to the dates of the answers, in turn.
    pub(crate) fn set_dates(&self, offsets: &[u64]) {
        let mut dates = self.state.dates.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        *dates = offsets.to_vec();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(listener: TcpListener, state: Arc<State>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        if matches!(state.weather(), Weather::Gone | Weather::Nameless) {
            state.statistics.count("weather: cut a connection");
        } else {
            let connection = state.connections.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(serve(stream, Arc::clone(&state), connection));
        }
    }
}

async fn serve(stream: TcpStream, state: Arc<State>, connection: usize) {
    let answer = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move {
            if connection < state.lost.load(Ordering::Relaxed) {
                state.statistics.count("connection: lost a request");
                return std::future::pending().await;
            }
            // A task of its own: what is on its way arrives, though who sent it has given up.
            tokio::spawn(state.answer(request)).await.unwrap()
        }
    });
    // An error is a connection that was cut, which is what this is for.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

/// A request that can be sent again.
#[derive(Clone)]
struct Sent {
    method: hyper::Method,
    url: String,
    headers: hyper::HeaderMap,
    body: Bytes,
}

type Answer = Result<Response<Full<Bytes>>, std::io::Error>;

impl State {
    fn weather(&self) -> Weather {
        self.weather.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    fn choose(&self) -> (Weather, Option<Fault>, Duration) {
        let mut guard = self.weather.lock().unwrap_or_else(PoisonError::into_inner);
        let (weather, random) = &mut *guard;
        if *weather != Weather::Stormy || !random.chance(120) {
            return (*weather, None, Duration::ZERO);
        }
        let status = REFUSALS[usize::try_from(random.below(3)).unwrap()];
        let fault = match random.below(7) {
            0 => Fault::CutBefore,
            1 => Fault::CutAfter,
            2 => Fault::Late,
            3 => Fault::AnswerLate,
            4 => Fault::Twice,
            5 => Fault::Refused(status),
            _ => Fault::RefusedAfter(status),
        };
        // Mostly a few seconds; now and then longer than any lease.
        let most = if random.chance(200) { SLOWEST } else { SLOW };
        (*weather, Some(fault), random.span(most))
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
        let url = format!("{}{}", self.target, parts.uri);
        let sent = Sent { method: parts.method, url, headers: parts.headers, body };
        if let Some(action) = sent.headers.get("x-ms-lease-action") {
            self.statistics.count(&format!("lease action: {}", action.to_str().unwrap()));
        }
        if let Some(answer) = self.trapped(&sent).await {
            return answer;
        }
        let (weather, fault, delay) = self.choose();
        match weather {
            Weather::Gone | Weather::Nameless => {
                self.statistics.count("weather: cut a request");
                return Err(cut());
            }
            Weather::Silent => {
                self.statistics.count("weather: kept a request without an answer");
                return std::future::pending().await;
            }
            Weather::Calm | Weather::Stormy => {}
        }
        self.statistics.count(match fault {
            None => "request: passed on",
            Some(Fault::CutBefore) => "request: cut before it was applied",
            Some(Fault::CutAfter) => "request: cut after it was applied",
            Some(Fault::Late) => "request: late",
            Some(Fault::AnswerLate) => "request: answered late",
            Some(Fault::Twice) => "request: sent twice",
            Some(Fault::Refused(_)) => "request: refused before it was applied",
            Some(Fault::RefusedAfter(_)) => "request: refused after it was applied",
        });
        match fault {
            None => self.pass(sent).await,
            Some(Fault::CutBefore) => Err(cut()),
            Some(Fault::CutAfter) => {
                self.pass(sent).await?;
                Err(cut())
            }
            Some(Fault::Late) => {
                tokio::time::sleep(delay).await;
                self.pass(sent).await
            }
            Some(Fault::AnswerLate) => {
                let answer = self.pass(sent).await;
                tokio::time::sleep(delay).await;
                answer
            }
            Some(Fault::Twice) => {
                let again = sent.clone();
                let answer = self.pass(sent).await;
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    let _ = self.pass(again).await;
                });
                answer
            }
            Some(Fault::Refused(status)) => Ok(refusal(status)),
            Some(Fault::RefusedAfter(status)) => {
                self.pass(sent).await?;
                Ok(refusal(status))
            }
        }
    }

    /// The answer to a request that meets a trap, if that has one.
    async fn trapped(self: &Arc<Self>, sent: &Sent) -> Option<Answer> {
        let trap = self.sprung(sent)?;
        self.statistics.count("request: met a trap");
        match trap {
            Trap::Keep(gate) => {
                gate.pass().await;
                None
            }
            Trap::KeepAnswer(gate) => {
                let answer = self.pass(sent.clone()).await;
                gate.pass().await;
                Some(answer)
            }
            Trap::Part(gate) => {
                let (state, sent) = (Arc::clone(self), sent.clone());
                tokio::spawn(async move {
                    gate.open.notified().await;
                    let answer = state.pass(sent).await.unwrap();
                    gate.status.store(answer.status().as_u16(), Ordering::Relaxed);
                    gate.answered.notify_one();
                });
                Some(Err(cut()))
            }
            Trap::CutAnswer => {
                let _ = self.pass(sent.clone()).await;
                Some(Err(cut()))
            }
            Trap::Refuse(status) => Some(Ok(refusal(status))),
        }
    }

    /// The trap that this request is the first to meet.
    fn sprung(&self, sent: &Sent) -> Option<Trap> {
        let mut traps = self.traps.lock().unwrap_or_else(PoisonError::into_inner);
        let at = traps.iter().position(|(asked, _)| asked.is(sent))?;
        Some(traps.remove(at).1)
    }

    async fn pass(&self, sent: Sent) -> Answer {
        let mut request = self.http.request(sent.method, sent.url).body(sent.body);
        for (name, value) in &sent.headers {
            if !is_of_one_hop(name.as_str()) {
                request = request.header(name, value);
            }
        }
        let answer = request.send().await.map_err(std::io::Error::other)?;
        let mut response = Response::builder().status(answer.status());
        for (name, value) in answer.headers() {
            if !is_of_one_hop(name.as_str()) && name != "date" {
                response = response.header(name, value);
            }
        }
        if let Some(date) = answer.headers().get("date") {
            response = response.header("date", self.dated(date));
        }
        let body = answer.bytes().await.map_err(std::io::Error::other)?;
        response.body(Full::new(body)).map_err(std::io::Error::other)
    }
}

impl State {
    /// The date as the next front end has it.
    fn dated(&self, date: &HeaderValue) -> HeaderValue {
        let by = self.dates.next();
        if by.is_zero() {
            return date.clone();
        }
        self.statistics.count("answer: its date was moved");
        let date = httpdate::parse_http_date(date.to_str().unwrap()).unwrap();
        HeaderValue::try_from(httpdate::fmt_http_date(date + by)).unwrap()
    }
}

fn is_of_one_hop(header: &str) -> bool {
    matches!(header, "host" | "connection" | "keep-alive" | "transfer-encoding")
}

fn cut() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::ConnectionAborted, "cut, as the storm wants")
}

fn refusal(status: u16) -> Response<Full<Bytes>> {
    let code = match status {
        403 => "AuthorizationFailure",
        503 => "ServerBusy",
        _ => "InternalError",
    };
    let body = format!(
        "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>storm</Message></Error>"
    );
    let response = Response::builder().status(status).header("x-ms-error-code", code);
    response.body(Full::new(Bytes::from(body))).unwrap()
}
