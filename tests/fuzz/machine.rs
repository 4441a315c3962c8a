//! Events into the machine in any order, also such that no driver would send.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use leasehold::hold::{
    Action, Answer, CallerId, Event, Failure, HolderCall, LeaseGranted, Look, Memory, NoteSeen,
    Notice, Request, RequestId, Resume, SaveAsked, SaveId, Settings, Standing, StoreFailure,
    StoreFailureKind, Stored, Terms,
};
use leasehold::lock::{FencingToken, LeaseId};
use leasehold::queue::PlainLock;
use leasehold::record::{CheckpointValue, ETag, Fields, Priority, Record, ShareName, Sharing};
use leasehold::time::{Instant, UnixMillis};
use proptest::prelude::*;
use uuid::Uuid;

use crate::fuzz::cases;
use crate::fuzz::deciding::decide;
use crate::fuzz::queue::Queue;

/// What happens next, with small numbers, so that they meet.
#[derive(Clone, Debug)]
enum Happens {
    Arrives {
        lease: u64,
        wait: u64,
        max_hold: Option<u64>,
        min_hold: u64,
        id: u8,
        place: u8,
    },
    Leaves(u64),
    Silent(u64),
    Releases(u64, u64),
    Extends(u64, u64, u64),
    Reports(u64, u64),
    Saves(u64, u64),
    Resumes {
        generation: u64,
        believes: u64,
    },
    Suspects,
    Answered {
        kind: u8,
        request: u64,
        outcome: u8,
    },
    /// To the request that was sent last.
    AnsweredLast {
        outcome: u8,
    },
    /// A renewal is not sent yet: this one, or the request that was sent last (S7).
    HeldBack(Option<u64>),
    TurnCame,
    Broken {
        ends_now: bool,
    },
    /// A break through this sidecar begins, or is over.
    Breaks {
        begins: bool,
        may_arrive: bool,
    },
    Drain(u64),
    DrainEnds,
    HandOver(u64),
    Time(u64),
    Stands {
        held: u32,
        patience: u64,
        step: Option<u64>,
        turn: bool,
    },
    Stirred,
    Moves,
}

fn happens() -> impl Strategy<Value = Happens> {
    let caller = || 0..4_u64;
    prop_oneof![
        3 => (15..=60_u64, 0..100_u64, proptest::option::of(1..40_u64), 0..20_u64, 0..3_u8, 0..36_u8).prop_map(
            |(lease, wait, max_hold, min_hold, id, place)| {
                Happens::Arrives { lease, wait, max_hold, min_hold, id, place }
            }
        ),
        1 => caller().prop_map(Happens::Leaves),
        1 => caller().prop_map(Happens::Silent),
        1 => (caller(), 0..4_u64).prop_map(|(caller, of)| Happens::Releases(caller, of)),
        1 => (caller(), 0..4_u64, 0..60_u64)
            .prop_map(|(caller, of, span)| Happens::Extends(caller, of, span)),
        1 => (caller(), 0..4_u64).prop_map(|(caller, of)| Happens::Reports(caller, of)),
        1 => (0..4_u64, 0..60_u64)
            .prop_map(|(generation, believes)| Happens::Resumes { generation, believes }),
        2 => (caller(), 0..4_u64).prop_map(|(caller, of)| Happens::Saves(caller, of)),
        1 => Just(Happens::Suspects),
        8 => (0..7_u8, 1..12_u64, 0..8_u8)
            .prop_map(|(kind, request, outcome)| Happens::Answered { kind, request, outcome }),
        8 => (0..16_u8).prop_map(|outcome| Happens::AnsweredLast { outcome: outcome.saturating_sub(8) }),
        2 => proptest::option::of(1..12_u64).prop_map(Happens::HeldBack),
        2 => Just(Happens::TurnCame),
        1 => any::<bool>().prop_map(|ends_now| Happens::Broken { ends_now }),
        2 => any::<(bool, bool)>()
            .prop_map(|(begins, may_arrive)| Happens::Breaks { begins, may_arrive }),
        1 => (0..30_u64).prop_map(Happens::Drain),
        1 => Just(Happens::DrainEnds),
        1 => (0..30_u64).prop_map(Happens::HandOver),
        4 => (0..20_000_u64).prop_map(Happens::Time),
        1 => (0..4_u32, 0..20_000_u64, proptest::option::of(0..5_000_u64), any::<bool>()).prop_map(
            |(held, patience, step, turn)| Happens::Stands { held, patience, step, turn }
        ),
        1 => Just(Happens::Stirred),
        1 => Just(Happens::Moves),
    ]
}

