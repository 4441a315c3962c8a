//! What must be true at every moment, told from what callers were told and what the store did.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::hold::{Action, CallerId, Granted, Request};
use leasehold::lock::FencingToken;

use crate::shares::clients::{Client, Stage};
use crate::shares::planted::SLACK;
use crate::shares::sidecar::{CAP, Life};
use crate::shares::world::World;

/// A caller's hold, in its own eyes.
#[derive(Clone, Copy, Debug)]
struct Belief {
    caller: CallerId,
    until: Duration,
}

/// Who has a lock broken, of whom.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    pub(crate) at: Duration,
    pub(crate) lock: usize,
    /// Of which grant: to break one twice is to break it once.
    epoch: Option<u64>,
    /// Callers, by their numbers.
    by: usize,
    of: Option<usize>,
    caller: Option<CallerId>,
    pub(crate) moves: bool,
    /// Its holder was told.
    told: bool,
    /// Another had it when it was free.
    settled: bool,
    /// The sidecars for which an exchange with the store about this lock was lost: that may outlast the
    /// reservation.
    missed: BTreeSet<usize>,
}

#[derive(Debug, Default)]
pub(crate) struct Checks {
    beliefs: BTreeMap<usize, Belief>,
    tokens: BTreeMap<usize, FencingToken>,
    /// Since when nobody has a lock that somebody had.
    free_since: BTreeMap<usize, Duration>,
    /// For how long nobody had a lock, each time that it went from one to another.
    pub(crate) gaps: Vec<Duration>,
    /// Who was granted an epoch of a lock last.
    granted: BTreeMap<(usize, u64), usize>,
    pub(crate) breaks: Vec<Broken>,
    /// When a lock of the share was granted or ended last.
    pub(crate) changed_at: Duration,
    /// Everything that is wrong; the first is the one that counts.
    pub(crate) violation: Option<String>,
    /// Requests are answered, so that what is asked side by side is asked so on purpose.
    pub(crate) strict: bool,
}

impl Checks {
    pub(crate) fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    pub(crate) fn renewed(&mut self, lock: usize, caller: CallerId, until: Duration) {
        if let Some(belief) = self.beliefs.get_mut(&lock).filter(|belief| belief.caller == caller) {
            belief.until = until;
        }
    }

    /// Its belief has ended, by its own word or by what it was told.
    pub(crate) fn ended(&mut self, lock: usize, caller: CallerId, now: Duration) {
        if self.beliefs.get(&lock).is_some_and(|belief| belief.caller == caller) {
            self.beliefs.remove(&lock);
            self.free_since.insert(lock, now);
            self.changed_at = now;
        }
    }

    /// The break of a lock that is not over.
    fn pending(&mut self, lock: usize) -> Option<&mut Broken> {
        self.breaks.iter_mut().rev().find(|broken| broken.lock == lock && !broken.settled)
    }

    pub(crate) fn told_revoked(&mut self, lock: usize) {
        if let Some(broken) = self.pending(lock) {
            broken.told = true;
        }
    }

    /// Nobody writes for whom the lock is kept.
    pub(crate) fn holder_crashed(&mut self, lock: usize) {
        if let Some(broken) = self.pending(lock) {
            broken.settled = true;
        }
    }
}

impl World {
    /// S34: one lock of the share is acquired at a time.
    pub(crate) fn check_acquire(&mut self, at: usize, lock: usize) {
        let shares = self.clients.iter().any(|client| client.at == at && client.profile.shares);
        let acquiring = &mut self.sidecars[at].acquiring;
        acquiring.insert(lock);
        // One that was broken for somebody here does not wait for its turn.
        let broken = self.checks.pending(lock).is_some();
        if shares && self.checks.strict && !broken && acquiring.len() > 1 {
            let what = format!("S34: sidecar {at} acquires {acquiring:?} side by side");
            self.checks.violate(what);
        }
    }

