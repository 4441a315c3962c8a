//! Where a sidecar would listen: whether its addresses are free, and its key fits its certificate.

use std::io::ErrorKind;
use std::net::SocketAddr;

use tokio::net::TcpSocket;

use super::report::{Finding, Report};
use crate::cli::exit::Exit;
use crate::cli::reach::{self, Peer};
use crate::cli::serve;
use crate::config::Config;
use crate::grpc;

/// Tries the addresses for a moment, and reads the certificates.
pub(super) async fn examine(config: &Config, report: &mut Report) {
    if let Some(address) = config.listen.tcp {
        of_address("listen.tcp", address, report).await;
    }
    if let Some(address) = config.admin.listen {
        of_address("admin.listen", address, report).await;
    }
    if let Some(tls) = &config.listen.tls {
        let check = "certificate";
        match grpc::check_certificates(&serve::tls(tls)) {
            Ok(()) => report.add(Finding::good(
                check,
                format!("{} and its key fit each other", tls.certificate.display()),
            )),
            Err(error) => {
                let advice = "correct the files of listen.tls: the key must be the one for which the certificate was issued";
                report.fail(Finding::bad(check, error.to_string(), advice), Exit::Misconfigured);
            }
        }
    }
}

async fn of_address(setting: &'static str, address: SocketAddr, report: &mut Report) {
    let tried = bind(address);
    let peer = match &tried {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            reach::peer(&address.to_string()).await
        }
        Ok(()) | Err(_) => None,
    };
    match of_trial(setting, address, tried, peer) {
        Ok(finding) => report.add(finding),
        Err(finding) => report.fail(finding, Exit::Misconfigured),
    }
}

/// Takes the address without listening: so it keeps out neither another doctor nor a sidecar that starts now.
fn bind(address: SocketAddr) -> std::io::Result<()> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)
}

/// What a trial shows: an error where no sidecar can listen there.
fn of_trial(
    setting: &'static str,
    address: SocketAddr,
    tried: std::io::Result<()>,
    peer: Option<Peer>,
) -> Result<Finding, Finding> {
    let Err(error) = tried else {
        return Ok(Finding::good(setting, format!("{address} is free")));
    };
    let port = address.port();
    let taken = |by: &str| format!("{address} is taken by {by}");
    let elsewhere = format!(
        "choose another address with {setting}, or find out who has it (ss -ltnp 'sport = :{port}') and stop that"
    );
    let (detail, advice) = match (error.kind(), peer) {
        (ErrorKind::AddrInUse, Some(Peer::Admin)) if setting == "admin.listen" => {
            return Ok(Finding::good(setting, taken("a sidecar, which is alive")));
        }
        (ErrorKind::AddrInUse, Some(Peer::Grpc | Peer::Tls)) if setting == "listen.tcp" => {
            return Ok(Finding::good(
                setting,
                taken("a gRPC server, which is a sidecar that runs already, it seems"),
            ));
        }
        (ErrorKind::AddrInUse, Some(Peer::Admin)) => {
            (taken("the admin port of a sidecar"), elsewhere)
        }
        (ErrorKind::AddrInUse, Some(Peer::Http(Some(server)))) => {
            (taken(&format!("an HTTP server ({server})")), elsewhere)
        }
        (ErrorKind::AddrInUse, Some(Peer::Http(None))) => (taken("an HTTP server"), elsewhere),
        (ErrorKind::AddrInUse, _) => (taken("another program"), elsewhere),
        (ErrorKind::PermissionDenied, _) => (
            format!("{address} may not be listened on by this user"),
            format!("choose a port from 1024 on with {setting}, or grant CAP_NET_BIND_SERVICE"),
        ),
        (ErrorKind::AddrNotAvailable, _) => (
            format!("{} is no address of this machine", address.ip()),
            format!("set {setting} to an address of this machine, or to 0.0.0.0 for all of them"),
        ),
        _ => (format!("{address}: {error}"), format!("correct {setting}")),
    };
    Err(Finding::bad(setting, detail, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(kind: Option<ErrorKind>, peer: Option<Peer>) -> (String, bool) {
        let tried = kind.map_or(Ok(()), |kind| Err(kind.into()));
        let address = "127.0.0.1:50951".parse().unwrap();
        let found = of_trial("listen.tcp", address, tried, peer);
        let is_good = found.is_ok();
        let finding = found.unwrap_or_else(|bad| bad);
        (serde_json::to_value(&finding).unwrap().to_string(), is_good)
    }

    #[test]
    fn a_port_that_is_taken_is_told_with_who_has_it() {
        assert!(shown(None, None).1);
        let (text, is_good) = shown(Some(ErrorKind::AddrInUse), Some(Peer::Grpc));
        assert!(is_good && text.contains("runs already"), "{text}");
        for (peer, words) in [
            (Peer::Http(Some("nginx".to_owned())), "an HTTP server (nginx)"),
            (Peer::Admin, "the admin port of a sidecar"),
            (Peer::Other, "another program"),
        ] {
            let (text, is_good) = shown(Some(ErrorKind::AddrInUse), Some(peer));
            assert!(!is_good && text.contains(words) && text.contains("sport = :50951"), "{text}");
        }
        let (text, is_good) = shown(Some(ErrorKind::PermissionDenied), None);
        assert!(!is_good && text.contains("1024"), "{text}");
        let (text, is_good) = shown(Some(ErrorKind::AddrNotAvailable), None);
        assert!(!is_good && text.contains("no address of this machine"), "{text}");
    }
}