fn failure(outcome: u8) -> Failure {
    let store_failure = |kind| StoreFailure { kind, message: "so".to_owned(), retry_after: None };
    match outcome {
        1 => Failure::Contended,
        2 => Failure::Taken,
        3 => Failure::Changed,
        4 => Failure::Deleted,
        5 => Failure::Unknown(store_failure(StoreFailureKind::Unavailable)),
        6 => Failure::NotDone(store_failure(StoreFailureKind::Throttled)),
        _ => Failure::Refused(store_failure(StoreFailureKind::Denied)),
    }
}

fn answered(kind: u8, request: u64, outcome: u8) -> Event {
    let request = RequestId(request);
    let etag = || ETag(format!("\"{outcome}\"").into());
    let time = UnixMillis(1_800_000_000_000);
    let stored = || Stored { etag: etag(), fields: fields(request), free: outcome > 3, time };
    let refused = (outcome > 0).then(|| failure(outcome));
    fn answer<T>(refused: Option<Failure>, good: T) -> Result<T, Failure> {
        refused.map_or(Ok(good), Err)
    }
    match kind {
        0 => {
            let good = LeaseGranted { etag: etag(), time, created: outcome > 3 };
            let read = (request.0.is_multiple_of(2)).then(|| Ok(stored()));
            Event::Answer {
                request,
                answer: Answer::Acquire { lease: answer(refused, good), read },
            }
        }
        1 => Event::Answer { request, answer: Answer::Read(answer(refused, stored())) },
        2 => Event::Answer { request, answer: Answer::Write(answer(refused, etag())) },
        3 => Event::Answer { request, answer: Answer::Renew(answer(refused, time)) },
        4 => Event::Answer { request, answer: Answer::Release(answer(refused, ())) },
        5 => Event::Answer { request, answer: Answer::Break(answer(refused, ())) },
        _ => {
            let token = FencingToken::from_u64(4_096 * request.0);
            let note = request.0.is_multiple_of(2).then_some(NoteSeen {
                token,
                runs_out: true,
                for_priority: request.0.is_multiple_of(4).then_some((Priority::MAX, time)),
            });
            let look = Look { stored: stored(), breaking: outcome.is_multiple_of(2), note };
            Event::Answer { request, answer: Answer::Look(answer(refused, look)) }
        }
    }
}

/// Which kind of answer a request wants.
fn sent(action: &Action) -> Option<(u8, u64)> {
    match action {
        Action::Store { request, what: Request::Acquire { .. }, .. } => Some((0, request.0)),
        Action::Store { request, what: Request::Read, .. } => Some((1, request.0)),
        Action::Store { request, what: Request::Write { .. }, .. } => Some((2, request.0)),
        Action::Store { request, what: Request::Renew { .. }, .. } => Some((3, request.0)),
        Action::Store { request, what: Request::Release { .. }, .. } => Some((4, request.0)),
        Action::Store { request, what: Request::Break { .. }, .. } => Some((5, request.0)),
        Action::Store { request, what: Request::Look { .. }, .. } => Some((6, request.0)),
        _ => None,
    }
}

/// What a record may have: nothing, a checkpoint, or something that cannot be read as one; a holder that
/// yields, or a reservation, of this grant or of an earlier one.
fn fields(request: RequestId) -> Fields {
    let checkpoints =
        ["", "4096.4096.7.YQ", "18446744073709551615.4096.7.", "x.1.1.", "5.0.7.!", "9"];
    let number = usize::try_from(request.0).unwrap_or_default();
    let checkpoint = checkpoints.get(number % checkpoints.len()).copied().unwrap_or_default();
    let grant = if number.is_multiple_of(4) { "00000000000000aa" } else { "00000000000000bb" };
    let yields = (number % 3 > 0).then(|| format!("{grant}.1"));
    let reserved = (number % 5 > 2).then(|| format!("{grant}.2.1800000010000.10000"));
    let fields = [
        ("checkpoint", Some(checkpoint.to_owned()).filter(|checkpoint| !checkpoint.is_empty())),
        ("lease", Some("00000000000000aa".to_owned())),
        ("yields", yields),
        ("reserved", reserved),
    ];
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
    fields.map(|(name, value)| (format!("leasehold_{name}"), value)).collect()
}

