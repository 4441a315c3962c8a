//! What a lock costs (S10, S12): how many requests of one sidecar for one path, and how close together.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use leasehold::testing::Asked;

use crate::world::service::Answer;

/// S12: nothing is polled for oftener than this, and nothing that failed is asked again so soon (S7: D/30 is
/// 500 ms).
const FLOOR: Duration = Duration::from_millis(250);
const TEN_SECONDS: Duration = Duration::from_secs(10);
const MINUTE: Duration = Duration::from_secs(60);
/// What a request calls for comes soon after its answer: within the longest that one is waited for (S7), and
/// its way.
const SOON: Duration = Duration::from_secs(6);

/// What calls for requests at once, without a pause before them. All others have [`FLOOR`] between them:
/// polls (S12), the repeats of whatever failed (S7: from D/30 on) and renewals (S7: each D/3), of which a
/// path does one at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cause {
    /// A caller came: it is tried for with its record read beside, and what is unknown is given back when it
    /// leaves (S6).
    Caller,
    /// A hold is to go on here (S16): renewed, read and written; and repeated each D/60, which may be less
    /// than the floor.
    Resume,
    /// Its checkpoint is saved (S24): one write.
    Save,
    /// An operator breaks it here (S17): its record is read twice.
    Break,
    /// A lease was given: its record is read and written, for another caller once more (S5, S11); it goes
    /// back, after a read if the record had changed (S13); the next one is asked for, with its record.
    Lease,
    /// It is not as it was known, or another's now: it is read, and asked for again (S5, S8).
    Changed,
    /// It is not there: it is made, and asked for again (S18).
    Missing,
    /// The credentials were refused: it is sent once more (S8).
    Denied,
    /// Its record was read: it may be free (S10).
    Read,
}

impl Cause {
    const fn requests(self, lease: Duration) -> u32 {
        match self {
            Self::Caller => 3,
            // Each D/60 less a fifth, over a whole D: as many more than the floor allows.
            Self::Resume if lease.as_secs() == 15 => 3 + (75 - 60),
            Self::Resume => 3,
            Self::Break | Self::Changed | Self::Missing => 2,
            Self::Lease => 8,
            Self::Save | Self::Denied | Self::Read => 1,
        }
    }

    fn of(asked: &Asked, answer: &Answer) -> Option<Self> {
        let is_acquire = asked.header("x-ms-lease-action") == Some("acquire");
        match answer.status {
            201 if is_acquire => Some(Self::Lease),
            200 if asked.method == "HEAD" => Some(Self::Read),
            401 | 403 => Some(Self::Denied),
            404 => Some(Self::Missing),
            409 | 412 => Some(Self::Changed),
            _ => None,
        }
    }
}

/// The most acquires of one sidecar that meet another's lease, of a lock that nobody has written for long,
/// within ten seconds (S10, S12). Of the polls of one that is handed on, at least 33, one in four is a read.
const MOST_QUIET_POLLS: usize = 20;
/// A record that says "handed on" is polled often for 5 s + D after it was last seen to change.
const EAGER_BEYOND: Duration = Duration::from_secs(5);

/// A sidecar and a lock.
type Place = (usize, String);

#[derive(Debug, Default)]
pub(crate) struct Costs {
    /// When requests were sent, and what called for how many.
    sent: BTreeMap<Place, VecDeque<Duration>>,
    called_for: BTreeMap<Place, VecDeque<(Duration, u32)>>,
    /// Acquires that are waited for, by those that have run at a place.
    acquiring: BTreeMap<(u32, Place), u32>,
    polls: BTreeMap<Place, VecDeque<Duration>>,
    /// The version of a record that a sidecar has seen last, if that is certain, and since when it knows it.
    seen: BTreeMap<Place, (Option<String>, Duration)>,
    /// The most in ten seconds and in a minute, and the most of these that nothing called for.
    pub(crate) most: [usize; 2],
    pub(crate) most_uncalled: [usize; 2],
}

impl Costs {
    /// A request is sent. What a lock costs is bounded, whatever goes wrong.
    pub(crate) fn sends(&mut self, place: (usize, &str), now: Duration) -> Option<String> {
        let key = (place.0, place.1.to_owned());
        let sent = self.sent.entry(key.clone()).or_default();
        sent.push_back(now);
        while sent.front().is_some_and(|at| *at + MINUTE <= now) {
            sent.pop_front();
        }
        let called_for = self.called_for.entry(key).or_default();
        while called_for.front().is_some_and(|(at, _)| *at + MINUTE + SOON <= now) {
            called_for.pop_front();
        }
        let mut wrong = None;
        for (index, span) in [TEN_SECONDS, MINUTE].into_iter().enumerate() {
            let count = sent.len() - sent.partition_point(|at| *at + span <= now);
            let lately = called_for.iter().filter(|(at, _)| *at + span + SOON > now);
            let called: u32 = lately.map(|(_, requests)| requests).sum();
            let uncalled = count.saturating_sub(called as usize);
            let most = 1 + usize::try_from(span.as_millis() / FLOOR.as_millis()).unwrap();
            self.most[index] = self.most[index].max(count);
            self.most_uncalled[index] = self.most_uncalled[index].max(uncalled);
            if uncalled > most {
                let (sidecar, path) = place;
                wrong = wrong.or_else(|| {
 Some(format!(
 "S12: {count} requests of {sidecar} for {path} in {span:?}, and only {called} were called for"
 ))
 });
            }
        }
        wrong
    }

