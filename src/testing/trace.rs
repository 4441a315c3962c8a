//! What processes were told about locks, as a trace; and whether the rules allow it.
//!
//! A [`Monitor`] takes the events of one lock in the order of their times, on one clock that all processes
//! share. It is the part of the model (`tests/model`) that clients can see, and knows the rules alone (S1,
//! S4, S5, S13, S16, S17), not how they are kept. A process that was stopped may note late what it was told;
//! the monitor allows for that.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// One thing that happened, as one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceEvent {
    /// Microseconds on the clock that all processes share.
    pub at: u64,
    /// The client process that saw it.
    pub process: String,
    /// The lock's path.
    pub path: String,
    /// What was told, or done.
    #[serde(flatten)]
    pub what: Traced,
}

/// What can happen to a hold, in the eyes of its client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Traced {
    /// The client became the holder, or goes on after a resume.
    Granted {
        /// Its fencing token (S5).
        token: u64,
        /// Its generation (S16), where it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        generation: Option<u64>,
        /// The lease's fingerprint, where it is known: equal for grants under one lease.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lease: Option<String>,
        /// Whether an earlier grant goes on (S16).
        resumed: bool,
        /// Until when the client may believe, in microseconds.
        valid_until: u64,
    },
    /// The client learned a later end of its validity.
    Told {
        /// The token of the hold.
        token: u64,
        /// Until when the client may believe, in microseconds.
        valid_until: u64,
    },
    /// The client ended its belief, before it released (S13).
    Ending {
        /// The token of the hold.
        token: u64,
    },
    /// The client learned that it lost the hold.
    Lost {
        /// The token of the hold.
        token: u64,
    },
    /// The release was answered.
    Released {
        /// The token of the hold.
        token: u64,
        /// Whether the answer was RELEASED, not ALREADY_LOST or NOT_CONFIRMED.
        released: bool,
    },
    /// The process died; what it believed died with it.
    Died,
    /// The store stopped to honour its lease: ended at once by an operator (S17), deleted, or an older copy.
    /// Who holds now is excused from S1 and its token from S5.
    LeaseVoided,
}

/// Why no run of the rules gives this trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule}: {why}, in event {index}: {event:?}")]
pub struct Rejected {
    /// The rule that does not allow it, such as "S1".
    pub rule: &'static str,
    /// What is wrong.
    pub why: String,
    /// Which event of the lock, from 0.
    pub index: usize,
    /// The event that is not allowed.
    pub event: Box<TraceEvent>,
}

/// Tokens of one epoch differ below this (S5).
pub const HAND_OFFS: u64 = 4096;

/// One hold as its client sees it.
#[derive(Clone, Debug)]
struct Hold {
    process: String,
    /// Exclusive; 0 once the belief was ended.
    until: u64,
    generation: Option<u64>,
    ended: End,
    voided: bool,
    /// Somebody else was granted the lock while this hold had not ended by its own word.
    overtaken: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Running,
    /// It said so, or its process died.
    Word,
    Over,
}

/// What is known of one lock after some events.
#[derive(Clone, Debug, Default)]
pub struct Monitor {
    holds: BTreeMap<u64, Hold>,
    leases: BTreeMap<String, u64>,
    seen: usize,
}

/// Checks the events of many locks, in any order.
///
/// # Errors
/// The first event that the rules do not allow.
pub fn accepts(trace: &[TraceEvent]) -> Result<(), Rejected> {
    let mut ordered: Vec<&TraceEvent> = trace.iter().collect();
    ordered.sort_by_key(|event| event.at);
    let paths: BTreeSet<&str> = trace.iter().map(|event| event.path.as_str()).collect();
    for path in paths {
        let mut monitor = Monitor::default();
        for event in ordered.iter().filter(|event| event.path == path) {
            monitor.take(event)?;
        }
    }
    Ok(())
}

impl Monitor {
    /// Takes the next event of this lock.
    ///
    /// # Errors
    /// If the rules do not allow it.
    pub fn take(&mut self, event: &TraceEvent) -> Result<(), Rejected> {
        let index = self.seen;
        self.seen += 1;
        let checked = match &event.what {
            Traced::Granted { resumed: false, token, .. } => self.granted(event, *token),
            Traced::Granted { resumed: true, token, .. } => self.resumed(event, *token),
            Traced::Told { token, valid_until } => self.told(event, *token, *valid_until),
            Traced::Ending { token } => self.ends(*token, End::Word),
            Traced::Lost { token } => self.ends(*token, End::Over),
            Traced::Released { token, released } => self.released(*token, *released),
            Traced::Died => {
                let own = self.holds.values_mut().filter(|hold| hold.process == event.process);
                own.filter(|hold| hold.ended == End::Running).for_each(|hold| {
                    (hold.until, hold.ended) = (0, End::Word);
                });
                Ok(())
            }
            Traced::LeaseVoided => {
                self.holds.values_mut().for_each(|hold| hold.voided = true);
                Ok(())
            }
        };
        checked.map_err(|(rule, why)| Rejected { rule, why, index, event: Box::new(event.clone()) })
    }