/// The saves that were asked for and not answered (S26).
#[derive(Debug, Default)]
struct Saves {
    last: u64,
    asked: BTreeSet<SaveId>,
}

impl Saves {
    fn ask(&mut self) -> SaveAsked {
        self.last += 1;
        let id = SaveId(self.last);
        self.asked.insert(id);
        let value = CheckpointValue::new(&self.last.to_be_bytes()).unwrap();
        // One in three has a checkpoint alone, one an outcome alone, and one both.
        let decides = !self.last.is_multiple_of(3);
        let value = Some(value).filter(|_| self.last % 3 < 2);
        SaveAsked { id, value, decides }
    }

    /// Each is answered once.
    fn told(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Saved { id, .. } if !self.asked.remove(id) => {
                Err(format!("S26: {id:?} is answered twice, or was not asked for"))
            }
            _ => Ok(()),
        }
    }

    /// No hold leaves one behind.
    fn settled(&self, hold: &PlainLock) -> Result<(), String> {
        let is_over = hold.holding().is_none();
        if is_over && !self.asked.is_empty() {
            return Err(format!("S26: {:?} are not answered, and the hold is over", self.asked));
        }
        Ok(())
    }
}

fn terms(lease: u64, wait: u64) -> Terms {
    let plain = Terms::plain(Duration::from_secs(lease), Duration::from_secs(wait));
    Terms { resumable: !wait.is_multiple_of(3), ..plain }
}

/// One in three calls has none.
fn request_id(id: u8) -> String {
    if id == 0 { String::new() } else { format!("call-{id}") }
}

/// The generation that a call carries, if it carries one.
fn known(generation: u64) -> Option<u64> {
    (generation > 0).then_some(generation)
}

/// A priority, a consent, and a share: each in one of a few ways.
fn sharing(place: u8) -> Sharing {
    Sharing {
        priority: Priority::new(u32::from(place % 3)).unwrap(),
        yields: place.is_multiple_of(2),
        share: (place > 17).then(|| ShareName::new("share").unwrap()),
    }
}

