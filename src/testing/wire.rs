//! A network in the same process: what the Azure adapter sends is answered by a value.

use std::fmt;

use async_trait::async_trait;

use super::Asked;

/// Answers the requests of an adapter. A request that is dropped was given up by who asked, not by the
/// network.
#[async_trait]
pub trait Wire: Send + Sync + fmt::Debug {
    /// Carries one request, and its answer back.
    async fn carry(&self, asked: Asked) -> Carried;
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    /// An answer.
    Answer {
        /// Its status.
        status: u16,
        /// Its headers, names in lower case.
        headers: Vec<(String, String)>,
        /// Its body.
        body: String,
    },
    /// There was no connection: the request certainly never left.
    NotSent,
    /// The connection broke: whether the request was done is unknown.
    Broken,
}