    pub(crate) fn calls_for(
        &mut self,
        place: (usize, &str),
        cause: Cause,
        (lease, now): (Duration, Duration),
    ) {
        let place = (place.0, place.1.to_owned());
        if matches!(cause, Cause::Resume) {
            // S16: it is more urgent than the acquire under way, which nobody waits for any more.
            self.acquiring.retain(|(_, of), _| *of != place);
        }
        let called_for = self.called_for.entry(place).or_default();
        called_for.push_back((now, cause.requests(lease)));
    }

    /// What an answer calls for.
    pub(crate) fn answered(
        &mut self,
        place: (usize, &str),
        (asked, answer): (&Asked, &Answer),
        (lease, now): (Duration, Duration),
    ) {
        if let Some(cause) = Cause::of(asked, answer) {
            self.calls_for(place, cause, (lease, now));
        }
    }

    /// An acquire is waited for: one at a time (S12).
    pub(crate) fn begins(&mut self, life: u32, (sidecar, path): (usize, &str)) -> Option<String> {
        let acquiring = self.acquiring.entry((life, (sidecar, path.to_owned()))).or_default();
        *acquiring += 1;
        (*acquiring > 1).then(|| format!("S12: {sidecar} waits for {acquiring} acquires of {path}"))
    }

    /// S6: nobody waits any more for the acquire whose lease is released.
    pub(crate) fn gives_up(&mut self, life: u32, (sidecar, path): (usize, &str)) {
        self.acquiring.remove(&(life, (sidecar, path.to_owned())));
    }

    pub(crate) fn ends(&mut self, life: u32, (sidecar, path): (usize, &str)) {
        if let Some(acquiring) = self.acquiring.get_mut(&(life, (sidecar, path.to_owned()))) {
            *acquiring = acquiring.saturating_sub(1);
        }
    }

    /// A sidecar began anew: what it polls, it looks at for the first time.
    pub(crate) fn began_anew(&mut self, sidecar: usize) {
        self.polls.retain(|(of, _), _| *of != sidecar);
        self.seen.retain(|(of, _), _| *of != sidecar);
    }

    /// A sidecar was answered with this version of a record. Where its requests are lost or late it may be
    /// that it does not know what it was answered.
    pub(crate) fn saw(
        &mut self,
        (sidecar, path): (usize, &str),
        version: &str,
        certain: bool,
        now: Duration,
    ) {
        let seen = self.seen.entry((sidecar, path.to_owned())).or_insert((None, now));
        if seen.0.as_deref() != Some(version) {
            *seen = (certain.then(|| version.to_owned()), now);
        }
    }

    /// A hold of this sidecar is over: what it knew of the record may count no more, and is looked at anew
    /// (S8, S16).
    pub(crate) fn forgets(&mut self, (sidecar, path): (usize, &str)) {
        if let Some(seen) = self.seen.get_mut(&(sidecar, path.to_owned())) {
            seen.0 = None;
        }
    }

    /// An acquire met another's lease. S10: what is not handed on any more is polled as at any other time.
    pub(crate) fn polls(
        &mut self,
        (sidecar, path): (usize, &str),
        lease: Duration,
        now: Duration,
    ) -> Option<String> {
        let key = (sidecar, path.to_owned());
        let sent = self.polls.entry(key.clone()).or_default();
        sent.push_back(now);
        while sent.front().is_some_and(|at| *at + TEN_SECONDS <= now) {
            sent.pop_front();
        }
        let (_, seen) = self.seen.get_mut(&key)?;
        if sent.len() == 1 {
            // Nobody polled it here before: what was read of it until now was a look (T9), of which a machine
            // knows nothing.
            *seen = (*seen).max(now);
        }
        let quiet = *seen + lease + EAGER_BEYOND + TEN_SECONDS < now;
        (quiet && sent.len() > MOST_QUIET_POLLS).then(|| {
            format!("S10: {sidecar} polls {path} {} times in 10 s: nothing moves", sent.len())
        })
    }
}
