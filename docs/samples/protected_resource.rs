//! A small HTTP service that lets only the newest holder write: `cargo run --example protected_resource --
//! memory`, `… -- sql FILE`, or `… -- nothing`, which shows what a resource that does not look lets happen.
//!
//! `PUT /NAME` with the header `Fencing-Token` writes a document: 204, or 409 when a greater token has
//! written it already. `GET /NAME` reads it. `GET /` tells how often writes were accepted, refused, and
//! accepted though they came too late.
#![expect(clippy::print_stdout, reason = "a sample shows where it listens")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rusqlite::{Connection, OptionalExtension as _, params};

/// What a write without a good token is told.
const TOKEN_MISSING: &str = "send the grant's fencing token as the header Fencing-Token";

/// Where documents are, and how tokens are compared.
enum Documents {
    /// In memory: compare and store under one lock.
    Memory(HashMap<String, (u64, Bytes)>),
    /// In a table: compare in the statement that writes.
    Sql(Connection),
    /// Compared by nobody.
    Unchecked(HashMap<String, (u64, Bytes)>),
}

impl Documents {
    fn open(kind: &str, file: Option<&str>) -> Result<Self, Box<dyn std::error::Error>> {
        match (kind, file) {
            ("memory", None) => Ok(Self::Memory(HashMap::new())),
            ("nothing", None) => Ok(Self::Unchecked(HashMap::new())),
            ("sql", Some(file)) => {
                let connection = Connection::open(file)?;
                connection.execute_batch(
                    "CREATE TABLE IF NOT EXISTS document
                     (name TEXT PRIMARY KEY, body BLOB NOT NULL, fencing_token INTEGER NOT NULL)",
                )?;
                Ok(Self::Sql(connection))
            }
            _ => Err("say memory, sql FILE, or nothing".into()),
        }
    }

    /// Whether the document was written.
    fn write(&mut self, name: &str, token: u64, body: Bytes) -> rusqlite::Result<bool> {
        match self {
            Self::Memory(documents) => {
                let is_newest = documents.get(name).is_none_or(|(newest, _)| *newest <= token);
                if is_newest {
                    documents.insert(name.to_owned(), (token, body));
                }
                Ok(is_newest)
            }
            Self::Sql(connection) => {
                let changed = connection.execute(
                    "INSERT INTO document (name, body, fencing_token) VALUES (?1, ?2, ?3)
                     ON CONFLICT (name) DO UPDATE SET body = ?2, fencing_token = ?3
                     WHERE fencing_token <= ?3",
                    params![name, &body[..], token],
                )?;
                Ok(changed == 1)
            }
            Self::Unchecked(documents) => {
                documents.insert(name.to_owned(), (token, body));
                Ok(true)
            }
        }
    }

    fn read(&self, name: &str) -> rusqlite::Result<Option<Bytes>> {
        match self {
            Self::Memory(documents) | Self::Unchecked(documents) => {
                Ok(documents.get(name).map(|(_, body)| body.clone()))
            }
            Self::Sql(connection) => {
                let query = "SELECT body FROM document WHERE name = ?1";
                let body: Option<Vec<u8>> =
                    connection.query_row(query, [name], |row| row.get(0)).optional()?;
                Ok(body.map(Bytes::from))
            }
        }
    }
}

struct Resource {
    documents: Documents,
    /// What would have been compared: to count what came too late.
    newest: HashMap<String, u64>,
    accepted: u64,
    refused: u64,
    stale: u64,
}

type Shared = Arc<Mutex<Resource>>;

fn locked(resource: &Shared) -> MutexGuard<'_, Resource> {
    resource.lock().unwrap_or_else(PoisonError::into_inner)
}

fn broken(error: &rusqlite::Error) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
}

async fn put(
    State(resource): State<Shared>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let token = headers.get("fencing-token").and_then(|value| value.to_str().ok()?.parse().ok());
    let Some(token) = token else {
        return (StatusCode::BAD_REQUEST, TOKEN_MISSING).into_response();
    };
    let mut resource = locked(&resource);
    match resource.documents.write(&name, token, body) {
        Err(error) => broken(&error),
        Ok(false) => {
            resource.refused += 1;
            let problem =
                format!("token {token} is not the newest for {name}: stop, the lock was lost");
            (StatusCode::CONFLICT, problem).into_response()
        }
        Ok(true) => {
            resource.accepted += 1;
            let newest = resource.newest.entry(name).or_default();
            let is_stale = *newest > token;
            *newest = token.max(*newest);
            resource.stale += u64::from(is_stale);
            StatusCode::NO_CONTENT.into_response()
        }
    }
}

async fn read(State(resource): State<Shared>, Path(name): Path<String>) -> Response {
    match locked(&resource).documents.read(&name) {
        Ok(Some(body)) => body.into_response(),
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(error) => broken(&error),
    }
}

async fn count(State(resource): State<Shared>) -> String {
    let resource = locked(&resource);
    let (accepted, refused, stale) = (resource.accepted, resource.refused, resource.stale);
    serde_json::json!({ "accepted": accepted, "refused": refused, "stale": stale }).to_string()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let kind = arguments.first().map(String::as_str).unwrap_or_default();
    let documents = Documents::open(kind, arguments.get(1).map(String::as_str))?;
    let resource =
        Resource { documents, newest: HashMap::new(), accepted: 0, refused: 0, stale: 0 };
    let routes = axum::Router::new()
        .route("/", get(count))
        .route("/{name}", get(read).put(put))
        .with_state(Arc::new(Mutex::new(resource)));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, routes).await?;
    Ok(())
}
