//! What is decided for a caller, and written beside its token (T6).

use std::cell::Cell;
use std::time::Duration;

use super::rig::{
    ANN, Arrival, BOB, CAT, Rig, is_granted, loss, millis, one_try, outage, refused, secs,
    store_failure, terms,
};
use super::table::Table;
use crate::hold::{
    Action, Answer, CallerId, Event, LossReason, Notice, Request, StoreFailureKind, Stored, Terms,
};
use crate::record::{ETag, Fields, Found, Verdict};
use crate::time::UnixMillis;

/// A run, as these tests know it: the field says how often one was begun, and by which token the last.
pub(super) const RUN: &str = "run";

/// What a caller brings in these tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Brings {
    /// A run: it is counted.
    Run,
    /// As a run that is to last so long at the most.
    Short(Duration),
    /// Something to settle.
    Settle,
    /// Nothing is due.
    Nothing,
    /// A run, if the store's time is this or later.
    RunFrom(UnixMillis),
}

impl Brings {
    pub(super) fn decide(self, found: &Found) -> Verdict {
        let Found { fields, token, store_time } = found;
        let begun = begun(fields).map_or(0, |(begun, _)| begun);
        let mut fields = fields.clone();
        let run = |mut fields: Fields, begun: u64| {
            fields.insert(RUN.to_owned(), format!("{} {token}", begun + 1));
            fields
        };
        match self {
            Self::Run => Verdict::Grant { fields: run(fields, begun), max_hold: None },
            Self::Short(span) => {
                Verdict::Grant { fields: run(fields, begun), max_hold: Some(span) }
            }
            Self::Settle => {
                fields.insert("settled".to_owned(), token.to_string());
                Verdict::Write { fields }
            }
            Self::RunFrom(at) if *store_time >= at => {
                Verdict::Grant { fields: run(fields, begun), max_hold: None }
            }
            Self::Nothing | Self::RunFrom(_) => Verdict::Nothing,
        }
    }
}

/// The outcome of a run, written once: under this name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome(pub(super) &'static str);

impl Outcome {
    pub(super) fn decide(self, found: &Found) -> Verdict {
        let mut fields = found.fields.clone();
        match fields.insert(self.0.to_owned(), found.token.to_string()) {
            None => Verdict::Write { fields },
            Some(_) => Verdict::Nothing,
        }
    }
}

/// A caller that brings this.
pub(super) fn brings(brings: Brings) -> Arrival {
    bringing(brings, terms())
}

fn bringing(brings: Brings, terms: Terms) -> Arrival {
    Arrival { terms: Terms { decides: true, ..terms }, brings: Some(brings) }
}

/// A caller that has just read the lock.
fn having_seen(seen: &Stored, arrival: impl Into<Arrival>) -> Arrival {
    let Arrival { terms, brings } = arrival.into();
    Arrival { terms: Terms { seen: Some(Box::new(seen.clone())), ..terms }, brings }
}

/// How many runs the record says were begun, and the token of the last.
fn begun(fields: &Fields) -> Option<(u64, u64)> {
    let (begun, token) = fields.get(RUN)?.split_once(' ')?;
    Some((begun.parse().ok()?, token.parse().ok()?))
}

pub(super) fn runs(rig: &Rig) -> Option<(u64, u64)> {
    begun(rig.table().fields())
}

/// Whether `caller` was told that nobody is granted the lock, and whether something was written for it.
pub(super) fn settled(told: &[Action], caller: CallerId) -> Option<bool> {
    told.iter().find_map(|action| match action {
        Action::Tell { caller: whom, notice: Notice::Settled { written } } if *whom == caller => {
            Some(*written)
        }
        _ => None,
    })
}

#[test]
fn t6_what_is_decided_and_the_token_are_one_write_and_then_it_is_granted() {
    let mut rig = Rig::new();
    rig.arrive(ANN, brings(Brings::Run));
    let acquire = rig.request();
    rig.serve_one(&acquire);
    assert_eq!(runs(&rig), None);
    let write = rig.request();
    let stored = rig.do_in_store(&write);
    assert!(!is_granted(&rig.told(), ANN), "not before the store has said so");
    rig.on(stored);
    let grant = rig.granted(ANN);
    assert_eq!(runs(&rig), Some((1, grant.token.value())));
    assert_eq!(rig.record().token, Some(grant.token));
    assert_eq!(rig.sent.len(), 0, "two requests and no more");
}

