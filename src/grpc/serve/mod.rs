//! Listening: addresses, TLS, connections from their first byte to their last, the threads that serve them,
//! and the limits on what they cost (S38). Knows nothing of the calls that they carry.

pub(super) mod accept;
pub(super) mod certificates;
pub(super) mod connection;
pub(super) mod deadline;
pub(super) mod life_line;
pub(super) mod listen;
pub(super) mod only_grpc;
pub(super) mod refusals;
pub(super) mod serving;
pub(super) mod subject;
pub(super) mod tls;
pub(super) mod unfinished;
pub(super) mod unread;
pub(super) mod workers;
