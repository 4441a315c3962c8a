//! The way to an account: its name, host and port, and the proxy that HTTP clients of this process use for
//! it.

use azure_core::http::Url;
use hyper::Uri;
use hyper_util::client::proxy::matcher::Matcher;

/// The way to an account, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The name of the account.
    pub account: String,
    /// The host of its blob service.
    pub host: String,
    /// The port there.
    pub port: u16,
    /// Host and port of the proxy, if there is one.
    pub proxy: Option<Proxy>,
}

/// A proxy, without the password that its URL may have (S20).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// The URL of the request.
    pub url: String,
    /// The variable that names it.
    pub variable: &'static str,
}

impl Route {
    /// The way to `endpoint` by the variables that this process has.
    pub(super) fn to(endpoint: &Url) -> Self {
        let host = endpoint.host_str().unwrap_or_default().to_owned();
        // Where the account is not in the host's name it is the first part of the path, as in the emulator.
        let in_path = endpoint.path().trim_matches('/').split('/').next().unwrap_or_default();
        let in_host = host.split('.').next().unwrap_or_default();
        let account = if in_path.is_empty() { in_host } else { in_path }.to_owned();
        let port = endpoint.port_or_known_default().unwrap_or_default();
        let proxy =
            proxy_of(&Matcher::from_system(), endpoint, |name| std::env::var_os(name).is_some());
        Self { account, host, port, proxy }
    }
}

/// What reqwest finds, which asks the same matcher.
fn proxy_of(matcher: &Matcher, endpoint: &Url, is_set: impl Fn(&str) -> bool) -> Option<Proxy> {
    let target: Uri = endpoint.as_str().split('?').next()?.parse().ok()?;
    let found = matcher.intercept(&target)?;
    let uri = found.uri();
    let names: [&'static str; 4] = match endpoint.scheme() {
        "https" => ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"],
        _ => ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"],
    };
    let variable = names.into_iter().find(|name| is_set(name)).unwrap_or("the system's settings");
    let port = uri.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
    let (scheme, host) = (uri.scheme_str().unwrap_or("http"), uri.host().unwrap_or_default());
    Some(Proxy { url: format!("{scheme}://{host}{port}"), variable })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_named_with_its_port() {
        for (url, account, port) in [
            ("https://mine.blob.core.windows.net", "mine", 443),
            ("https://mine.blob.core.windows.net/?sv=1&sig=c2VjcmV0", "mine", 443),
            ("http://127.0.0.1:10000/devstoreaccount1", "devstoreaccount1", 10_000),
        ] {
            let route = Route::to(&Url::parse(url).unwrap());
            assert_eq!((route.account.as_str(), route.port), (account, port), "{url}");
        }
    }

    #[test]
    fn s20_a_proxy_is_named_with_its_variable_and_without_its_password() {
        let matcher =
            Matcher::builder().https("http://me:secret@proxy.example:3128").no("localhost").build();
        let endpoint = Url::parse("https://mine.blob.core.windows.net/?sig=c2VjcmV0").unwrap();
        let proxy = proxy_of(&matcher, &endpoint, |name| name == "https_proxy").unwrap();
        assert_eq!(
            proxy,
            Proxy { url: "http://proxy.example:3128".to_owned(), variable: "https_proxy" }
        );
        let local = Url::parse("https://localhost:10000/devstoreaccount1").unwrap();
        assert_eq!(proxy_of(&matcher, &local, |_| true), None);
        let plain = Url::parse("http://mine.example").unwrap();
        assert_eq!(proxy_of(&matcher, &plain, |_| true), None);
    }
}
