//! TLS below the watched connection, so that what ends a connection is seen as its client did it (S14).

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::{AlertDescription, CertificateError, Error};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::accept::{self, OWED};
use super::certificates::Certificates;
use super::connection::{Connection, write_through};
use super::subject::{self, Names};
use crate::coordinator::{Coordinator, LogLimit};
use crate::lobby::{Closed, Seat, Stage};
use crate::time::UnixMillis;

/// Bytes after which a client must have come through its handshake: longer chains of certificates are not
/// taken, of which a message would be kept in memory until it is whole (S38).
const HANDSHAKE_BYTES: usize = 16 * 1024;
/// How long a refused client may take to read why.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Bytes that a refused client may have sent meanwhile.
const UNREAD_BYTES: u64 = 64 * 1024;

/// What handshakes are done with, and who hears of those that fail.
#[derive(Clone, Debug)]
pub(in crate::grpc) struct Acceptor {
    pub(in crate::grpc) certificates: Arc<Certificates>,
    pub(in crate::grpc) coordinator: Coordinator,
    pub(in crate::grpc) refusals: Arc<LogLimit>,
}

impl Acceptor {
    /// Lets the client come through its handshake.
    pub(in crate::grpc) async fn accept<S>(
        &self,
        connection: Connection<S>,
    ) -> Option<Connection<TlsStream<Punctual<S>>>>
    where
        S: AsyncRead + AsyncWrite + AsFd + Unpin,
    {
        connection.advance(Stage::Greeting);
        let address = connection.address();
        let generation = self.certificates.generation();
        let seat = connection.peer().seat;
        let handshake = connection.wrapped(|stream| async {
            let stream = Punctual { stream, seat, overdue: None, came: 0 };
            let accept = TlsAcceptor::from(self.certificates.config()).accept(stream);
            match accept.into_fallible().await {
                Ok(stream) => Ok(stream),
                Err((error, stream)) => {
                    hang_up(stream).await;
                    Err(error)
                }
            }
        });
        match handshake.await {
            Ok(connection) => {
                let shown = connection.stream().get_ref().1.peer_certificates();
                let leaf = shown.and_then(|chain| chain.first());
                let names = leaf.and_then(|leaf| Names::of(leaf)).map(Arc::new);
                let expiry = leaf.and_then(|leaf| subject::not_after(leaf)).zip(shown);
                let expiry = expiry.map(|(not_after, shown)| {
                    let chain = shown.to_vec();
                    Expiry {
                        not_after,
                        chain,
                        checked: generation,
                        client: address,
                        acceptor: self.clone(),
                    }
                });
                Some(connection.with_certificate(names).until(expiry).owing_preface())
            }
            Err(error) => {
                match refusal(&error) {
                    Some(reason) => self.refuse(address, &reason),
                    None => {
                        let client = address.map(tracing::field::display);
                        tracing::debug!(client, %error, "a TLS handshake failed");
                    }
                }
                None
            }
        }
    }

    fn refuse(&self, client: Option<SocketAddr>, reason: &str) {
        if let Some(more) = self.line() {
            let client = client.map(tracing::field::display);
            tracing::warn!(client, reason, more, "a TLS connection was refused");
        }
    }

    /// How many log lines were left out since the last one, if there is to be one now.
    fn line(&self) -> Option<u64> {
        self.refusals.line(self.coordinator.clock().now())
    }
}

/// When a connection ends at the latest: its client's certificate has expired by then, or was revoked. Its
/// client connects again, with its next certificate if it has one.
#[derive(Debug)]
pub(in crate::grpc) struct Expiry {
    not_after: UnixMillis,
    chain: Vec<CertificateDer<'static>>,
    /// The generation of the files by which the chain was looked at last.
    checked: u64,
    client: Option<SocketAddr>,
    acceptor: Acceptor,
}

impl Expiry {
    /// Whether the certificate has expired, or was revoked; logs that it was.
    pub(in crate::grpc) fn is_over(&mut self) -> bool {
        let now = self.acceptor.coordinator.clock().wall();
        let generation = self.acceptor.certificates.generation();
        let is_new = std::mem::replace(&mut self.checked, generation) != generation;
        let ended = if now > self.not_after {
            "a TLS connection was ended: its client's certificate has expired"
        } else if is_new && self.acceptor.certificates.is_revoked(&self.chain, now) {
            // It stays so: the next look is at no other files.
            self.not_after = UnixMillis(0);
            "a TLS connection was ended: its client's certificate was revoked"
        } else {
            return false;
        };
        if let Some(more) = self.acceptor.line() {
            let client = self.client.map(tracing::field::display);
            tracing::warn!(client, more, "{ended}");
        }
        true
    }
}