#[test]
fn t6_what_is_not_written_is_not_granted_and_the_lease_goes_back() {
    let mut rig = Rig::new();
    rig.arrive(ANN, brings(Brings::Run));
    let acquire = rig.request();
    rig.serve_one(&acquire);
    rig.fail(refused(StoreFailureKind::Denied));
    rig.serve();
    assert_eq!(store_failure(&rig.told(), ANN), Some(StoreFailureKind::Denied));
    assert!(!rig.is_leased() && runs(&rig).is_none());
}

#[test]
fn t6_a_write_whose_answer_was_lost_counts_once() {
    let mut rig = Rig::new();
    rig.arrive(ANN, brings(Brings::Short(secs(4))));
    let acquire = rig.request();
    rig.serve_one(&acquire);
    let write = rig.request();
    rig.do_in_store(&write);
    rig.on(super::table::failed(&write, outage()).unwrap());
    rig.serve();
    let grant = rig.granted(ANN);
    assert_eq!(runs(&rig), Some((1, grant.token.value())), "it is not asked again");
    let left = grant.max_hold_ends.unwrap() - rig.at();
    assert!(left > secs(2) && left <= secs(4), "what was decided then counts: {left:?}");
}

#[test]
fn t6_a_settlement_whose_answer_was_lost_is_told_as_written() {
    let mut rig = Rig::new();
    rig.arrive(ANN, brings(Brings::Settle));
    let acquire = rig.request();
    rig.serve_one(&acquire);
    let write = rig.request();
    rig.do_in_store(&write);
    rig.on(super::table::failed(&write, outage()).unwrap());
    rig.pass_served(secs(2));
    assert_eq!(settled(&rig.told(), ANN), Some(true));
    assert!(!rig.is_leased() && rig.hold.is_idle());
}

#[test]
fn s5_t8_a_write_that_comes_late_is_not_taken_for_that_of_the_next_caller() {
    let mut rig = Rig::new();
    rig.arrive(ANN, brings(Brings::Run));
    let acquire = rig.request();
    rig.serve_one(&acquire);
    let first = rig.request();
    rig.arrive(BOB, brings(Brings::Settle));
    rig.on(super::table::failed(&first, outage()).unwrap());
    rig.leave(ANN);
    // The record is as it was, and the same token is written for BOB.
    let read = rig.request();
    rig.serve_one(&read);
    let second = rig.request();
    rig.do_in_store(&first);
    rig.serve_one(&second);
    rig.serve();
    assert_eq!(settled(&rig.told(), BOB), Some(true));
    assert!(rig.table().fields().contains_key("settled"), "{:?}", rig.table().fields());
}

/// Decided anew over the version that the first write was sent over, its caller would find a run of nobody.
#[test]
fn t6_a_start_that_comes_late_is_its_callers_own() {
    let mut rig = Rig::new();
    rig.arrive(ANN, brings(Brings::Run));
    let acquire = rig.request();
    rig.serve_one(&acquire);
    let first = rig.request();
    rig.on(super::table::failed(&first, outage()).unwrap());
    let read = rig.request();
    rig.serve_one(&read);
    rig.pass(secs(2));
    let again = rig.request();
    rig.do_in_store(&first);
    rig.serve_one(&again);
    rig.serve();
    let grant = rig.granted(ANN);
    assert_eq!(runs(&rig), Some((1, grant.token.value())));
}

#[test]
fn s12_one_try_is_answered_and_few_requests_are_sent_though_no_write_can_be_settled() {
    let mut rig = Rig::new();
    let arrival = brings(Brings::Settle);
    rig.arrive(ANN, Arrival { terms: Terms { decides: true, ..one_try() }, ..arrival });
    let acquire = rig.request();
    rig.serve_one(&acquire);
    let sent = Cell::new(0);
    rig.run(secs(15), |rig| {
        while let Some(action) = rig.sent.pop_front() {
            sent.set(sent.get() + 1);
            match &action {
                Action::Store { what: Request::Write { .. }, .. } => {
                    rig.on(super::table::failed(&action, outage()).unwrap());
                }
                _ => rig.serve_one(&action),
            }
        }
    });
    assert_eq!(store_failure(&rig.told(), ANN), Some(StoreFailureKind::Unavailable));
    assert!(sent.get() < 70, "{} requests", sent.get());
}

