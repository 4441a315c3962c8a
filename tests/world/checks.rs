//! What must hold at every step. The first thing that does not is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::lock::{FencingToken, LockPath};

use crate::world::cost::Costs;

/// S5 promises nothing of a lock that is deleted and made again within this of its last grant.
const MADE_AT_ONCE: Duration = Duration::from_secs(5);
/// How long after its record was written a grant may be told: an answer is waited for so long (S7).
const TOLD_LATER: Duration = Duration::from_secs(5);

/// A hold: two locks may have the same token.
pub(crate) type Key = (LockPath, u64);

/// A client's belief in its hold (S21), in true time.
#[derive(Clone, Debug)]
pub(crate) struct Belief {
    pub(crate) client: usize,
    pub(crate) token: u64,
    pub(crate) until: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// The rule that was broken, how, and when.
    pub(crate) violation: Option<(String, Duration)>,
    streams: u64,
    pub(crate) told: BTreeMap<u64, crate::world::justice::Told>,
    beliefs: BTreeMap<LockPath, Vec<Belief>>,
    /// Until when two holders are possible by what somebody did (S17, S18).
    excused: BTreeMap<String, Duration>,
    /// The greatest token that was granted of each lock.
    newest: BTreeMap<LockPath, (u64, Duration)>,
    /// The greatest token that each lock's resource has seen.
    accepted: BTreeMap<LockPath, u64>,
    pub(crate) costs: Costs,
    /// The stream by which a hold was to go on last.
    resumed: BTreeMap<Key, u64>,
    /// The generation that a hold was told last (S16).
    pub(crate) generations: BTreeMap<Key, u64>,
    /// The end that a hold cannot have by `max_hold` before: by lock and token.
    pub(crate) bounds: BTreeMap<Key, Duration>,
    /// How long a hold may go on without a report, and the last that was answered, or its grant: by lock and
    /// token.
    pub(crate) progress: BTreeMap<Key, (Duration, Duration)>,
    /// The end of the validity that a hold's client was told by call: by lock and token.
    told_by_call: BTreeMap<Key, Duration>,
    /// The streams that were told that their lease runs out, and their deadlines (S22).
    pub(crate) revoked: BTreeMap<u64, Duration>,
    /// The streams on which nobody is told anything any more.
    pub(crate) unheard: BTreeSet<u64>,
    /// The latest end of its validity that the holder of each was told.
    pub(crate) promised: BTreeMap<Key, Duration>,
    pub(crate) grants: u64,
    pub(crate) writes: u64,
    pub(crate) stale_writes: u64,
}

impl Checks {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn fail(&mut self, what: String, now: Duration) {
        self.violation.get_or_insert((what, now));
    }

    pub(crate) fn told_by_call(&mut self, key: Key, until: Duration) {
        self.told_by_call.insert(key, until);
    }

    /// The end of the validity that its client knows.
    pub(crate) fn told_until(&self, key: &Key, by_stream: Duration) -> Duration {
        self.told_by_call.get(key).map_or(by_stream, |by_call| by_stream.max(*by_call))
    }

    /// A new stream, which goes on with this hold if there is one.
    pub(crate) fn new_stream(&mut self, resumes: Option<Key>) -> u64 {
        self.streams += 1;
        if let Some(key) = resumes {
            self.resumed.insert(key, self.streams);
        }
        self.streams
    }

    /// Whether the hold of this stream was to go on by a later one (S16).
    pub(crate) fn is_left(&self, key: &Key, stream: u64) -> bool {
        self.resumed.get(key).is_some_and(|newest| *newest > stream)
    }

    /// S5: tokens grow in the order of their grants, unless the lock was made again at once, or broken at
    /// once.
    pub(crate) fn granted(
        &mut self,
        path: &LockPath,
        token: u64,
        (now, made): (Duration, Option<Duration>),
    ) -> Option<String> {
        self.grants += 1;
        // S17: until a sidecar notices that its lease was ended at once, by the next answer that it gets, two
        // are granted it.
        let excused = self.was_made_at_once(path, made) || self.is_excused(path, now);
        let (before, _) = self.newest.get(path).copied().unwrap_or_default();
        if token > before {
            self.newest.insert(path.clone(), (token, now));
        }
        (token <= before && !excused)
            .then(|| format!("S5: token {token} of {path} is granted after {before}"))
    }

