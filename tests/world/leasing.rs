//! The service's lease operations, by Microsoft's table of them.

use std::time::Duration;

use leasehold::lock::FencingToken;
use leasehold::testing::Asked;

use crate::world::lease::{End, Given, Id, Lease, State};
use crate::world::service::{Answer, Service, etag, stamp};

impl Service {
    /// Somebody else's tool breaks a lease.
    pub(crate) fn break_lease(&mut self, name: &str, now: Duration, at_once: bool) -> bool {
        let Some(blob) = self.blobs.get_mut(name) else { return false };
        let Lease::Leased { id, until, .. } = &blob.lease else { return false };
        if now >= *until {
            return false;
        }
        let until = if at_once { now } else { *until };
        blob.lease = Lease::Breaking { id: id.clone(), until };
        true
    }

    /// A host of WebJobs takes a lock that is free, and leaves no record.
    pub(crate) fn lease_to_stranger(&mut self, name: &str, now: Duration, lasts: Duration) -> bool {
        let state = self.blob(name).map(|blob| blob.lease.state(now));
        match state {
            None | Some(State::Leased | State::Breaking) => return false,
            Some(State::Available) => {}
            Some(State::Expired | State::Broken) => self.end(name, now, End::TakenOver),
        }
        if let Some(blob) = self.blobs.get_mut(name) {
            let id = "00000000-0000-4000-8000-00000000dead".to_owned();
            blob.lease = Lease::Leased { id, until: now + lasts, lasts };
        }
        true
    }

    pub(crate) fn lease(&mut self, name: &str, now: Duration, asked: &Asked) -> Answer {
        let action = asked.header("x-ms-lease-action").unwrap_or_default();
        let id = asked.header("x-ms-lease-id").unwrap_or_default();
        let Some(blob) = self.blobs.get_mut(name) else {
            return Answer::refused(404, "BlobNotFound");
        };
        let version = blob.version;
        let ours = blob.lease.id() == Some(id);
        let done = |status| {
            Answer::done(status).with("etag", etag(version)).with("last-modified", stamp(now))
        };
        match action {
            "acquire" => {
                let id = asked.header("x-ms-proposed-lease-id").unwrap_or_default().to_owned();
                let seconds = asked.header("x-ms-lease-duration").unwrap().parse().unwrap();
                self.acquire(name, now, id, Duration::from_secs(seconds))
            }
            "renew" => match &mut blob.lease {
                _ if !ours => Answer::refused(409, "LeaseIdMismatchWithLeaseOperation"),
                // Also when it has run out: nobody has leased or written since, or it would be another's.
                Lease::Leased { until, lasts, .. } => {
                    *until = now + *lasts;
                    done(200).with("x-ms-lease-id", id)
                }
                Lease::Breaking { .. } => Answer::refused(409, "LeaseIsBrokenAndCannotBeRenewed"),
                Lease::Available => Answer::refused(409, "LeaseNotPresentWithLeaseOperation"),
            },
            "release" if ours => {
                self.end(name, now, End::Released);
                if let Some(blob) = self.blobs.get_mut(name) {
                    blob.lease = Lease::Available;
                }
                done(200)
            }
            "release" => Answer::refused(409, "LeaseIdMismatchWithLeaseOperation"),
            "break" => {
                let period = asked.header("x-ms-lease-break-period");
                self.broken(name, now, period.map(|period| period.parse().unwrap()))
            }
            other => panic!("this world does not know the lease action {other}"),
        }
    }