#[test]
fn t6_nothing_is_written_for_a_caller_that_has_gone_while_the_store_was_left_alone() {
    for unknown in [false, true] {
        let mut rig = Rig::new();
        rig.arrive(ANN, brings(Brings::Run));
        let acquire = rig.request();
        rig.serve_one(&acquire);
        let write = rig.request();
        let failure = if unknown { outage() } else { super::ending::throttled() };
        rig.on(super::table::failed(&write, failure).unwrap());
        if unknown {
            let read = rig.request();
            rig.serve_one(&read);
        }
        rig.leave(ANN);
        rig.arrive(BOB, terms());
        rig.pass_served(secs(5));
        rig.granted(BOB);
        assert_eq!(runs(&rig), None, "unknown: {unknown}");
    }
}

#[test]
fn t6_a_caller_that_has_gone_leaves_an_attempt_that_no_job_saw() {
    let mut rig = Rig::new();
    rig.arrive(ANN, brings(Brings::Run));
    let acquire = rig.request();
    rig.serve_one(&acquire);
    rig.arrive(BOB, brings(Brings::Run));
    rig.leave(ANN);
    rig.serve();
    let grant = rig.granted(BOB);
    assert_eq!(runs(&rig), Some((2, grant.token.value())), "it was decided anew");
    rig.release_of(BOB, &grant);
    rig.serve();
    rig.arrive(CAT, brings(Brings::Run));
    let acquire = rig.request();
    rig.serve_one(&acquire);
    rig.leave(CAT);
    rig.serve();
    assert_eq!(runs(&rig).map(|(begun, _)| begun), Some(3));
    assert!(!rig.is_leased(), "nobody wants it");
}

#[test]
fn t6_a_caller_is_not_settled_by_what_another_one_brought() {
    let mut rig = Rig::new();
    rig.arrive(ANN, brings(Brings::Settle));
    let acquire = rig.request();
    rig.serve_one(&acquire);
    rig.arrive(BOB, terms());
    rig.leave(ANN);
    rig.serve();
    let told = rig.told();
    assert!(is_granted(&told, BOB) && settled(&told, BOB).is_none(), "{told:?}");
}

#[test]
fn t6_what_was_written_for_a_plain_caller_is_no_run() {
    let mut rig = Rig::new();
    rig.arrive(ANN, terms());
    let acquire = rig.request();
    rig.serve_one(&acquire);
    rig.arrive(BOB, brings(Brings::Run));
    rig.leave(ANN);
    rig.serve();
    let grant = rig.granted(BOB);
    assert_eq!(runs(&rig), Some((1, grant.token.value())));
}

#[test]
fn t6_what_is_settled_is_written_and_granted_to_nobody() {
    let mut rig = Rig::new();
    rig.arrive(ANN, brings(Brings::Settle));
    rig.arrive(BOB, terms());
    let acquire = rig.request();
    rig.serve_one(&acquire);
    let write = rig.request();
    rig.serve_one(&write);
    let told = rig.told();
    assert!(settled(&told, ANN) == Some(true) && !is_granted(&told, ANN), "{told:?}");
    let settled_by = rig.table().fields().get("settled").cloned();
    assert_eq!(settled_by, rig.record().token.map(|token| token.to_string()));
    rig.serve();
    let grant = rig.granted(BOB);
    assert!(Some(grant.token.to_string()) > settled_by, "who waits behind it is served");
}

