//! Connections that have numbers, so that a test knows over which one a call came.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::Request;
use tonic::transport::server::Connected;

pub(super) struct Numbered {
    pub(super) stream: UnixStream,
    pub(super) number: usize,
}

/// What a request knows of its connection.
#[derive(Clone)]
pub(super) struct Number(usize);

/// Over which connection a request came, from 1.
pub(super) fn number_of<T>(request: &Request<T>) -> usize {
    request.extensions().get::<Number>().map_or(0, |number| number.0)
}

impl Connected for Numbered {
    type ConnectInfo = Number;

    fn connect_info(&self) -> Number {
        Number(self.number)
    }
}

impl AsyncRead for Numbered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, bytes)
    }
}

impl AsyncWrite for Numbered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
