//! What must hold at every step. The first thing that does not is kept.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use leasehold::lock::LockPath;

use crate::sidecar::POLL_CAP;

/// The most requests of one sidecar for one path, within ten seconds and within a minute.
const MOST_IN_TEN_SECONDS: usize = 60;
const MOST_IN_A_MINUTE: usize = 240;
const TEN_SECONDS: Duration = Duration::from_secs(10);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// The most polls of one sidecar for a lock that nobody has written for long, within ten seconds (S10, S12).
const MOST_QUIET_POLLS: usize = 20;
/// A record that says "handed on" and does not change is polled often for 5 s + D; a window counts for ten more.
const QUIET: Duration = Duration::from_secs(5 + 10);
/// Who polls at all polls oftener than this.
const PAUSE: Duration = Duration::from_secs(POLL_CAP.as_secs() + 1);
/// S5 promises nothing for five seconds after a grant whose lock is then deleted; what is told comes later.
const MADE_AT_ONCE: Duration = Duration::from_secs(12);

/// A hold: two locks may have the same token.
pub(crate) type Key = (LockPath, u64);

/// A client's belief in its hold (S21), in true time.
#[derive(Clone, Debug)]
pub(crate) struct Belief {
    pub(crate) client: usize,
    pub(crate) token: u64,
    pub(crate) until: Duration,
}

/// A sidecar polls a lock, without a long pause.
#[derive(Debug, Default)]
struct Spell {
    from: Duration,
    sent: VecDeque<Duration>,
}

#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// The rule that was broken, how, and when.
    pub(crate) violation: Option<(String, Duration)>,
    streams: u64,
    pub(crate) told: BTreeMap<u64, crate::justice::Told>,
    beliefs: BTreeMap<LockPath, Vec<Belief>>,
    /// Until when two holders are possible by what somebody did (S17, S18).
    excused: BTreeMap<String, Duration>,
    /// The greatest token that was granted of each lock.
    newest: BTreeMap<LockPath, (u64, Duration)>,
    /// The greatest token that each lock's resource has seen.
    accepted: BTreeMap<LockPath, u64>,
    requests: BTreeMap<(usize, String), VecDeque<Duration>>,
    polls: BTreeMap<(usize, String), Spell>,
    /// What each sidecar saw of a record: when it was written, and when it was looked at first.
    looked: BTreeMap<(usize, String), (Duration, Duration)>,
    pub(crate) most_requests: [usize; 2],
    /// The end that a hold cannot have by `max_hold` before: by lock and token.
    pub(crate) bounds: BTreeMap<Key, Duration>,
    /// The end of the validity that a hold's client was told by call: by lock and token.
    told_by_call: BTreeMap<Key, Duration>,
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

    pub(crate) fn new_stream(&mut self) -> u64 {
        self.streams += 1;
        self.streams
    }

    /// S5: tokens grow in the order of their grants, unless the lock was deleted and made again at once.
    pub(crate) fn granted(
        &mut self,
        path: &LockPath,
        token: u64,
        (now, deleted): (Duration, bool),
    ) -> Option<String> {
        self.grants += 1;
        let (before, at) = self.newest.get(path).copied().unwrap_or_default();
        self.newest.insert(path.clone(), (token.max(before), now));
        let excused = deleted && now < at + MADE_AT_ONCE;
        (token <= before && !excused)
            .then(|| format!("S5: token {token} of {path} is granted after {before}"))
    }

    pub(crate) fn is_newest(&self, path: &LockPath, token: u64) -> bool {
        self.newest.get(path).is_some_and(|(newest, _)| *newest == token)
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

    /// S12: what a lock costs is bounded, whatever goes wrong.
    pub(crate) fn requested(
        &mut self,
        sidecar: usize,
        path: &str,
        now: Duration,
    ) -> Option<String> {
        let sent = self.requests.entry((sidecar, path.to_owned())).or_default();
        while sent.front().is_some_and(|at| *at + MINUTE <= now) {
            sent.pop_front();
        }
        sent.push_back(now);
        let lately = sent.len() - sent.partition_point(|at| *at + TEN_SECONDS <= now);
        let counts = [lately, sent.len()];
        let too_many = lately > MOST_IN_TEN_SECONDS || sent.len() > MOST_IN_A_MINUTE;
        for (most, count) in self.most_requests.iter_mut().zip(counts) {
            *most = count.max(*most);
        }
        too_many.then(|| {
            format!("S12: {counts:?} requests of {sidecar} for {path} in 10 s and in a minute")
        })
    }

    /// A sidecar began anew: what it polls, it looks at for the first time.
    pub(crate) fn began_anew(&mut self, sidecar: usize) {
        self.polls.retain(|(of, _), _| *of != sidecar);
        self.looked.retain(|(of, _), _| *of != sidecar);
    }

    /// When this sidecar looked first at what was written last; now, if it has not yet.
    pub(crate) fn looked(
        &mut self,
        (sidecar, path): (usize, &str),
        looks: bool,
        (written, now): (Duration, Duration),
    ) -> Duration {
        let key = (sidecar, path.to_owned());
        match self.looked.get(&key) {
            Some((of, at)) if *of == written => *at,
            _ => {
                if looks {
                    self.looked.insert(key, (written, now));
                }
                now
            }
        }
    }

    /// S10: what is not handed on any more is polled as at any other time. The lease after the last write of the record
    /// is over at `quiet_from`.
    pub(crate) fn polled(
        &mut self,
        (sidecar, path): (usize, &str),
        quiet_from: Duration,
        now: Duration,
    ) -> Option<String> {
        let spell = self.polls.entry((sidecar, path.to_owned())).or_default();
        let last = spell.sent.back().copied().unwrap_or_default();
        if last + PAUSE < now {
            // It looks at the record for the first time, or anew.
            *spell = Spell { from: now, sent: VecDeque::new() };
        }
        spell.sent.push_back(now);
        while spell.sent.front().is_some_and(|at| *at + TEN_SECONDS <= now) {
            spell.sent.pop_front();
        }
        let often = spell.sent.len() > MOST_QUIET_POLLS;
        (often && quiet_from + QUIET < now && spell.from + MINUTE + QUIET < now).then(|| {
            format!("S10: {sidecar} polls {path} {} times in 10 s: nothing moves", spell.sent.len())
        })
    }
}