#[test]
fn t6_who_is_turned_away_writes_nothing_and_the_lease_goes_back() {
    let mut rig = Rig::new();
    rig.arrive(ANN, brings(Brings::Nothing));
    rig.arrive(BOB, one_try());
    let acquire = rig.request();
    rig.serve_one(&acquire);
    assert_eq!(settled(&rig.told(), ANN), Some(false));
    assert_eq!(rig.record().token, None);
    let release = rig.request();
    assert!(matches!(release, Action::Store { what: Request::Release { .. }, .. }), "{release:?}");
    rig.serve_one(&release);
    rig.serve();
    assert!(is_granted(&rig.told(), BOB), "one try waits for the lease that goes back");
}

#[test]
fn s11_who_is_turned_away_leaves_no_rest_behind_of_a_caller_that_has_gone() {
    let mut rig = Rig::new();
    rig.arrive(ANN, Terms { min_hold: secs(40), ..terms() });
    let acquire = rig.request();
    rig.serve_one(&acquire);
    rig.arrive(BOB, brings(Brings::Nothing));
    rig.leave(ANN);
    rig.serve();
    assert_eq!(settled(&rig.told(), BOB), Some(false));
    assert_eq!(rig.record().resting_until, None);
    assert!(!rig.is_leased());
}

#[test]
fn s11_who_stops_waiting_while_it_is_decided_leaves_no_rest_behind_of_a_caller_that_has_gone() {
    let mut rig = Rig::new();
    rig.arrive(ANN, Terms { min_hold: secs(40), ..terms() });
    let acquire = rig.request();
    rig.serve_one(&acquire);
    let write = rig.request();
    rig.arrive(BOB, bringing(Brings::Run, Terms { wait: secs(5), ..terms() }));
    rig.leave(ANN);
    rig.slow = Some(Vec::new());
    rig.serve_one(&write);
    rig.now += secs(6);
    for decided in rig.slow.take().unwrap() {
        rig.on(decided);
    }
    rig.serve();
    assert!(!is_granted(&rig.told(), BOB));
    assert_eq!(rig.record().resting_until, None);
    assert!(!rig.is_leased());
}

#[test]
fn t6_a_run_is_neither_handed_on_nor_handed_the_lock() {
    let (mut rig, grant) = Rig::with_holder(ANN, brings(Brings::Run));
    rig.arrive(BOB, terms());
    rig.arrive(CAT, brings(Brings::Run));
    rig.release_of(ANN, &grant);
    assert!(!is_granted(&rig.told(), BOB), "not without the store");
    rig.serve();
    let plain = rig.granted(BOB);
    assert_eq!(runs(&rig), Some((1, grant.token.value())), "a plain grant keeps it");
    rig.release_of(BOB, &plain);
    assert!(!is_granted(&rig.told(), CAT), "not before what is decided for it is written");
    rig.serve();
    let next = rig.granted(CAT);
    assert_eq!(runs(&rig), Some((2, next.token.value())));
}

#[test]
fn t6_the_verdict_says_how_long_the_hold_lasts() {
    let (mut rig, grant) = Rig::with_holder(
        ANN,
        bringing(Brings::Short(secs(4)), Terms { max_hold: Some(secs(600)), ..terms() }),
    );
    assert_eq!(grant.max_hold_ends, Some(rig.at() + secs(4)));
    rig.pass_served(secs(4));
    assert_eq!(loss(&rig.told(), ANN), Some(LossReason::MaxHoldReached));
    let own = bringing(Brings::Run, Terms { max_hold: Some(secs(9)), ..terms() });
    let (rig, grant) = Rig::with_holder(ANN, own);
    assert_eq!(grant.max_hold_ends, Some(rig.at() + secs(9)), "that of the terms, if it says none");
}

#[test]
fn t7_nothing_starts_before_the_store_has_surely_reached_its_time() {
    let mut rig = Rig::new();
    let due = Table::time(rig.now + secs(1));
    rig.arrive(ANN, brings(Brings::RunFrom(due)));
    // The answer is under way for a second and a half: the store may have answered at once, or just now.
    let acquire = rig.request();
    let answer = rig.do_in_store(&acquire);
    rig.pass(millis(1_500));
    rig.on(answer);
    assert_eq!(settled(&rig.told(), ANN), Some(false));
}