    /// S1: whoever else may believe at that moment.
    fn believer(&self, token: u64, at: u64) -> Option<u64> {
        let believes =
            |(other, hold): &(&u64, &Hold)| **other != token && hold.until > at && !hold.voided;
        self.holds.iter().find(believes).map(|(other, _)| *other)
    }

    fn granted(&mut self, event: &TraceEvent, token: u64) -> Checked {
        let Traced::Granted { generation, lease, valid_until, .. } = &event.what else {
            return Ok(());
        };
        if token == 0 {
            return Err(("S5", "zero is never a token".to_owned()));
        }
        let newest = self.holds.last_key_value().map_or(0, |(newest, _)| *newest);
        let is_voided = self.holds.values().any(|hold| hold.voided);
        if self.holds.contains_key(&token) {
            return Err(("S5", format!("token {token} was granted before")));
        }
        // Stopped until its validity was over, it never believed.
        let is_stillborn = *valid_until <= event.at;
        if token < newest && !is_voided && !is_stillborn {
            return Err(("S5", format!("token {token} comes after {newest}")));
        }
        if let Some(other) = self.believer(token, event.at).filter(|_| !is_stillborn) {
            return Err(("S1", format!("{token} is granted while {other} may be believed in")));
        }
        if token > newest {
            self.check_hand_off(token, newest)?;
        }
        if let Some(lease) = lease {
            let epoch = self.leases.entry(lease.clone()).or_insert(token / HAND_OFFS);
            if *epoch > token / HAND_OFFS {
                return Err(("S5", format!("{token} goes back under lease {lease}")));
            }
        }
        for hold in self.holds.range_mut(..token).map(|(_, hold)| hold) {
            hold.overtaken |= hold.ended == End::Running;
        }
        let hold = Hold {
            process: event.process.clone(),
            until: *valid_until,
            generation: *generation,
            ended: if is_stillborn { End::Over } else { End::Running },
            voided: false,
            overtaken: false,
        };
        self.holds.insert(token, hold);
        Ok(())
    }

    /// S13, S16: under one epoch the lock goes on by hand-off, and only by the word of the one before.
    fn check_hand_off(&self, token: u64, newest: u64) -> Checked {
        let Some(before) = self.holds.get(&newest) else { return Ok(()) };
        let is_same_epoch = newest / HAND_OFFS == token / HAND_OFFS;
        if is_same_epoch && before.ended == End::Running && !before.voided {
            let why = format!("{token} was handed on, though {newest} had not ended by its word");
            return Err(("S16", why));
        }
        Ok(())
    }

    fn resumed(&mut self, event: &TraceEvent, token: u64) -> Checked {
        let Traced::Granted { generation, valid_until, .. } = &event.what else { return Ok(()) };
        let hold = self.known(token)?;
        if hold.process != event.process {
            return Err(("S16", format!("{token} goes on at another process")));
        }
        if let (Some(before), Some(now)) = (hold.generation, generation)
            && *now <= before
        {
            return Err(("S16", format!("generation {now} comes after {before}")));
        }
        hold.generation = generation.or(hold.generation);
        self.told(event, token, *valid_until)
    }

