//! Clients as they believe (S21): what they were told, read late, and what they do then.

use std::sync::Arc;
use std::time::Duration;

use super::world::{Sidecar, World};
use crate::hold::{Action, CallerId, Event, Granted, Resume, Terms};
use crate::lock::Record;
use crate::time::Instant;

/// What a client reads.
#[derive(Clone, Debug)]
pub(super) enum Message {
    Granted { grant: Granted, valid_for: Duration },
    Validity(Instant),
    Lost,
    Refused,
}

impl Message {
    pub(super) fn of(action: Action, sidecar: &Sidecar, now: Duration) -> Option<(CallerId, Self)> {
        Some(match action {
            Action::TellGranted { caller, grant } => {
                let valid_for = grant.valid_until.saturating_since(sidecar.clock.read(now));
                (caller, Self::Granted { grant, valid_for })
            }
            Action::TellRenewed { caller, valid_until }
            | Action::TellRecovered { caller, valid_until }
            | Action::TellAtRisk { caller, valid_until, .. } => {
                (caller, Self::Validity(valid_until))
            }
            Action::TellLost { caller, .. } => (caller, Self::Lost),
            Action::TellBusy { caller, .. } | Action::TellFailed { caller, .. } => {
                (caller, Self::Refused)
            }
            _ => return None,
        })
    }
}

#[derive(Debug)]
pub(super) struct Client {
    /// The sidecar of its own machine: they share a clock.
    home: usize,
    /// The sidecar that it calls now, and as whom.
    at: usize,
    caller: CallerId,
    /// When it sent its latest call, by its own clock.
    called: Instant,
    terms: Arc<Terms>,
    stage: Stage,
    /// Until when it believes, by its own clock.
    believes_until: Instant,
    grant: Option<Granted>,
    granted_at: Instant,
    pub(super) was_granted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Holding,
    /// Its stream broke and it has not called again yet.
    CutOff,
    /// It asked to go on with its hold.
    Resuming,
    Gone,
}

pub(super) fn terms(lease_seconds: u64, wait: Duration) -> Terms {
    Terms {
        lease_duration: Duration::from_secs(lease_seconds),
        wait,
        max_hold: None,
        min_hold: Duration::ZERO,
        progress_timeout: None,
        auto_renew: true,
        request_id: String::new(),
        record: Record { holder: "somebody".to_owned(), ..Record::default() },
    }
}

impl World {
    pub(super) fn random_terms(&mut self) -> Terms {
        let dice = &mut self.dice;
        let seconds = dice.one_of(&[15, 15, 15, 30, 60]);
        let wait = Duration::from_secs(dice.one_of(&[0, 5, 40, 200]));
        let mut terms = terms(seconds, wait);
        terms.max_hold = dice.percent(30).then(|| dice.millis(500, 60_000));
        if dice.percent(15) {
            terms.min_hold = dice.millis(500, 20_000);
        }
        terms.progress_timeout = dice.percent(20).then(|| dice.millis(2_000, 30_000));
        terms.auto_renew = !dice.percent(10);
        terms
    }

    /// A new client calls the sidecar of its machine.
    pub(super) fn arrive(&mut self, home: usize, terms: Terms) {
        let index = self.clients.len();
        let caller = CallerId(self.number());
        let called = self.read_clock(home);
        let terms = Arc::new(terms);
        self.callers.insert(caller, index);
        self.clients.push(Client {
            home,
            at: home,
            caller,
            called,
            terms: Arc::clone(&terms),
            stage: Stage::Waiting,
            believes_until: Instant::default(),
            grant: None,
            granted_at: Instant::default(),
            was_granted: false,
        });
        self.call((home, caller), Event::CallerArrived { caller, terms });
        let delay = self.dice.millis(100, 60_000);
        self.wake_client(index, delay);
    }

    fn believes(&self, client: usize) -> bool {
        let client = &self.clients[client];
        client.grant.is_some() && self.read_clock(client.home) < client.believes_until
    }

    /// S1, in the eyes of the clients: nobody else may believe when `client` does.
    fn check_alone(&self, client: usize) {
        for (index, other) in self.clients.iter().enumerate() {
            assert!(
                index == client || !self.believes(index),
                "{:?} believes beside {:?}",
                other.caller,
                self.clients[client].caller
            );
        }
    }

    /// A client reads what it was told; what was told to a call that it has given up reaches nobody.
    pub(super) fn hear(&mut self, caller: CallerId, message: Message) {
        let Some(index) = self.callers.get(&caller).copied() else {
            return;
        };
        self.note(|| format!("{caller:?} reads {message:?}"));
        let here = self.read_clock(self.clients[index].home);
        let client = &mut self.clients[index];
        let local = client.at == client.home;
        match message {
            Message::Granted { grant, valid_for } => {
                // S21: elsewhere it counts from before its own call.
                let until = if local { grant.valid_until } else { client.called + valid_for };
                let went_on = client.grant.is_some();
                if here >= until || (went_on && here >= client.believes_until) {
                    return self.leave(index);
                }
                if !went_on {
                    client.granted_at = here;
                }
                client.was_granted = true;
                client.stage = Stage::Holding;
                client.believes_until = client.believes_until.max(until);
                client.grant = Some(grant);
                self.check_alone(index);
            }
            Message::Validity(until) => {
                if local && self.believes(index) {
                    let client = &mut self.clients[index];
                    client.believes_until = client.believes_until.max(until);
                    self.check_alone(index);
                }
            }
            Message::Lost | Message::Refused => {
                // A resume that failed ends no belief, but there is no other call to wait for.
                self.callers.remove(&caller);
                let resumes = matches!(message, Message::Refused) && self.believes(index);
                let client = &mut self.clients[index];
                client.stage = if resumes { Stage::CutOff } else { Stage::Gone };
                if !resumes {
                    client.grant = None;
                }
            }
        }
    }