#[test]
fn t6_what_was_decided_is_kept_by_a_resume_a_plain_grant_and_a_checkpoint() {
    let (mut rig, grant) = Rig::with_holder(ANN, brings(Brings::Run));
    rig.save(ANN, 1, "page 7");
    rig.serve();
    rig.silent(ANN);
    rig.resume(BOB, &grant, terms(), secs(10));
    rig.serve();
    let resumed = rig.granted(BOB);
    assert_eq!(rig.record().generation, 2);
    rig.pass_served(secs(16));
    rig.release_of(BOB, &resumed);
    rig.serve();
    rig.told();
    rig.grant(CAT, terms());
    assert_eq!(runs(&rig), Some((1, grant.token.value())));
}

/// What a caller reads of the lock now.
fn look(rig: &Rig) -> Stored {
    let read =
        Action::Store { request: crate::hold::RequestId(0), what: Request::Read, timeout: secs(1) };
    match rig.do_in_store(&read) {
        Event::Answer { answer: Answer::Read(Ok(stored)), .. } => stored,
        other => panic!("{other:?}"),
    }
}

fn read_of(acquire: &Action) -> (bool, Option<&ETag>) {
    match acquire {
        Action::Store { what: Request::Acquire { read, if_match, .. }, .. } => {
            (*read, if_match.as_ref())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn t6_what_the_caller_has_just_read_needs_no_second_read() {
    let (mut rig, mut other) = Rig::pair();
    let grant = other.grant(ANN, terms());
    other.release_of(ANN, &grant);
    other.serve();
    let seen = look(&rig);
    rig.arrive(BOB, having_seen(&seen, brings(Brings::Run)));
    assert_eq!(read_of(&rig.sent[0]), (false, Some(&seen.etag)));
    rig.serve();
    rig.granted(BOB);
}

#[test]
fn s5_an_older_record_that_a_caller_has_read_is_not_believed() {
    let mut rig = Rig::new();
    let first = rig.grant(ANN, terms());
    let seen = look(&rig);
    rig.release_of(ANN, &first);
    rig.serve();
    let second = rig.grant(BOB, terms());
    rig.release_of(BOB, &second);
    rig.serve();
    rig.told();
    let newest = look(&rig).etag;
    rig.arrive(CAT, having_seen(&seen, terms()));
    assert_eq!(read_of(&rig.sent[0]), (false, Some(&newest)));
    rig.serve();
    assert!(rig.granted(CAT).token > second.token);
    // Where the store itself went back, the greatest token that was granted here still counts.
    let mut rig = Rig::new();
    rig.grant(ANN, terms());
    rig.release(ANN);
    rig.serve();
    let highest = rig.hold.highest();
    rig.table_mut().set("leasehold_token", "4096");
    let back = look(&rig);
    rig.arrive(BOB, having_seen(&back, one_try()));
    rig.serve();
    assert_eq!(store_failure(&rig.told(), BOB), Some(StoreFailureKind::TokenNotGrowing));
    assert_eq!(rig.hold.highest(), highest);
}

#[test]
fn t6_a_record_of_the_same_grant_is_taken_as_the_newer_one() {
    let mut rig = Rig::new();
    let grant = rig.grant(ANN, brings(Brings::Run));
    rig.release_of(ANN, &grant);
    rig.serve();
    // Another sidecar has completed the run late.
    rig.table_mut().set("outcome", "done");
    let seen = look(&rig);
    rig.arrive(BOB, having_seen(&seen, terms()));
    assert_eq!(read_of(&rig.sent[0]), (false, Some(&seen.etag)));
}

#[test]
fn s9_s11_t6_nobody_is_granted_what_is_left_of_a_lease() {
    for auto_renew in [true, false] {
        let mut rig = Rig::new();
        let arrival = brings(Brings::Run);
        rig.arrive(ANN, Arrival { terms: Terms { auto_renew, ..arrival.terms }, ..arrival });
        let acquire = rig.request();
        rig.serve_one(&acquire);
        // No write is done for most of the fifteen seconds.
        rig.pass_failing(secs(12));
        while rig.hold.holding().is_none() {
            rig.pass_served(millis(10));
        }
        let left = rig.granted(ANN).valid_until.saturating_since(rig.at());
        assert!(left > secs(14), "{left:?}, auto_renew: {auto_renew}");
    }
}