fn event(happens: Happens, saves: &mut Saves, arrived: u64, now: Instant) -> Event {
    let seconds = Duration::from_secs;
    match happens {
        Happens::Arrives { lease, wait, max_hold, min_hold, id, place } => {
            let sharing = sharing(place);
            let terms = Terms {
                // Who has no share is asked for no balance.
                rebalance: place % 4 == 3 && sharing.share.is_some() && sharing.yields,
                record: Record { sharing: sharing.boxed(), ..Record::default() },
                request_id: request_id(id),
                max_hold: max_hold.map(seconds),
                min_hold: seconds(min_hold),
                auto_renew: wait % 5 > 0,
                decides: id % 2 > 0,
                ..terms(lease, wait)
            };
            Event::CallerArrived { caller: CallerId(arrived), terms: Arc::new(terms) }
        }
        Happens::Leaves(caller) => Event::CallerLeft { caller: CallerId(caller) },
        Happens::Silent(caller) => Event::HolderDisconnected { caller: CallerId(caller) },
        Happens::Releases(caller, of) => Event::Call {
            caller: CallerId(caller),
            generation: known(of),
            call: HolderCall::Release,
        },
        Happens::Extends(caller, of, span) => {
            let (caller, generation) = (CallerId(caller), known(of));
            Event::Call { caller, generation, call: HolderCall::Extend { max_hold: seconds(span) } }
        }
        Happens::Reports(caller, of) => Event::Call {
            caller: CallerId(caller),
            generation: known(of),
            call: HolderCall::Progress,
        },
        Happens::Saves(caller, of) => Event::Call {
            caller: CallerId(caller),
            generation: known(of),
            call: HolderCall::Save(saves.ask()),
        },
        Happens::Resumes { generation, believes } => {
            let resume = Resume {
                lease_id: LeaseId::from_uuid(Uuid::from_u64_pair(7, arrived)),
                token: FencingToken::from_u64(4_096 * (1 + believes)).unwrap(),
                generation,
                attempt: if generation == 2 { "again".to_owned() } else { String::new() },
                terms: Arc::new(terms(15, 0)),
                believed_until: now + seconds(believes),
                lease_ends: None,
                acquired_at: UnixMillis(1_800_000_000_000),
                bounds: None,
            };
            Event::ResumeAsked { caller: CallerId(arrived), resume: Box::new(resume) }
        }
        Happens::Suspects => Event::PauseSuspected,
        Happens::Answered { kind, request, outcome } => answered(kind, request, outcome),
        Happens::AnsweredLast { outcome } => answered(0, 0, outcome),
        Happens::HeldBack(request) => {
            Event::RenewHeldBack { request: RequestId(request.unwrap_or_default()) }
        }
        Happens::TurnCame => Event::RenewTurnCame,
        Happens::Broken { ends_now } => Event::LeaseBroken { ends_now },
        Happens::Breaks { begins: true, .. } => Event::BreakBegun,
        Happens::Breaks { begins: false, may_arrive } => Event::BreakOver { may_arrive },
        Happens::Drain(span) => Event::DrainStarted { ends: now + seconds(span) },
        Happens::DrainEnds => Event::DrainEnded,
        Happens::HandOver(span) => Event::HandOverStarted { ends: now + seconds(span) },
        Happens::Time(_) | Happens::Stands { .. } => Event::TimePassed,
        Happens::Stirred => Event::ShareStirred,
        Happens::Moves => Event::MoveAsked,
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn s4_whatever_comes_in_nobody_is_kept_past_its_validity(
        story in proptest::collection::vec(happens(), 0..60)
    ) {
        let settings = Settings { poll_cap: Duration::from_secs(5), hand_off: Duration::from_secs(5) };
        let mut now = Instant::from_boot(Duration::from_secs(1_000));
        let mut hold = PlainLock::new(settings, Memory::default(), 1, now);
        let (mut ids, mut arrived, mut token, mut last) = (0, 0, 0, None);
        let mut queue = Queue::default();
        let mut saves = Saves::default();
        for happens in story {
            if let Happens::Time(span) = happens {
                now = now + Duration::from_millis(span);
            }
            // Callers have numbers of their own (`CallerId`), whatever else is out of order.
            arrived += u64::from(matches!(happens, Happens::Arrives { .. } | Happens::Resumes { .. }));
            if let Happens::Stands { held, patience, step, turn } = happens {
                let (patience, step) = (Duration::from_millis(patience), step.map(Duration::from_millis));
                hold.stand(Standing { held, patience, not_before: step.map(|step| now + step), turn });
            }
            let happens = match (happens, last) {
                (Happens::AnsweredLast { outcome }, Some((kind, request))) => {
                    Happens::Answered { kind, request, outcome }
                }
                (Happens::HeldBack(None), Some((_, request))) => Happens::HeldBack(Some(request)),
                (happens, _) => happens,
            };
            let mut due = vec![event(happens, &mut saves, arrived, now)];
            // A machine that is due at once, for want of a lease id, comes to rest soon.
            for round in 0.. {
                let Some(event) = due.pop() else { break };
                prop_assert!(round < 5, "it goes round without end");
                if hold.needs_lease_id() {
                    ids += 1;
                    hold.supply(LeaseId::from_uuid(Uuid::from_u64_pair(7, ids)));
                }
                queue.comes(&event);
                for action in hold.handle_event(event, now) {
                    last = sent(&action).or(last);
                    prop_assert_eq!(queue.told(&action), Ok(()));
                    prop_assert_eq!(saves.told(&action), Ok(()));
                    if let Action::Decide { of, found } = &action {
                        due.push(Event::Decided { of: *of, verdict: decide(*of, found) });
                    }
                    if let Action::Tell { notice: Notice::Granted(grant), .. } = action {
                        prop_assert!(grant.valid_until > now, "S2");
                        prop_assert!(grant.token.value() > token || grant.resumed, "S5");
                        token = grant.token.value();
                    }
                }
                prop_assert_eq!(queue.settled(hold.waiting()), Ok(()));
                prop_assert_eq!(saves.settled(&hold), Ok(()));
                if due.is_empty() {
                    due.extend(hold.poll_timeout().filter(|at| *at <= now).map(|_| Event::TimePassed));
                }
            }
            if let Some(holding) = hold.holding() {
                prop_assert!(!holding.active || holding.valid_until > now, "S4");
            }
        }
    }
}