    pub(crate) fn check_grant(
        &mut self,
        number: usize,
        caller: CallerId,
        grant: &Granted,
        until: Duration,
    ) {
        let lock = self.clients[number].profile.lock;
        let former = self.checks.tokens.insert(lock, grant.token);
        if former.is_some_and(|former| former >= grant.token) {
            self.checks.violate(format!("S5: {} after {former:?} of lock {lock}", grant.token));
        }
        let beside = self.checks.beliefs.insert(lock, Belief { caller, until });
        if let Some(beside) = beside.filter(|belief| self.now < belief.until) {
            self.checks.violate(format!("S1: {caller:?} and {beside:?} believe at lock {lock}"));
        }
        if let Some(since) = self.checks.free_since.remove(&lock) {
            self.checks.gaps.push(self.now - since);
        }
        self.checks.granted.insert((lock, grant.token.epoch()), number);
        self.checks.changed_at = self.now;
        self.check_inversion(lock, number);
    }

    /// S33: after a break nobody of lower priority comes before the one that asked.
    fn check_inversion(&mut self, lock: usize, number: usize) {
        let Some(broken) = self.checks.pending(lock) else { return };
        broken.settled = true;
        let broken = broken.clone();
        let still_waits = self.clients[broken.by].caller() == broken.caller;
        if number == broken.by {
            self.count(if broken.moves { "moved" } else { "taken over" });
        } else if still_waits && broken.told && !broken.moves && !self.was_missed(&broken, number) {
            let (granted, asked) =
                (self.clients[number].profile.priority, self.clients[broken.by].profile.priority);
            if granted < asked {
                let what = format!(
                    "S33: lock {lock} was broken for {} of priority {asked}, and {number} of {granted} has it",
                    broken.by
                );
                self.checks.violate(what);
            }
        }
    }

    /// Whether an exchange was lost for who asked for the break, who was to release, or who has the lock now:
    /// that one may have acquired it for somebody of sufficient priority, who has left meanwhile.
    fn was_missed(&self, broken: &Broken, number: usize) -> bool {
        let concerned = [Some(broken.by), broken.of, Some(number)];
        let mut sidecars = concerned.into_iter().flatten().map(|client| self.clients[client].at);
        sidecars.any(|at| broken.missed.contains(&at))
    }

    /// A request or its answer was lost.
    pub(crate) fn check_lost(&mut self, at: usize, lock: usize) {
        if let Some(broken) = self.checks.pending(lock) {
            broken.missed.insert(at);
        }
    }

    /// What is about to be broken, if that is asked for: as the lock truly is.
    pub(crate) fn before_break(&mut self, lock: usize, action: &Action) -> Option<Broken> {
        let Action::Store { what: Request::Break { rival, .. }, .. } = action else { return None };
        let by: usize = rival.holder.strip_prefix("client-").unwrap().parse().unwrap();
        let of =
            rival.token.and_then(|token| self.checks.granted.get(&(lock, token.epoch())).copied());
        let caller = self.clients[by].caller();
        let (at, epoch) = (self.now, rival.token.map(FencingToken::epoch));
        Some(Broken {
            at,
            lock,
            epoch,
            by,
            of,
            caller,
            moves: rival.moves,
            told: false,
            settled: false,
            missed: BTreeSet::new(),
        })
    }

    /// A lease was broken: S33 and S35 say when that may be.
    pub(crate) fn broke(&mut self, at: usize, lock: usize, broken: Broken) {
        self.count(if broken.moves { "a break to move" } else { "a break by priority" });
        let asker = self.clients[broken.by].clone();
        if let Err(what) = self.check_break(&asker, &broken) {
            self.checks.violate(format!("{what}: lock {lock} broken for sidecar {at}"));
        }
        self.checks.breaks.push(broken);
    }

