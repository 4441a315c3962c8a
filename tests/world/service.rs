//! The service: the part of Blob Storage that locks use, by Microsoft's table of lease operations (Lease
//! Blob, REST reference), with its error codes. It knows no time but the one that it is given, and no fault
//! but its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::testing::Asked;

use crate::world::lease::{End, Given, Lease, State};
use crate::world::saves::Saves;

#[derive(Clone, Debug, Default)]
pub(crate) struct Blob {
    pub(crate) version: u64,
    pub(crate) made: Duration,
    pub(crate) written: Duration,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) content: String,
    pub(crate) lease: Lease,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    Missing,
    There,
    BeingDeleted { until: Duration },
}

/// An answer without what every answer has.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn refused(status: u16, code: &'static str) -> Self {
        Self { status, code, headers: Vec::new(), body: String::new() }
    }

    pub(crate) fn done(status: u16) -> Self {
        Self::refused(status, "")
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

#[derive(Debug)]
pub(crate) struct Service {
    container: Container,
    pub(crate) blobs: BTreeMap<String, Blob>,
    version: u64,
    /// Sign-in tokens before this number are refused.
    valid_from: u64,
    issued: u64,
    /// The identity endpoint gives its first token again and again.
    pub(crate) stuck: bool,
    /// Writes are refused for a reason that is not a lease, until then.
    pub(crate) policy: Option<(Duration, &'static str)>,
    /// Everything is refused for want of a role, until then.
    pub(crate) denied_until: Option<Duration>,
    /// What leases were given and how they ended.
    pub(crate) leases: Vec<Given>,
    /// Why leases were broken whose break left its note: by lock and the epoch of the token (S17).
    pub(crate) breaks: BTreeMap<(String, u64), String>,
    /// A break that ended another grant than the one that its note names (S17).
    pub(crate) wrong_break: Option<String>,
    /// All notes of breaks: the lock, the epoch of its token, and why.
    pub(crate) notes: BTreeSet<(String, u64, String)>,
    /// The notes that say that a lease runs out: the lock, the epoch of its token, and since when (S22).
    pub(crate) run_out: BTreeMap<(String, u64), Duration>,
    pub(crate) saves: Saves,
}

impl Service {
    pub(crate) fn new(stuck: bool) -> Self {
        Self {
            container: Container::Missing,
            blobs: BTreeMap::new(),
            version: 0,
            valid_from: 0,
            issued: 0,
            stuck,
            policy: None,
            denied_until: None,
            leases: Vec::new(),
            breaks: BTreeMap::new(),
            wrong_break: None,
            notes: BTreeSet::new(),
            run_out: BTreeMap::new(),
            saves: Saves::default(),
        }
    }

    pub(crate) fn blob(&self, name: &str) -> Option<&Blob> {
        self.blobs.get(name)
    }

    /// All tokens that were given so far are refused from now on.
    pub(crate) fn rotate(&mut self) {
        self.valid_from = self.issued + 1;
    }

    pub(crate) fn delete_container(&mut self, now: Duration, takes: Duration) {
        let names: Vec<String> = self.blobs.keys().cloned().collect();
        names.iter().for_each(|name| self.delete_blob(name, now));
        self.container = Container::BeingDeleted { until: now + takes };
    }

    pub(crate) fn delete_blob(&mut self, name: &str, now: Duration) {
        self.end(name, now, End::Deleted);
        self.saves.deleted(name, now);
        self.blobs.remove(name);
    }

    /// Whether the blob is of that version now.
    pub(crate) fn has_version(&self, blob: &str, version: &str) -> bool {
        self.blobs.get(blob).is_some_and(|blob| etag(blob.version) == version)
    }

    /// The lease that was given last under this id.
    pub(crate) fn given(&self, blob: &str, id: &str) -> Option<&Given> {
        self.leases.iter().rev().find(|given| given.blob == blob && given.id == id)
    }

    pub(crate) fn given_mut(&mut self, blob: &str, id: &str) -> Option<&mut Given> {
        self.leases.iter_mut().rev().find(|given| given.blob == blob && given.id == id)
    }

    pub(crate) fn end(&mut self, name: &str, now: Duration, how: End) {
        let Some(id) = self.blobs.get(name).and_then(|blob| blob.lease.id()) else { return };
        let id = id.to_owned();
        if let Some(given) = self.given_mut(name, &id) {
            given.ended.get_or_insert((now, how));
        }
    }

    /// Does what is asked.
    pub(crate) fn handle(&mut self, now: Duration, asked: &Asked) -> Answer {
        let (path, query) = asked.target.split_once('?').unwrap_or((&asked.target, ""));
        if path.ends_with("/oauth2/v2.0/token") {
            return self.sign_in();
        }
        if let Some(refusal) = self.refused_sign_in(now, asked) {
            return refusal;
        }
        let name = &blob_name(asked);
        if query.contains("restype=container") {
            return self.make_container(now);
        }
        match self.container {
            Container::There => {}
            Container::BeingDeleted { until } if now < until => {
                return Answer::refused(409, "ContainerBeingDeleted");
            }
            Container::BeingDeleted { .. } | Container::Missing => {
                return Answer::refused(404, "ContainerNotFound");
            }
        }
        if asked.method == "PUT" && !query.contains("comp=") {
            return self.put(name, now, asked);
        }
        let Some(blob) = self.blobs.get(name) else {
            return Answer::refused(404, "BlobNotFound");
        };
        if asked.header("if-match").is_some_and(|condition| condition != etag(blob.version)) {
            return Answer::refused(412, "ConditionNotMet");
        }
        match asked.method.as_str() {
            "PUT" if query.contains("comp=lease") => self.lease(name, now, asked),
            "PUT" if query.contains("comp=metadata") => self.set_metadata(name, now, asked),
            "HEAD" => properties(blob, now),
            "GET" => content(blob),
            "DELETE" if blob.lease.state(now) == State::Leased => {
                Answer::refused(412, "LeaseIdMissing")
            }
            "DELETE" => {
                self.delete_blob(name, now);
                Answer::done(202)
            }
            other => panic!("this world does not know {other} {}", asked.target),
        }
    }

    fn sign_in(&mut self) -> Answer {
        if !self.stuck || self.issued == 0 {
            self.issued += 1;
        }
        let token = format!("token-{}", self.issued);
        // So long that it never ends by itself: the SDK counts on the machine's own clock.
        let body = format!(
            "{{\"token_type\":\"Bearer\",\"expires_in\":315360000,\"ext_expires_in\":315360000,\"access_token\":\"{token}\"}}"
        );
        Answer { body, ..Answer::done(200) }.with("content-type", "application/json")
    }

    fn refused_sign_in(&self, now: Duration, asked: &Asked) -> Option<Answer> {
        let token = asked.header("authorization")?.strip_prefix("Bearer token-")?;
        if token.parse::<u64>().ok()? < self.valid_from {
            return Some(Answer::refused(401, "InvalidAuthenticationInfo"));
        }
        self.denied_until
            .is_some_and(|until| now < until)
            .then(|| Answer::refused(403, "AuthorizationPermissionMismatch"))
    }

    fn make_container(&mut self, now: Duration) -> Answer {
        match self.container {
            Container::There => Answer::refused(409, "ContainerAlreadyExists"),
            Container::BeingDeleted { until } if now < until => {
                Answer::refused(409, "ContainerBeingDeleted")
            }
            Container::Missing | Container::BeingDeleted { .. } => {
                self.container = Container::There;
                Answer::done(201)
            }
        }
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn put(&mut self, name: &str, now: Duration, asked: &Asked) -> Answer {
        let condition = asked.header("if-match");
        let version = self.blobs.get(name).map(|blob| etag(blob.version));
        if condition.is_some() && condition != version.as_deref() {
            return Answer::refused(412, "ConditionNotMet");
        }
        if let Some(blob) = self.blobs.get(name)
            && asked.header("if-none-match").is_some()
        {
            // What the service says of one that is leased differs from what it says of one that is not.
            return match blob.lease.state(now) {
                State::Leased | State::Breaking => Answer::refused(412, "LeaseIdMissing"),
                _ => Answer::refused(409, "BlobAlreadyExists"),
            };
        }
        let version = self.next_version();
        let made = self.blobs.get(name).map_or(now, |blob| blob.made);
        let blob = Blob {
            version,
            made,
            written: now,
            metadata: metadata(asked),
            content: String::from_utf8(asked.body.clone()).unwrap(),
            lease: Lease::default(),
        };
        self.blobs.insert(name.to_owned(), blob);
        self.note_written(name, now);
        Answer::done(201).with("etag", etag(version)).with("last-modified", stamp(now))
    }

    fn set_metadata(&mut self, name: &str, now: Duration, asked: &Asked) -> Answer {
        let id = asked.header("x-ms-lease-id").unwrap_or_default();
        let version = self.next_version();
        let policy = self.policy.filter(|(until, _)| now < *until).map(|(_, code)| code);
        let Some(blob) = self.blobs.get_mut(name) else {
            return Answer::refused(404, "BlobNotFound");
        };
        match blob.lease.state(now) {
            State::Leased | State::Breaking if blob.lease.id() == Some(id) => {}
            State::Leased => return Answer::refused(409, "LeaseIdMismatchWithBlobOperation"),
            State::Breaking | State::Broken | State::Expired | State::Available => {
                return Answer::refused(412, "LeaseNotPresentWithBlobOperation");
            }
        }
        if let Some(code) = policy {
            if let Some(given) = self.given_mut(name, id) {
                given.refused.get_or_insert(now);
            }
            return Answer::refused(409, code);
        }
        blob.version = version;
        blob.written = now;
        blob.metadata = metadata(asked);
        let token = blob.metadata.iter().find(|(name, _)| name.contains("token"));
        let token = token.and_then(|(_, value)| value.parse().ok());
        if let Some(given) = self.given_mut(name, id) {
            given.token = token.or(given.token);
        }
        Answer::done(200).with("etag", etag(version)).with("last-modified", stamp(now))
    }

    /// A release of this lease is on its way.
    pub(crate) fn release_asked(&mut self, blob: &str, id: &str) {
        if let Some(given) = self.given_mut(blob, id) {
            given.release_asked = true;
            given.releases += 1;
        }
    }
}

fn properties(blob: &Blob, now: Duration) -> Answer {
    let state = match blob.lease.state(now) {
        State::Available => "available",
        State::Leased => "leased",
        State::Breaking => "breaking",
        State::Broken => "broken",
        State::Expired => "expired",
    };
    let answer = Answer::done(200).with("etag", etag(blob.version)).with("x-ms-lease-state", state);
    let answer = answer.with("last-modified", stamp(blob.written));
    let fields = blob.metadata.iter().map(|(name, value)| (name.clone(), value.clone()));
    let mut answer = answer;
    answer.headers.extend(fields);
    answer
}

/// All that the blob holds: nobody asks for less than that.
fn content(blob: &Blob) -> Answer {
    let length = blob.content.len();
    let range = format!("bytes 0-{}/{length}", length.saturating_sub(1));
    let answer = Answer { body: blob.content.clone(), ..Answer::done(206) };
    answer.with("etag", etag(blob.version)).with("content-range", range)
}

fn metadata(asked: &Asked) -> BTreeMap<String, String> {
    let fields = asked.headers.iter().filter(|(name, _)| name.starts_with("x-ms-meta-"));
    fields.cloned().collect()
}

/// The blob that a request is about: its path, decoded, with its container.
pub(crate) fn blob_name(asked: &Asked) -> String {
    let (path, _) = asked.target.split_once('?').unwrap_or((&asked.target, ""));
    let decoded = percent_encoding::percent_decode_str(path.trim_start_matches('/'));
    decoded.decode_utf8_lossy().into_owned()
}

pub(crate) fn stamp(at: Duration) -> String {
    at.as_millis().to_string()
}

pub(crate) fn etag(version: u64) -> String {
    format!("\"0x{version:X}\"")
}