/// The socket below TLS, whose client is on time with its handshake and its preface, or cut (S38).
#[derive(Debug)]
pub(in crate::grpc) struct Punctual<S> {
    stream: S,
    seat: Option<Arc<Seat>>,
    /// Runs while bytes are owed.
    overdue: Option<Pin<Box<Sleep>>>,
    /// Bytes that came before the handshake and the preface were over.
    came: usize,
}

impl<S: AsyncRead + AsFd + Unpin> AsyncRead for Punctual<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let has_said = this.came >= HANDSHAKE_BYTES;
        if let Some(seat) = this.seat.take_if(|seat| has_said && seat.is_greeting()) {
            seat.note(Closed::TooLong);
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(context, buffer);
        this.came = this.came.saturating_add(buffer.filled().len() - before);
        let owing = this.seat.as_ref().filter(|seat| polled.is_pending() && seat.is_greeting());
        let Some(seat) = owing else {
            this.overdue = None;
            return polled;
        };
        let overdue = this.overdue.get_or_insert_with(|| Box::pin(tokio::time::sleep(OWED)));
        ready!(overdue.as_mut().poll(context));
        this.overdue = None;
        if accept::has_come(&this.stream) {
            // We are late, not the client.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        seat.note(Closed::Overdue);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

write_through!(Punctual, true, |_, _| {});

/// Closes so that the client reads the alert that says why it was refused: a connection that is closed while
/// there is something unread is reset, and the alert is lost with it.
async fn hang_up<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    let closing = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(UNREAD_BYTES), &mut tokio::io::sink()).await
    };
    // Whether the client reads it is its own matter.
    let _ = tokio::time::timeout(LAST_WORDS, closing).await;
}

/// Why a handshake failed, in words for whoever runs the sidecar; none where a client only went away, as
/// probes do.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "of the many ways in which TLS fails, these have something to do about them"
)]
fn refusal(error: &io::Error) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    Some(match error {
        Error::NoCertificatesPresented => {
            "the client sent no certificate; it needs one that an authority in listen.tls.client_ca has signed"
                .to_owned()
        }
        // The second where two authorities have one name.
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => {
            "the client's certificate is not signed by an authority in listen.tls.client_ca".to_owned()
        }
        Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "the client's certificate has expired".to_owned(),
        Error::InvalidCertificate(CertificateError::Revoked) => {
            "the client's certificate was revoked (listen.tls.crl)".to_owned()
        }
        Error::InvalidCertificate(CertificateError::UnknownRevocationStatus) => {
            "whether the client's certificate was revoked is not known: listen.tls.crl has no list of an authority that \
             signed it or its chain"
                .to_owned()
        }
        Error::InvalidCertificate(problem) => {
            format!("the client's certificate is not valid: {problem:?}")
        }
        Error::AlertReceived(
            alert @ (AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired),
        ) => format!(
            "the client does not trust listen.tls.certificate ({alert:?}): check the authorities that the client trusts, \
             and the name that it connects to"
        ),
        Error::InvalidMessage(_) => {
            "the client does not use TLS; its endpoint must begin with https://".to_owned()
        }
        Error::NoApplicationProtocol => "the client does not offer HTTP/2 (ALPN h2)".to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_that_somebody_can_mend_are_told_and_others_are_not() {
        let of = |error: Error| refusal(&io::Error::new(io::ErrorKind::InvalidData, error));
        let says = |error: Error, part: &str| {
            let said = of(error).unwrap();
            assert!(said.contains(part), "{said}");
        };
        says(Error::NoCertificatesPresented, "sent no certificate");
        says(CertificateError::UnknownIssuer.into(), "listen.tls.client_ca");
        says(CertificateError::Expired.into(), "has expired");
        says(CertificateError::BadSignature.into(), "listen.tls.client_ca");
        says(CertificateError::Revoked.into(), "was revoked");
        says(CertificateError::UnknownRevocationStatus.into(), "listen.tls.crl has no list");
        says(CertificateError::NotValidYet.into(), "NotValidYet");
        says(Error::AlertReceived(AlertDescription::UnknownCA), "does not trust");
        says(Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType), "https://");
        assert_eq!(of(Error::HandshakeNotComplete), None);
        assert_eq!(refusal(&io::ErrorKind::UnexpectedEof.into()), None);
    }
}
