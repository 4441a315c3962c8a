//! What is kept of a lock between its holds, and what of that when it is forgotten (S5, S10, S11, S13, S17).

use std::sync::Arc;
use std::time::Duration;

use super::rig::{secs, terms};
use crate::hold::memory::{Change, Handed, Known, Memory, Rest, Ungranted};
use crate::hold::{Idle, Wait};
use crate::lock::FencingToken;
use crate::record::{ETag, Fields, Record};
use crate::time::{Instant, UnixMillis};

const CAP: Duration = secs(5);

fn etag() -> ETag {
    ETag("1".into())
}

fn at(seconds: u64) -> Instant {
    Instant::from_boot(secs(seconds))
}

fn token(epoch: u64, hand_offs: u64) -> FencingToken {
    FencingToken::from_u64(epoch * 4_096 + hand_offs).unwrap()
}

fn idle(until: u64, why: Wait) -> Option<Idle> {
    Some(Idle { until: at(until), why })
}

fn rest(until: u64) -> Option<Box<Rest>> {
    let seen = (at(0), UnixMillis(0));
    Some(Box::new(Rest { etag: etag(), seen, until: at(until), below: None }))
}

fn ungranted(until: u64) -> Option<Box<Ungranted>> {
    let lease_duration = secs(15);
    let until = at(until);
    Some(Box::new(Ungranted { lease_ids: Vec::new(), lease_duration, until, is_owed: true }))
}

fn known() -> Option<Known> {
    Some(Known::new(&etag(), &Fields::new()))
}

#[test]
fn s10_a_hand_off_counts_beside_an_earlier_record_of_its_lease_only() {
    let mut later = terms();
    later.record.holder = "later".to_owned();
    let (granted, acquired_at) = (token(5, 2), UnixMillis(7));
    let handed = Handed { token: granted, acquired_at, terms: Arc::new(later) };
    let stored = [None, Some(token(5, 1)), Some(granted), Some(token(5, 3)), Some(token(4, 1))];
    for (token, is_newer) in stored.into_iter().zip([false, true, false, false, false]) {
        let record = Record { token, holder: "stored".to_owned(), ..Record::default() };
        let shown = handed.or_newer(record.clone());
        if is_newer {
            let shown = (shown.token, shown.acquired_at, shown.holder.as_str());
            assert_eq!(shown, (Some(granted), Some(acquired_at), "later"));
        } else {
            assert_eq!(shown, record);
        }
    }
}

#[test]
fn s38_nothing_is_kept_of_a_lock_of_which_nothing_is_known() {
    assert!(Memory::default().is_empty());
    let kept = [
        Memory { known: known(), ..Memory::default() },
        Memory { highest: Some(token(1, 0)), ..Memory::default() },
        Memory { idle: idle(1, Wait::Believed), ..Memory::default() },
        Memory { rest: rest(1), ..Memory::default() },
        Memory { ungranted: ungranted(1), ..Memory::default() },
        Memory { may_break_arrive: true, ..Memory::default() },
    ];
    assert!(kept.iter().all(|memory| !memory.is_empty()));
}

#[test]
fn s10_s11_s13_s17_what_is_relied_on_outlives_what_is_forgotten() {
    let until = |memory: Memory, now| memory.relied_on(CAP, at(now)).map(|(until, _)| until);
    assert_eq!(until(Memory { known: known(), ..Memory::default() }, 1), None);
    // Until when a lock rests is in its record.
    let resting = Memory { idle: idle(9, Wait::MinHold), ..Memory::default() };
    assert_eq!(until(resting.clone(), 1), None);
    let day = Some(at(1) + secs(24 * 3_600));
    assert_eq!(until(Memory { may_break_arrive: true, ..Memory::default() }, 1), day);
    let believed = Memory { idle: idle(9, Wait::Believed), ..Memory::default() };
    let others = [
        believed.clone(),
        Memory { rest: rest(9), ..resting },
        Memory { ungranted: ungranted(9), ..Memory::default() },
        Memory { rest: rest(9), ungranted: ungranted(8), ..Memory::default() },
    ];
    for memory in others {
        assert_eq!(until(memory.clone(), 8), Some(at(9)), "{memory:?}");
        assert_eq!(until(memory, 9), None, "it is over");
    }
    let change = Some(Box::new(Change::new(&Record::default(), at(1))));
    let terms = Arc::new(terms());
    let handed = Handed { token: token(1, 0), acquired_at: UnixMillis(0), terms };
    let handed = Some(Box::new(handed));
    let (_, kept) =
        Memory { known: known(), change, handed, ..believed }.relied_on(CAP, at(1)).unwrap();
    assert!(kept.known.is_none() && kept.change.is_none() && kept.handed.is_none());
    assert_eq!(kept.idle, idle(9, Wait::Believed));
    let (_, kept) = Memory { idle: idle(9, Wait::Reserved), rest: rest(9), ..Memory::default() }
        .relied_on(CAP, at(1))
        .unwrap();
    assert_eq!(kept.idle, None);
}

#[test]
fn s13_a_belief_makes_a_lock_wait_for_longer_and_never_shorter() {
    let cases = [
        (None, Wait::Believed),
        (idle(8, Wait::StandBack), Wait::Believed),
        (idle(9, Wait::StandBack), Wait::StandBack),
        (idle(10, Wait::StandBack), Wait::StandBack),
    ];
    for (before, why) in cases {
        let mut memory = Memory { idle: before, ..Memory::default() };
        memory.believe(at(9));
        let idle = memory.idle.unwrap();
        let until = before.map_or_else(|| at(9), |before| before.until.max(at(9)));
        assert_eq!((idle.until, idle.why), (until, why));
    }
}
