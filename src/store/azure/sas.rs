//! Shared access signatures: read as far as their URL and their end go, and never shown.

use std::fmt;

use azure_core::http::Url;
use azure_core::time::parse_rfc3339;

use super::settings::{AzureSettingsError, parse_endpoint};
use crate::time::UnixMillis;

/// The container that the URL of a SAS is for, if that is one container.
pub(super) fn container_of(text: &str) -> Option<String> {
    let url = Url::parse(text.trim()).ok()?;
    let is_of_container = value(&url, "sr").as_deref() == Some("c");
    let path = url.path().trim_end_matches('/');
    let name = path.rsplit('/').next().filter(|name| is_of_container && !name.is_empty())?;
    Some(name.to_owned())
}

/// What is known of a shared access signature. The signature itself is in the endpoint's query only.
#[derive(Clone)]
pub(super) struct Sas {
    /// When it ends, if it says so itself.
    pub(super) expires: Option<UnixMillis>,
    /// Its end as it was written, for people.
    pub(super) expires_text: String,
    /// When it begins, if it says so, and that as it was written.
    begins: Option<(UnixMillis, String)>,
    /// The one container that it is for, if it is one.
    container: Option<String>,
}

/// What a shared access signature says of itself. Shows no secret (S20).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// When it begins; at once, if it does not say.
    pub begins: Option<UnixMillis>,
    /// When it ends; when its stored access policy says, if it does not.
    pub ends: Option<UnixMillis>,
    /// The container that it is for; the whole account, if it does not say.
    pub container: Option<String>,
}

impl fmt::Debug for Sas {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sas").field("expires", &self.expires_text).finish_non_exhaustive()
    }
}

impl Sas {
    /// Reads a SAS URL of the blob service or of a container; the URL of the blob service with the SAS in its
    /// query.
    pub(super) fn from_url(text: &str) -> Result<(Url, Self), AzureSettingsError> {
        const SETTING: &str = "the SAS URL";
        let mut url = parse_endpoint(text, SETTING)?;
        let mut sas = Self::from_query(&url, SETTING)?;
        sas.container = container_of(text);
        match value(&url, "sr").as_deref() {
            // A container's SAS comes with the container's URL; containers are appended when they are used.
            Some("c") => {
                if let Ok(mut segments) = url.path_segments_mut() {
                    segments.pop();
                }
                let path = url.path().trim_end_matches('/').to_owned();
                url.set_path(&path);
            }
            Some("b" | "bs" | "bv" | "d") => {
                return Err(AzureSettingsError::Malformed {
                    setting: SETTING,
                    problem: "it is for one blob or folder; locks need one for the container or the account"
                        .to_owned(),
                });
            }
            Some(_) | None => {}
        }
        Ok((url, sas))
    }

    /// Puts the signature's text, with or without a question mark, behind `endpoint`.
    pub(super) fn append(
        mut endpoint: Url,
        text: &str,
        setting: &'static str,
    ) -> Result<(Url, Self), AzureSettingsError> {
        endpoint.set_query(Some(text.trim().trim_start_matches('?')));
        let sas = Self::from_query(&endpoint, setting)?;
        Ok((endpoint, sas))
    }

    fn from_query(url: &Url, setting: &'static str) -> Result<Self, AzureSettingsError> {
        for name in ["sig", "sv"] {
            if value(url, name).is_none_or(|value| value.is_empty()) {
                return Err(AzureSettingsError::Malformed {
                    setting,
                    problem: format!(
                        "its parameter {name:?} is missing, so it is not a shared access signature"
                    ),
                });
            }
        }
        // A SAS by a stored access policy ends when that policy says, which only the service knows.
        let moment = |name| {
            let text = value(url, name)?;
            let at = u64::try_from(parse_rfc3339(&text).ok()?.unix_timestamp()).ok()?;
            Some((UnixMillis(at.saturating_mul(1_000)), text))
        };
        let (expires, expires_text) = moment("se").unzip();
        let expires_text = expires_text.unwrap_or_default();
        Ok(Self { expires, expires_text, begins: moment("st"), container: None })
    }

    /// What it says of itself.
    pub(super) fn described(&self) -> Signature {
        Signature {
            begins: self.begins.as_ref().map(|(begins, _)| *begins),
            ends: self.expires,
            container: self.container.clone(),
        }
    }

    /// When it begins as it was written, if that is after `now`.
    pub(super) fn begins_after(&self, now: UnixMillis) -> Option<&str> {
        let (begins, text) = self.begins.as_ref()?;
        (*begins > now).then_some(text.as_str())
    }

    /// Whether it has ended at `now`.
    pub(super) fn has_expired(&self, now: UnixMillis) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

fn value(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}