    /// Ends its belief first, then says so (S13).
    fn leave(&mut self, index: usize) {
        let asks = self.dice.percent(50);
        let client = &mut self.clients[index];
        let (caller, at) = (client.caller, client.at);
        client.grant = None;
        client.stage = Stage::Gone;
        self.callers.remove(&caller);
        let event =
            if asks { Event::ReleaseAsked { caller } } else { Event::CallerLeft { caller } };
        self.call((at, caller), event);
        // A call that has ended is over for its sidecar, whatever it was told in between.
        if asks {
            self.call((at, caller), Event::CallerLeft { caller });
        }
    }

    /// The stream to its sidecar breaks; the sidecar notices some time later.
    fn cut_off(&mut self, index: usize) {
        let delay = self.dice.millis(0, 25_000);
        let client = &mut self.clients[index];
        let (caller, at) = (client.caller, client.at);
        client.stage = Stage::CutOff;
        self.callers.remove(&caller);
        self.call_after(delay, (at, caller), Event::HolderSilent { caller });
        let delay = self.dice.millis(1, 10_000);
        self.wake_client(index, delay);
    }

    /// All streams to a sidecar are closed from its side.
    pub(super) fn streams_closed(&mut self, sidecar: usize) {
        for index in 0..self.clients.len() {
            if self.clients[index].at != sidecar {
                continue;
            }
            let caller = self.clients[index].caller;
            self.callers.remove(&caller);
            let believes = self.believes(index);
            let client = &mut self.clients[index];
            match client.stage {
                Stage::Holding | Stage::Resuming if believes => client.stage = Stage::CutOff,
                Stage::Waiting | Stage::Holding | Stage::Resuming => client.stage = Stage::Gone,
                Stage::CutOff | Stage::Gone => {}
            }
            let delay = self.dice.millis(1, 8_000);
            self.wake_client(index, delay);
        }
    }

    pub(super) fn act(&mut self, index: usize) {
        let again = self.dice.millis(100, 15_000);
        match self.clients[index].stage {
            Stage::Gone => return,
            Stage::Waiting if self.faults && self.dice.percent(10) => self.leave(index),
            Stage::Waiting => {}
            Stage::Holding => self.act_as_holder(index),
            Stage::CutOff | Stage::Resuming if !self.believes(index) => {
                self.clients[index].stage = Stage::Gone;
            }
            Stage::CutOff => self.resume(index),
            // It tries another sidecar, and cannot tell the first, whose connection is broken.
            Stage::Resuming if self.dice.percent(30) => self.cut_off(index),
            Stage::Resuming => {}
        }
        self.wake_client(index, again);
    }

    fn act_as_holder(&mut self, index: usize) {
        if !self.believes(index) || !self.faults {
            return self.leave(index);
        }
        let (caller, at) = (self.clients[index].caller, self.clients[index].at);
        match self.dice.below(10) {
            0 | 1 => self.leave(index),
            2..=4 => self.cut_off(index),
            5 => {
                let max_hold = self.dice.millis(0, 40_000);
                self.call((at, caller), Event::ExtendAsked { caller, max_hold });
            }
            _ => self.call((at, caller), Event::ProgressReported { caller }),
        }
    }

    /// S16: it asks any sidecar to go on with its hold.
    fn resume(&mut self, index: usize) {
        let at = usize::try_from(self.dice.below(self.sidecars.len() as u64)).unwrap();
        let caller = CallerId(self.number());
        let here = self.read_clock(self.clients[index].home);
        let there = self.read_clock(at);
        let client = &mut self.clients[index];
        let Some(grant) = client.grant.clone() else {
            return;
        };
        client.stage = Stage::Resuming;
        client.at = at;
        client.caller = caller;
        client.called = here;
        self.callers.insert(caller, index);
        let client = &self.clients[index];
        let lasted = here.saturating_since(client.granted_at);
        let mut terms = client.terms.as_ref().clone();
        terms.max_hold = terms.max_hold.map(|span| span.saturating_sub(lasted));
        terms.min_hold = terms.min_hold.saturating_sub(lasted);
        let resume = Resume {
            lease_id: grant.lease_id,
            token: grant.token,
            believed_until: there + terms.lease_duration,
            terms: Arc::new(terms),
            acquired_at: grant.acquired_at,
        };
        self.call((at, caller), Event::ResumeAsked { caller, resume: Box::new(resume) });
    }

    /// Everybody dies: their sockets close.
    pub(super) fn all_leave(&mut self) {
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            let (caller, at) = (client.caller, client.at);
            client.grant = None;
            client.stage = Stage::Gone;
            self.callers.remove(&caller);
            self.call_after(Duration::ZERO, (at, caller), Event::CallerLeft { caller });
        }
    }
}