    fn check_break(&self, asker: &Client, broken: &Broken) -> Result<(), String> {
        let Client { at, profile: ours, stage } = asker;
        let past = |since: Duration, span: Duration| self.now + SLACK >= since + span;
        if ours.wait.is_zero() {
            return Err("S33: one try breaks".to_owned());
        }
        let of_lock = |other: &&Broken| other.lock == broken.lock && other.epoch != broken.epoch;
        let former = self.checks.breaks.iter().rev().find(of_lock);
        if former.is_some_and(|former| !past(former.at, ours.lease_duration * 2)) {
            return Err("S33: broken twice in 2 D".to_owned());
        }
        // One that has left since, or was granted the lock, has asked before.
        if let Stage::Waits { since, .. } = stage
            && !broken.moves
            && !past(*since, ours.lease_duration)
        {
            return Err("S33: it has not waited for D".to_owned());
        }
        let Some(holder) = broken.of.and_then(|of| self.clients.get(of)) else { return Ok(()) };
        let theirs = &holder.profile;
        if !theirs.yields {
            return Err("S33: its holder does not yield".to_owned());
        }
        match broken.moves {
            true if ours.priority != theirs.priority => {
                return Err("S35: moved from another priority".to_owned());
            }
            false if ours.priority <= theirs.priority => {
                return Err("S33: broken for no greater priority".to_owned());
            }
            true | false => {}
        }
        if broken.moves { self.check_move(*at, holder.at, broken) } else { Ok(()) }
    }

    /// S35: from one that has at least two more, one a minute, and no lock twice in ten.
    fn check_move(&self, to: usize, from: usize, broken: &Broken) -> Result<(), String> {
        let past =
            |since: Duration, span: u64| self.now + SLACK >= since + Duration::from_secs(span);
        let moves = || self.checks.breaks.iter().rev().filter(|former| former.moves);
        let by_us = |former: &&Broken| self.clients[former.by].at == to;
        if moves().find(by_us).is_some_and(|former| !past(former.at, 60)) {
            return Err("S35: the second in a minute".to_owned());
        }
        let same = |former: &&Broken| former.lock == broken.lock && former.epoch != broken.epoch;
        if moves().find(same).is_some_and(|former| !past(former.at, 600)) {
            return Err("S35: moved twice in ten minutes".to_owned());
        }
        // Of locks that nobody there waits for it knows what it lists each five minutes.
        let is_calm = past(self.checks.changed_at, if self.wants_all(to) { 15 } else { 315 });
        let (ours, theirs) = (self.held_of_share(to), self.held_of_share(from));
        // What has crashed had its locks, as far as anybody could know.
        if is_calm && self.sidecars[from].life != Life::Gone && theirs < ours + 2 {
            return Err(format!("S35: from one that has {theirs} to one that has {ours}"));
        }
        Ok(())
    }

    /// Whether each lock of the share is waited for at a sidecar, or held, by callers who name the share
    /// alone: one without it may stand before them.
    fn wants_all(&self, at: usize) -> bool {
        let wants = |client: &&Client| {
            client.at == at && matches!(client.stage, Stage::Waits { .. } | Stage::Holds { .. })
        };
        let wanted = |shares: bool| -> BTreeSet<usize> {
            let of_it = self.clients.iter().filter(wants);
            of_it.filter(|client| client.profile.shares == shares).map(|c| c.profile.lock).collect()
        };
        let (by_share, by_others) = (wanted(true), wanted(false));
        self.clients
            .iter()
            .map(|client| client.profile.lock)
            .all(|lock| by_share.contains(&lock) && !by_others.contains(&lock))
    }

    /// The callers of a sidecar that hold a lock.
    fn holders(&self, at: usize) -> impl Iterator<Item = &Client> {
        let holds =
            |client: &Client| matches!(client.stage, Stage::Holds { .. } | Stage::Releases { .. });
        self.clients.iter().filter(move |client| client.at == at && holds(client))
    }

    /// How many locks callers of a sidecar hold.
    pub(crate) fn held(&self, at: usize) -> usize {
        self.holders(at).count()
    }

    fn held_of_share(&self, at: usize) -> usize {
        self.holders(at).filter(|client| client.profile.shares).count()
    }

    /// The most that a running sidecar holds less the fewest that one does; none while a lock is not held.
    pub(crate) fn spread(&self, locks: usize) -> Option<usize> {
        let running =
            || (0..self.sidecars.len()).filter(|at| self.sidecars[*at].life == Life::Running);
        let held: Vec<usize> = running().map(|at| self.held(at)).collect();
        (held.iter().sum::<usize>() == locks)
            .then(|| held.iter().max().unwrap() - held.iter().min().unwrap())
    }
}

/// After how long at the latest a lock is had again whose lease has run out.
pub(crate) const fn settles(lease_duration: Duration) -> Duration {
    Duration::from_secs(lease_duration.as_secs() + CAP.as_secs())
}
