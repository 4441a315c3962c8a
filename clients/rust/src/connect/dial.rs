//! Opens connections.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::{Address, TlsSource, client_config};

/// A connection that is not there in this time is given up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes to and from a sidecar.
pub(crate) trait Pipe: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Pipe for T {}

type Opening = Pin<Box<dyn Future<Output = io::Result<Box<dyn Pipe>>> + Send>>;

/// Opens one connection each time it is asked.
#[derive(Clone)]
pub(crate) struct Dial {
    open: Arc<dyn Fn() -> Opening + Send + Sync>,
    refusal: Refusal,
}

impl fmt::Debug for Dial {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Dial").finish_non_exhaustive()
    }
}

impl Dial {
    /// To `address`; `keep_alive` is TCP's, `server_name` the name that the sidecar's certificate must have.
    pub(crate) fn to(
        address: Address,
        tls: Option<TlsSource>,
        server_name: Option<String>,
        keep_alive: Option<Duration>,
    ) -> Self {
        let refusal = Refusal::default();
        let seen = refusal.clone();
        Self {
            open: Arc::new(move || {
                let (address, tls, name) = (address.clone(), tls.clone(), server_name.clone());
                let opening = open(address, tls, name, keep_alive, seen.clone());
                Box::pin(async move {
                    let opened = tokio::time::timeout(CONNECT_TIMEOUT, opening).await;
                    opened.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
                })
            }),
            refusal,
        }
    }

    /// By what somebody else opens.
    pub(crate) fn by<F, O, S>(open: F) -> Self
    where
        F: Fn() -> O + Send + Sync + 'static,
        O: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Self {
            open: Arc::new(move || {
                let opening = open();
                Box::pin(async move { Ok(Box::new(opening.await?) as Box<dyn Pipe>) })
            }),
            refusal: Refusal::default(),
        }
    }

    pub(crate) fn open(&self) -> Opening {
        (self.open)()
    }

    /// Why the sidecar refused the newest connection by TLS, if it did.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.refusal.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn open(
    address: Address,
    tls: Option<TlsSource>,
    server_name: Option<String>,
    keep_alive: Option<Duration>,
    refusal: Refusal,
) -> io::Result<Box<dyn Pipe>> {
    let (host, port) = match address {
        Address::Unix(path) => return unix(path).await,
        Address::Tcp { host, port, .. } => (host, port),
    };
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    stream.set_nodelay(true)?;
    if let Some(interval) = keep_alive {
        keep_alive_by_tcp(&stream, interval)?;
    }
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    let config = client_config(&tls()?).map_err(io::Error::other)?;
    let name = ServerName::try_from(server_name.unwrap_or(host)).map_err(io::Error::other)?;
    let stream = tokio_rustls::TlsConnector::from(config).connect(name, stream).await;
    let stream = stream.inspect_err(|error| refusal.ended(error))?;
    Ok(Box::new(Heard { stream, refusal, answered: false }))
}

#[cfg(unix)]
async fn unix(path: std::path::PathBuf) -> io::Result<Box<dyn Pipe>> {
    Ok(Box::new(tokio::net::UnixStream::connect(path).await?))
}

#[cfg(not(unix))]
async fn unix(_: std::path::PathBuf) -> io::Result<Box<dyn Pipe>> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(unix)]
fn keep_alive_by_tcp(stream: &TcpStream, interval: Duration) -> io::Result<()> {
    rustix::net::sockopt::set_socket_keepalive(stream, true)?;
    Ok(rustix::net::sockopt::set_tcp_keepidle(stream, interval)?)
}

#[cfg(not(unix))]
fn keep_alive_by_tcp(_: &TcpStream, _: Duration) -> io::Result<()> {
    Ok(())
}

/// Why the sidecar refused the newest connection by TLS.
#[derive(Clone, Debug, Default)]
struct Refusal(Arc<Mutex<Option<String>>>);

impl Refusal {
    /// With TLS 1.3 a client takes itself to be connected before the server has looked at its certificate:
    /// the refusal is read as an alert instead of the first answer.
    fn ended(&self, error: &io::Error) {
        use rustls::AlertDescription as Alert;
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        if let Some(rustls::Error::AlertReceived(
            alert @ (Alert::CertificateRequired
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            // A stranger whose authority has the same name as a trusted one.
            | Alert::DecryptError
            | Alert::AccessDenied),
        )) = inner
        {
            let why = format!("it answered {alert:?}");
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        }
    }

    fn none(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A connection by TLS whose first answer is watched for.
struct Heard<S> {
    stream: S,
    refusal: Refusal,
    answered: bool,
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = std::task::ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        if !self.answered {
            match &read {
                Ok(()) if buffer.filled().len() > before => {
                    self.answered = true;
                    self.refusal.none();
                }
                Ok(()) => {}
                Err(error) => self.refusal.ended(error),
            }
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncRead + Unpin> Heard<S> {
    /// A sidecar that refuses closes the connection at once, so a write may fail before the alert is read.
    fn write_failed(&mut self, context: &mut Context<'_>) {
        let mut bytes = [0; 256];
        let mut buffer = ReadBuf::new(&mut bytes);
        if self.answered {
            return;
        }
        if let Poll::Ready(Err(error)) = Pin::new(&mut self.stream).poll_read(context, &mut buffer)
        {
            self.refusal.ended(&error);
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Heard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = std::task::ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        Poll::Ready(written.inspect_err(|_| self.write_failed(context)))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = std::task::ready!(Pin::new(&mut self.stream).poll_flush(context));
        Poll::Ready(flushed.inspect_err(|_| self.write_failed(context)))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