    fn told(&mut self, event: &TraceEvent, token: u64, valid_until: u64) -> Checked {
        let other = self.believer(token, event.at);
        let hold = self.known(token)?;
        // Noted late, it promises nothing more; nor does it after its client's own word.
        if valid_until <= hold.until.max(event.at) || hold.ended == End::Word {
            return Ok(());
        }
        if hold.ended == End::Over {
            return Err(("S4", format!("{token} is revived after its end")));
        }
        if hold.overtaken && !hold.voided {
            return Err(("S4", format!("{token} is renewed after a newer one was granted")));
        }
        hold.until = valid_until;
        match other {
            Some(other) if !hold.voided => {
                Err(("S1", format!("{token} is renewed while {other} may be believed in")))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn ends(&mut self, token: u64, end: End) -> Checked {
        let hold = self.known(token)?;
        hold.until = 0;
        if hold.ended == End::Running {
            hold.ended = end;
        }
        Ok(())
    }

    fn released(&mut self, token: u64, released: bool) -> Checked {
        let hold = self.known(token)?;
        if released && hold.overtaken && !hold.voided {
            let why = format!("{token} is told RELEASED, though somebody was granted before that");
            return Err(("S13", why));
        }
        self.ends(token, End::Over)
    }

    fn known(&mut self, token: u64) -> Result<&mut Hold, Wrong> {
        let unknown = || ("S5", format!("{token} was never granted"));
        self.holds.get_mut(&token).ok_or_else(unknown)
    }
}

type Wrong = (&'static str, String);
type Checked = Result<(), Wrong>;

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at: u64, process: &str, what: Traced) -> TraceEvent {
        TraceEvent { at, process: process.to_owned(), path: "lock".to_owned(), what }
    }

    fn granted(at: u64, process: &str, token: u64, valid_until: u64) -> TraceEvent {
        let (generation, lease) = (Some(1), None);
        let what = Traced::Granted { token, generation, lease, resumed: false, valid_until };
        event(at, process, what)
    }

    fn resumed(at: u64, process: &str, generation: u64) -> TraceEvent {
        let (token, generation, valid_until) = (FIRST, Some(generation), at + 50);
        let what = Traced::Granted { token, generation, lease: None, resumed: true, valid_until };
        event(at, process, what)
    }

    const FIRST: u64 = 5 * HAND_OFFS;
    const NEXT: u64 = 6 * HAND_OFFS;

    /// The rule by which a trace is rejected.
    fn rule(trace: &[TraceEvent]) -> Option<&'static str> {
        accepts(trace).err().map(|rejected| rejected.rule)
    }

    #[test]
    fn s1_s5_what_the_rules_allow_is_accepted() {
        let trace = [
            granted(1, "a", FIRST, 50),
            event(20, "a", Traced::Told { token: FIRST, valid_until: 70 }),
            resumed(60, "a", 2),
            event(65, "a", Traced::Ending { token: FIRST }),
            granted(66, "b", FIRST + 1, 80),
            event(67, "a", Traced::Released { token: FIRST, released: true }),
            granted(80, "c", NEXT, 90),
            event(91, "c", Traced::Lost { token: NEXT }),
            event(92, "b", Traced::Lost { token: FIRST + 1 }),
        ];
        assert_eq!(accepts(&trace), Ok(()));
        let lines = trace.iter().map(|event| serde_json::to_string(event).unwrap());
        let read = lines.map(|line| serde_json::from_str(&line).unwrap());
        assert_eq!(read.collect::<Vec<TraceEvent>>(), trace, "one line an event");
    }

    #[test]
    fn s1_an_overlap_is_rejected_until_the_end_of_what_was_told() {
        let first = granted(1, "a", FIRST, 50);
        assert_eq!(rule(&[first.clone(), granted(49, "b", NEXT, 90)]), Some("S1"));
        assert_eq!(rule(&[first.clone(), granted(50, "b", NEXT, 90)]), None);
        let told = event(20, "a", Traced::Told { token: FIRST, valid_until: 60 });
        assert_eq!(rule(&[first.clone(), told, granted(50, "b", NEXT, 90)]), Some("S1"));
        let voided = event(20, "", Traced::LeaseVoided);
        assert_eq!(rule(&[first.clone(), voided, granted(30, "b", NEXT, 90)]), None);
        let died = event(20, "a", Traced::Died);
        assert_eq!(rule(&[first, died, granted(30, "b", FIRST + 1, 90)]), None);
    }

    #[test]
    fn s5_a_token_that_goes_back_or_comes_twice_is_rejected() {
        let first = granted(1, "a", NEXT, 50);
        assert_eq!(rule(&[first.clone(), granted(60, "b", FIRST, 90)]), Some("S5"));
        assert_eq!(rule(&[first, granted(60, "b", NEXT, 90)]), Some("S5"));
        assert_eq!(rule(&[granted(1, "a", 0, 50)]), Some("S5"));
    }

    #[test]
    fn s13_released_after_a_foreign_grant_is_rejected() {
        let released = |released| {
            let end = event(61, "a", Traced::Ending { token: FIRST });
            let answer = event(70, "a", Traced::Released { token: FIRST, released });
            [granted(1, "a", FIRST, 50), granted(60, "b", NEXT, 90), end, answer]
        };
        assert_eq!(rule(&released(true)), Some("S13"));
        assert_eq!(rule(&released(false)), None);
    }

    #[test]
    fn s16_a_hand_on_without_the_end_of_the_former_is_rejected() {
        let first = granted(1, "a", FIRST, 50);
        let handed_on = granted(60, "b", FIRST + 1, 90);
        assert_eq!(rule(&[first.clone(), handed_on.clone()]), Some("S16"));
        let ending = event(40, "a", Traced::Ending { token: FIRST });
        assert_eq!(rule(&[first, ending, handed_on]), None);
    }

    #[test]
    fn s16_a_generation_that_does_not_grow_is_rejected() {
        let first = granted(1, "a", FIRST, 50);
        assert_eq!(rule(&[first.clone(), resumed(10, "a", 1)]), Some("S16"));
        assert_eq!(rule(&[first.clone(), resumed(10, "b", 2)]), Some("S16"));
        assert_eq!(rule(&[first, resumed(10, "a", 2), resumed(20, "a", 2)]), Some("S16"));
    }

    #[test]
    fn s4_a_hold_that_is_revived_is_rejected() {
        let first = granted(1, "a", FIRST, 50);
        let lost = event(20, "a", Traced::Lost { token: FIRST });
        let told = event(21, "a", Traced::Told { token: FIRST, valid_until: 70 });
        assert_eq!(rule(&[first.clone(), lost, told]), Some("S4"));
        let next = granted(51, "b", NEXT, 60);
        let late = event(61, "a", Traced::Told { token: FIRST, valid_until: 70 });
        assert_eq!(rule(&[first, next, late]), Some("S4"));
    }
}
