//! An HTTP server that answers as a test says, and remembers what it was asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::store::azure::Asked;

/// What is done with the next request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The server answers.
    Answer {
        /// The status of the answer.
        status: u16,
        /// Its headers, beside the length.
        headers: Vec<(String, String)>,
        /// The content of the answer.
        body: String,
    },
    /// The connection is closed without an answer.
    Close,
}

impl Reply {
    /// An answer with these headers, and without content.
    #[must_use]
    pub fn new(status: u16, headers: &[(&str, &str)]) -> Self {
        let headers =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self::Answer { status, headers, body: String::new() }
    }

    /// The same answer with this content.
    #[must_use]
    pub fn with_body(self, body: &str) -> Self {
        match self {
            Self::Answer { status, headers, .. } => {
                Self::Answer { status, headers, body: body.to_owned() }
            }
            Self::Close => Self::Close,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    replies: VecDeque<Reply>,
    asked: Vec<Asked>,
}

/// The server, on a free port of the loopback; it ends with the runtime. A request that no reply is left for
/// is not answered: its connection is closed.
#[derive(Debug)]
pub struct ScriptedHttp {
    endpoint: String,
    state: Arc<Mutex<State>>,
}

impl ScriptedHttp {
    /// Starts one that gives these replies, in this order.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = match TcpListener::bind("127.0.0.1:0").await {
            Ok(listener) => listener,
            Err(error) => panic!("no free port: {error}"),
        };
        let endpoint = listener.local_addr().map(|address| format!("http://{address}"));
        let state = State { replies: replies.into_iter().collect(), asked: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { endpoint: endpoint.unwrap_or_default(), state }
    }

    /// Where it is: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// What it was asked, oldest first.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.state).asked.clone()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(stream: TcpStream, state: Arc<Mutex<State>>) {
    let mut stream = BufReader::new(stream);
    while let Some(asked) = read(&mut stream).await {
        let reply = {
            let mut state = lock(&state);
            state.asked.push(asked);
            state.replies.pop_front()
        };
        let Some(Reply::Answer { status, headers, body }) = reply else { return };
        let length = body.len();
        let mut answer = format!("HTTP/1.1 {status} Scripted\r\ncontent-length: {length}\r\n");
        for (name, value) in headers {
            answer.push_str(&format!("{name}: {value}\r\n"));
        }
        answer.push_str("\r\n");
        answer.push_str(&body);
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The next request of a connection; none at its end.
async fn read(stream: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let (first, headers) = lines.split_first()?;
    let mut words = first.split(' ');
    let mut asked = Asked {
        method: words.next()?.to_owned(),
        target: words.next()?.to_owned(),
        headers: headers
            .iter()
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect(),
        body: Vec::new(),
    };
    let length = asked.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    asked.body = vec![0; length];
    stream.read_exact(&mut asked.body).await.ok()?;
    Some(asked)
}
