//! What waits: real processes, sockets, stores and clients of every language. One program, so that the
//! library is linked once.

mod cli;
mod clients;
mod faults;
mod grpc;
mod page;
mod signals;
mod store_conformance;
