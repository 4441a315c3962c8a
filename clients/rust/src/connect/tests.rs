use std::time::Duration;

use super::{Address, KeepAlive};
use crate::{Client, ClientBuilder, Error, Tls};

async fn refused(builder: ClientBuilder) -> String {
    builder.connect().await.unwrap_err().to_string()
}

#[tokio::test]
async fn invalid_endpoints_are_refused_with_what_would_be_right() {
    for endpoint in ["", "127.0.0.1:50951", "ftp://host", "unix://", "http://", "http://a b"] {
        let error = Client::connect(endpoint).await.unwrap_err();
        assert!(matches!(error, Error::Endpoint { .. }), "{endpoint}: {error}");
    }
    let message = refused(Client::builder("127.0.0.1:50951")).await;
    assert!(message.contains("http://host:port"), "{message}");
}

#[tokio::test]
async fn nobody_there_is_said_with_what_to_do() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    for endpoint in [endpoint.as_str(), "unix:///nowhere/leasehold.sock"] {
        let error = Client::connect(endpoint).await.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        let message = error.to_string();
        assert!(message.contains(endpoint) && message.contains("leasehold serve"), "{message}");
    }
}

#[tokio::test]
async fn tls_options_must_fit_the_endpoint() {
    let plain = Client::builder("http://127.0.0.1:1").tls(Tls::new("pem"));
    assert!(refused(plain).await.contains("for https:// only"));
    let without = Client::builder("https://127.0.0.1:1");
    assert!(refused(without).await.contains("certificate authority"));
    let no_pem = Client::builder("https://127.0.0.1:1").tls(Tls::new("pem"));
    assert!(refused(no_pem).await.contains("no certificate in PEM form"));
}

#[tokio::test]
async fn s20_the_token_is_never_shown() {
    let builder = Client::builder("http://127.0.0.1:1").bearer_token("se\ncret");
    assert!(!format!("{builder:?}").contains("cret"));
    let message = refused(builder).await;
    assert!(message.contains("bearer token") && !message.contains("cret"), "{message}");
}

#[test]
fn s21_keep_alive_is_for_what_is_not_local_unless_somebody_says_so() {
    let interval = |keep_alive: KeepAlive, endpoint: &str| {
        keep_alive.interval(&Address::parse(endpoint).unwrap())
    };
    let half_a_minute = Some(Duration::from_secs(30));
    for (endpoint, expected) in [
        ("unix:///run/leasehold.sock", None),
        ("http://127.0.0.1:50951", None),
        ("http://127.8.0.1:50951", None),
        ("http://[::1]:50951", None),
        ("https://LOCALHOST:50951", None),
        ("http://leasehold.locks.svc:50951", half_a_minute),
        ("https://10.0.0.7:50951", half_a_minute),
    ] {
        assert_eq!(interval(KeepAlive::ByLocality, endpoint), Ok(expected), "{endpoint}");
        assert_eq!(interval(KeepAlive::Off, endpoint), Ok(None));
        let chosen = Duration::from_secs(10);
        assert_eq!(interval(KeepAlive::Every(chosen), endpoint), Ok(Some(chosen)));
        assert!(interval(KeepAlive::Every(chosen / 2), endpoint).unwrap_err().contains("10 s"));
    }
}