    fn acquire(&mut self, name: &str, now: Duration, id: Id, lasts: Duration) -> Answer {
        let Some(blob) = self.blobs.get(name) else {
            return Answer::refused(404, "BlobNotFound");
        };
        let (version, ours) = (blob.version, blob.lease.id() == Some(&*id));
        match blob.lease.state(now) {
            State::Breaking if ours => {
                return Answer::refused(409, "LeaseIsBreakingAndCannotBeAcquired");
            }
            State::Breaking => return Answer::refused(409, "LeaseAlreadyPresent"),
            State::Leased if !ours => return Answer::refused(409, "LeaseAlreadyPresent"),
            State::Leased | State::Available => {}
            State::Expired | State::Broken if ours => {}
            State::Expired | State::Broken => self.end(name, now, End::TakenOver),
        }
        let given = Given {
            blob: name.to_owned(),
            id: id.clone(),
            lasts,
            token: None,
            ended: None,
            refused: None,
            // A request that arrives once more after the release brings back what nobody knows of.
            release_asked: self.given(name, &id).is_some_and(|before| before.release_asked),
            releases: self.given(name, &id).map_or(0, |before| before.releases),
            release_refused: false,
        };
        if self.given(name, &id).is_none_or(|before| before.ended.is_some()) {
            self.leases.push(given);
        }
        if let Some(blob) = self.blobs.get_mut(name) {
            blob.lease = Lease::Leased { id: id.clone(), until: now + lasts, lasts };
        }
        let done = Answer::done(201).with("etag", etag(version)).with("last-modified", stamp(now));
        done.with("x-ms-lease-id", id)
    }

    /// Breaks a lease: after so many seconds, or when it would have run out.
    fn broken(&mut self, name: &str, now: Duration, period: Option<u64>) -> Answer {
        self.note_break(name, now);
        let Some(blob) = self.blobs.get_mut(name) else {
            return Answer::refused(404, "BlobNotFound");
        };
        let most = period.map_or(Duration::MAX, |seconds| now + Duration::from_secs(seconds));
        let (id, until) = match &blob.lease {
            Lease::Available => {
                return Answer::refused(409, "LeaseNotPresentWithLeaseOperation");
            }
            Lease::Leased { id, until, .. } | Lease::Breaking { id, until } => {
                (id.clone(), (*until).min(most).max(now))
            }
        };
        let left = (until - now).as_millis().div_ceil(1_000);
        blob.lease = Lease::Breaking { id, until };
        let done = Answer::done(202).with("etag", etag(blob.version));
        done.with("last-modified", stamp(now)).with("x-ms-lease-time", left.to_string())
    }

    /// Whose lease is broken, and why, by the note that stands beside it.
    fn note_break(&mut self, name: &str, now: Duration) {
        let blob = self.blob(name).filter(|blob| blob.lease.state(now) == State::Leased);
        let id = blob.and_then(|blob| blob.lease.id().map(str::to_owned));
        let given = id.and_then(|id| self.given(name, &id)).and_then(|given| given.token);
        let given = given.and_then(FencingToken::from_u64).map(FencingToken::epoch);
        if let (Some(given), Some((reason, Some(epoch)))) = (given, self.note(name)) {
            if epoch == given {
                self.breaks.insert((name.to_owned(), epoch), reason);
            } else {
                let what =
                    format!("S17: {name} is broken for epoch {epoch}, and epoch {given} has it");
                self.wrong_break.get_or_insert(what);
            }
        }
    }

    /// A note was written beside a lock.
    pub(crate) fn note_written(&mut self, note: &str, now: Duration) {
        let Some((container, lock)) = note.split_once("/leasehold-breaks/") else { return };
        let name = format!("{container}/{lock}");
        if let Some((reason, Some(epoch))) = self.note(&name) {
            let period = self.blob(note).and_then(|note| note.metadata.get("x-ms-meta-period"));
            if period.is_some_and(|period| period == "run-out") {
                self.run_out.entry((name.clone(), epoch)).or_insert(now);
            }
            self.notes.insert((name, epoch, reason));
        }
    }

    /// The reason in the note of the latest break of a lock, and the epoch of the token that it is about.
    pub(crate) fn note(&self, name: &str) -> Option<(String, Option<u64>)> {
        let (container, lock) = name.split_once('/')?;
        let note = self.blob(&format!("{container}/leasehold-breaks/{lock}"))?;
        let field = |field: &str| note.metadata.get(&format!("x-ms-meta-{field}"));
        let token = field("token").and_then(|token| FencingToken::from_u64(token.parse().ok()?));
        Some((field("reason")?.clone(), token.map(FencingToken::epoch)))
    }
}
