//! Shared key signatures, which the SDK does not make: one for each try, by a time that the service accepts.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use azure_core::http::headers::{AUTHORIZATION, HeaderName, Headers, MS_DATE};
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{Context, Method, Request, StatusCode, Url};
use azure_core::time::{OffsetDateTime, to_rfc7231};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::answer;
use super::services_time::ServicesTime;
use super::settings::AzureSettingsError;
use crate::time::Clock;

/// An account's name and key.
#[derive(Clone)]
pub(super) struct SharedKey {
    pub(super) account: String,
    key: Vec<u8>,
}

impl fmt::Debug for SharedKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SharedKey").field("account", &self.account).finish_non_exhaustive()
    }
}

impl SharedKey {
    /// Reads the key from base64; `setting` is what errors call it.
    pub(super) fn new(
        account: &str,
        key: &str,
        setting: &'static str,
    ) -> Result<Self, AzureSettingsError> {
        // The decoder's own error would show a byte of the key.
        let key = STANDARD.decode(key.trim()).ok().filter(|key| !key.is_empty());
        let key = key.ok_or_else(|| AzureSettingsError::Malformed {
            setting,
            problem: "it is not base64; copy the whole key, with the equals signs at its end"
                .to_owned(),
        })?;
        Ok(Self { account: account.to_owned(), key })
    }

    /// The value of the header `Authorization` for this request as it stands.
    fn authorize(&self, request: &Request) -> Option<String> {
        let length = request.body().len().unwrap_or_default();
        let text = string_to_sign(
            request.method(),
            request.url(),
            request.headers(),
            &self.account,
            length,
        );
        // HMAC takes keys of any length.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).ok()?;
        mac.update(text.as_bytes());
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        Some(format!("SharedKey {}:{signature}", self.account))
    }
}

/// The headers whose values are signed without their names, in this order; the length comes after the second.
const SIGNED: [HeaderName; 10] = [
    HeaderName::from_static("content-encoding"),
    HeaderName::from_static("content-language"),
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("content-type"),
    HeaderName::from_static("date"),
    HeaderName::from_static("if-modified-since"),
    HeaderName::from_static("if-match"),
    HeaderName::from_static("if-none-match"),
    HeaderName::from_static("if-unmodified-since"),
    HeaderName::from_static("range"),
];

/// What is signed, as "Authorize with Shared Key" documents it.
fn string_to_sign(
    method: Method,
    url: &Url,
    headers: &Headers,
    account: &str,
    length: u64,
) -> String {
    let mut text = format!("{method}\n");
    for (number, name) in SIGNED.iter().enumerate() {
        if number == 2 {
            // An empty body is signed as no length at all, although a length of 0 is sent.
            text.push_str(&if length == 0 { String::new() } else { length.to_string() });
            text.push('\n');
        }
        text.push_str(headers.get_optional_str(name).unwrap_or_default());
        text.push('\n');
    }
    let mut own: Vec<(&str, &str)> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str().trim()))
        .filter(|(name, _)| name.starts_with("x-ms-"))
        .collect();
    own.sort_by(|(left, _), (right, _)| compare_names(left, right));
    for (name, value) in own {
        text.push_str(&format!("{name}:{value}\n"));
    }
    // With an account in the URL's path, as emulators have it, the account comes twice.
    text.push_str(&format!("/{account}{}", url.path()));
    let mut query: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in url.query_pairs() {
        query.entry(name.to_lowercase()).or_default().push(value.into_owned());
    }
    for (name, mut values) in query {
        values.sort();
        text.push_str(&format!("\n{name}:{}", values.join(",")));
    }
    text
}

/// The order in which the service sorts names of headers: dashes count only between names that are equal
/// without them, and underscores come before digits, digits before letters.
fn compare_names(left: &str, right: &str) -> Ordering {
    let weight = |name: &str| -> Vec<u8> {
        name.bytes()
            .filter(|byte| *byte != b'-')
            .map(|byte| if byte == b'_' { b' ' } else { byte })
            .collect()
    };
    weight(left).cmp(&weight(right)).then_with(|| left.cmp(right))
}

/// Signs each try. When the service refuses a signature for this machine's clock, the next try is signed by
/// the service's clock.
#[derive(Debug)]
pub(super) struct SharedKeyPolicy {
    key: SharedKey,
    time: ServicesTime,
}

impl SharedKeyPolicy {
    pub(super) fn new(key: SharedKey, clock: Arc<dyn Clock>) -> Self {
        Self { key, time: ServicesTime::new(clock) }
    }

    fn date(&self) -> String {
        let seconds = i64::try_from(self.time.now().seconds()).unwrap_or(i64::MAX);
        let date = OffsetDateTime::from_unix_timestamp(seconds);
        to_rfc7231(&date.unwrap_or(OffsetDateTime::UNIX_EPOCH))
    }
}

#[expect(
    elided_lifetimes_in_paths,
    reason = "the SDK's trait has it so, and async_trait wants the same"
)]
#[async_trait]
impl Policy for SharedKeyPolicy {
    async fn send(
        &self,
        context: &Context,
        request: &mut Request,
        next: &[Arc<dyn Policy>],
    ) -> PolicyResult {
        request.insert_header(MS_DATE, self.date());
        if let Some(authorization) = self.key.authorize(request) {
            request.insert_header(AUTHORIZATION, authorization);
        }
        let answer = answer::from_next(context, request, next).await?;
        if answer.status() == StatusCode::Forbidden
            && let Some(date) = answer::date(answer.headers())
            && let Some(seconds) = self.time.learn(date)
        {
            tracing::warn!(
                seconds,
                "this machine's clock differs from the store's: requests are signed with the store's time"
            );
        }
        Ok(answer)
    }
}

#[cfg(test)]
#[path = "shared_key_tests.rs"]
mod tests;