    /// Whether this lock, which was made at `made`, had its greatest token granted just before that; a grant
    /// may be told a little later than it was written.
    pub(crate) fn was_made_at_once(&self, path: &LockPath, made: Option<Duration>) -> bool {
        let granted = self.newest.get(path).map(|(_, at)| *at);
        let near =
            |(made, at): (Duration, Duration)| made < at + MADE_AT_ONCE && at < made + TOLD_LATER;
        made.zip(granted).is_some_and(near)
    }

    /// Whether the lock was handed on to another under the lease that this token was granted under (S10).
    pub(crate) fn was_handed_on(&self, path: &LockPath, token: u64) -> bool {
        let epoch = |token: u64| FencingToken::from_u64(token).map(FencingToken::epoch);
        let later = (path.clone(), token + 1)..=(path.clone(), u64::MAX);
        let next = self.generations.range(later).next();
        next.is_some_and(|((_, next), _)| epoch(*next) == epoch(token))
    }

    /// Whether this grant was told before: a call may be repeated.
    pub(crate) fn was_granted(&self, path: &LockPath, token: u64) -> bool {
        self.generations.contains_key(&(path.clone(), token))
    }

    /// S1: nobody begins to believe, or goes on, while another believes.
    pub(crate) fn believes(
        &mut self,
        path: &LockPath,
        (client, token): (usize, u64),
        (now, until): (Duration, Duration),
    ) -> Option<String> {
        let beliefs = self.beliefs.entry(path.clone()).or_default();
        beliefs.retain(|belief| now < belief.until);
        let other = beliefs.iter().find(|belief| belief.client != client).cloned();
        beliefs.retain(|belief| belief.client != client);
        beliefs.push(Belief { client, token, until });
        let excused = self.is_excused(path, now);
        let other = other.filter(|_| now < until && !excused)?;
        Some(format!(
            "S1: client {client} believes in {path} with {token} beside client {} with {} until {:?}",
            other.client, other.token, other.until
        ))
    }

    pub(crate) fn believes_no_more(&mut self, path: &LockPath, client: usize) {
        if let Some(beliefs) = self.beliefs.get_mut(path) {
            beliefs.retain(|belief| belief.client != client);
        }
    }

    /// A client that believes in a hold that this is about.
    pub(crate) fn believer(
        &self,
        is_about: impl Fn(&LockPath, u64) -> bool,
        now: Duration,
    ) -> Option<usize> {
        let all = self.beliefs.iter().flat_map(|(path, all)| all.iter().map(move |it| (path, it)));
        let mut found = all.filter(|(path, it)| now < it.until && is_about(path, it.token));
        found.next().map(|(_, belief)| belief.client)
    }

    pub(crate) fn believed_until(&self, path: &LockPath, client: usize) -> Option<Duration> {
        let beliefs = self.beliefs.get(path)?;
        beliefs.iter().find(|belief| belief.client == client).map(|belief| belief.until)
    }

    /// Who believes in this lock now, or is about to, may be one of two (S17, S18).
    pub(crate) fn excuse(&mut self, path: &str, until: Duration) {
        self.excused.insert(path.to_owned(), until);
    }

    pub(crate) fn is_excused(&self, path: &LockPath, now: Duration) -> bool {
        self.excused.get(&path.to_string()).is_some_and(|until| now < *until)
    }

    /// A write at the protected resource, which refuses older tokens than it has seen.
    pub(crate) fn write(&mut self, path: &LockPath, token: u64) {
        self.writes += 1;
        let accepted = self.accepted.entry(path.clone()).or_default();
        if token < *accepted {
            self.stale_writes += 1;
        }
        *accepted = token.max(*accepted);
    }
}
