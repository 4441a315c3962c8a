//! The contract's table, cell by cell.

use super::bench::{
    Bench, acquire, break_lease, fields, lock, longest, new_id, note, read, run_out, shortest,
    state, write,
};
use crate::lock::{LeaseId, LockPath};
use crate::record::ETag;
use crate::store::{
    Acquire, BreakPeriod, LeaseEnd, LeaseState, LeaseStore, LeaseStoreExt as _, StoreError, Write,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TableOperation {
    AcquireA,
    AcquireB,
    RenewA,
    RenewB,
    ReleaseA,
    ReleaseB,
    BreakRunOut,
    BreakNow,
    WriteA,
    WriteB,
}

/// Whether an operation is asked for only if the record is a certain one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Without,
    Matching,
    Stale,
}

impl Condition {
    const ALL: [Self; 3] = [Self::Without, Self::Matching, Self::Stale];
}

/// What an operation answers; one that is not done leaves the lease as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    /// It is done, and this is the lease's state afterwards.
    Done(LeaseState),
    Contended,
    Lost,
    /// Lost, and the store tells that it was by a break.
    LostByBreak,
    NotHeld,
}

use Cell::{Contended, Done, Lost, LostByBreak, NotHeld};
use Condition::{Matching, Stale, Without};
use LeaseState::{Available, Breaking, Broken, Expired, Leased};
use TableOperation::{
    AcquireA, AcquireB, BreakNow, BreakRunOut, ReleaseA, ReleaseB, RenewA, RenewB, WriteA, WriteB,
};

#[derive(Debug)]
struct Row {
    operation: TableOperation,
    available: Cell,
    leased: Cell,
    breaking: Cell,
    broken: Cell,
    expired: Cell,
}

const fn row(operation: TableOperation, cells: [Cell; 5]) -> Row {
    let [available, leased, breaking, broken, expired] = cells;
    Row { operation, available, leased, breaking, broken, expired }
}

/// The documented table of Azure's Lease Blob and of writes under a lease.
#[rustfmt::skip]
const TABLE: [Row; 10] = [
    //                available      leased           breaking         broken         expired
    row(AcquireA,    [Done(Leased), Done(Leased),    Contended,       Done(Leased),    Done(Leased)]),
    row(AcquireB,    [Done(Leased), Contended,       Contended,       Done(Leased),    Done(Leased)]),
    row(RenewA,      [Lost,         Done(Leased),    LostByBreak,     LostByBreak,     Done(Leased)]),
    row(RenewB,      [Lost,         Lost,            Lost,            Lost,            Lost]),
    row(ReleaseA,    [Lost,         Done(Available), Done(Available), Done(Available), Done(Available)]),
    row(ReleaseB,    [Lost,         Lost,            Lost,            Lost,            Lost]),
    row(BreakRunOut, [NotHeld,      Done(Breaking),  Done(Breaking),  Done(Broken),    Done(Broken)]),
    row(BreakNow,    [NotHeld,      Done(Broken),    Done(Broken),    Done(Broken),    Done(Broken)]),
    row(WriteA,      [Lost,         Done(Leased),    Done(Breaking),  Lost,            Lost]),
    row(WriteB,      [Lost,         Lost,            Lost,            Lost,            Lost]),
];

impl TableOperation {
    const fn takes(self, condition: Condition) -> bool {
        match self {
            AcquireA | AcquireB | RenewA | RenewB | ReleaseA | ReleaseB | WriteA | WriteB => true,
            BreakRunOut | BreakNow => matches!(condition, Matching | Stale),
        }
    }
}

/// A row under a condition.
#[derive(Clone, Copy)]
struct Trial {
    row: &'static Row,
    condition: Condition,
}

/// Every row under every condition that its operation takes.
fn trials() -> impl Iterator<Item = Trial> {
    let under = |row| Condition::ALL.into_iter().map(move |condition| Trial { row, condition });
    TABLE.iter().flat_map(under).filter(|trial| trial.row.operation.takes(trial.condition))
}

impl Row {
    const fn cell(&self, state: LeaseState) -> Cell {
        match state {
            Available => self.available,
            Leased => self.leased,
            Breaking => self.breaking,
            Broken => self.broken,
            Expired => self.expired,
        }
    }
}

/// A lock in the state under test, whose lease A has or had last.
struct Prepared {
    path: LockPath,
    a: LeaseId,
    /// The ETag of its record, and of the one before.
    etag: ETag,
    stale: ETag,
}

impl Prepared {
    fn if_match(&self, condition: Condition) -> Option<ETag> {
        match condition {
            Without => None,
            Matching => Some(self.etag.clone()),
            Stale => Some(self.stale.clone()),
        }
    }
}

async fn prepare<B: Bench>(
    bench: &B,
    Trial { row, condition }: Trial,
    request: fn(LeaseId) -> Acquire,
) -> Prepared {
    let path = lock(bench, &format!("host/table/~/{:?}-{condition:?}", row.operation));
    let a = new_id();
    acquire(bench, &path, request(a)).await;
    let stale = write(bench, &path, a, fields([("leasehold_holder", "before")])).await.etag;
    let etag = write(bench, &path, a, fields([("leasehold_holder", "a")])).await.etag;
    Prepared { path, a, etag, stale }
}

async fn carry_out(
    store: &dyn LeaseStore,
    operation: TableOperation,
    path: &LockPath,
    a: LeaseId,
    if_match: Option<ETag>,
) -> Result<(), StoreError> {
    let b = new_id();
    // A break is always of what was looked at.
    let looked_at = || if_match.clone().expect("breaks are tried with a condition only");
    let lease = |lease_id| Acquire { if_match: if_match.clone(), ..longest(lease_id) };
    let change = |lease_id| Write {
        lease_id,
        if_match: if_match.clone(),
        fields: fields([("leasehold_holder", "changed")]),
    };
    match operation {
        AcquireA => store.acquire(path, lease(a)).await.map(drop),
        AcquireB => store.acquire(path, lease(b)).await.map(drop),
        RenewA => store.renew(path, a, if_match).await.map(drop),
        RenewB => store.renew(path, b, if_match).await.map(drop),
        ReleaseA => store.release(path, a, if_match).await,
        ReleaseB => store.release(path, b, if_match).await,
        BreakRunOut => {
            let note = note(BreakPeriod::RunOut, "table");
            store.break_lease(path, note, looked_at()).await.map(drop)
        }
        BreakNow => {
            let note = note(BreakPeriod::Now, "table");
            store.break_lease(path, note, looked_at()).await.map(drop)
        }
        WriteA => store.write_record(path, change(a)).await.map(drop),
        WriteB => store.write_record(path, change(b)).await.map(drop),
    }
}

fn agrees(answer: &Result<(), StoreError>, cell: Cell) -> bool {
    match cell {
        Done(_) => answer.is_ok(),
        Contended => matches!(answer, Err(StoreError::Contended)),
        Lost => matches!(answer, Err(StoreError::LeaseLost { .. })),
        LostByBreak => matches!(answer, Err(StoreError::LeaseLost { how: LeaseEnd::Broken })),
        NotHeld => matches!(answer, Err(StoreError::NotHeld)),
    }
}

async fn check_cell<B: Bench>(
    bench: &B,
    before: LeaseState,
    Trial { row, condition }: Trial,
    lock: Prepared,
) {
    let operation = row.operation;
    let trial = format!("{operation:?} on {before:?}, {condition:?} a condition");
    assert_eq!(state(bench, &lock.path).await, before, "prepared for {trial}");
    let if_match = lock.if_match(condition);
    let answer = carry_out(&*bench.store(), operation, &lock.path, lock.a, if_match).await;
    let deviation = bench.deviations().renews_expired_under_any_id;
    // A store that looks for its lease id in the answer sees that this one cannot be right.
    let unseen = matches!(answer, Ok(()) | Err(StoreError::Unavailable { .. }));
    if operation == RenewB && before == Expired && deviation.is_some() && unseen {
        return;
    }
    let cell = row.cell(before);
    let done = matches!(cell, Done(_)) && condition != Stale;
    let refused = condition == Stale && matches!(answer, Err(StoreError::Changed));
    let expected = refused || (agrees(&answer, cell) && answer.is_ok() == done);
    assert!(expected, "{trial}: {answer:?} instead of {cell:?}");
    let after = read(bench, &lock.path).await;
    let state = if let (Done(state), true) = (cell, done) { state } else { before };
    assert_eq!(after.lease, state, "{trial}");
    let written = operation == WriteA && done;
    assert_eq!(after.etag != lock.etag, written, "ETag after {trial}");
    let holder = if written { "changed" } else { "a" };
    assert_eq!(after.fields, fields([("leasehold_holder", holder)]), "{trial}");
}

pub(super) async fn an_available_lock_answers_as_the_table_says<B: Bench>(bench: &B) {
    for trial in trials() {
        let lock = prepare(bench, trial, longest).await;
        bench.store().release(&lock.path, lock.a, None).await.unwrap();
        check_cell(bench, Available, trial, lock).await;
    }
}

pub(super) async fn a_leased_lock_answers_as_the_table_says<B: Bench>(bench: &B) {
    for trial in trials() {
        let lock = prepare(bench, trial, longest).await;
        check_cell(bench, Leased, trial, lock).await;
    }
}

pub(super) async fn a_breaking_lock_answers_as_the_table_says<B: Bench>(bench: &B) {
    for trial in trials() {
        let lock = prepare(bench, trial, longest).await;
        break_lease(bench, &lock.path, note(BreakPeriod::RunOut, "prepared")).await.unwrap();
        check_cell(bench, Breaking, trial, lock).await;
    }
}

pub(super) async fn a_broken_lock_answers_as_the_table_says<B: Bench>(bench: &B) {
    for trial in trials() {
        let lock = prepare(bench, trial, longest).await;
        break_lease(bench, &lock.path, note(BreakPeriod::Now, "prepared")).await.unwrap();
        check_cell(bench, Broken, trial, lock).await;
    }
}

pub(super) async fn a_lock_whose_broken_lease_ran_out_answers_as_the_table_says<B: Bench>(
    bench: &B,
) {
    check_after_running_out(bench, Broken).await;
}

pub(super) async fn an_expired_lock_answers_as_the_table_says<B: Bench>(bench: &B) {
    check_after_running_out(bench, Expired).await;
}

/// All locks run out at once: time passes only once for the whole column.
async fn check_after_running_out<B: Bench>(bench: &B, state: LeaseState) {
    let mut locks = Vec::new();
    for trial in trials() {
        let lock = prepare(bench, trial, shortest).await;
        if state == Broken {
            break_lease(bench, &lock.path, note(BreakPeriod::RunOut, "prepared")).await.unwrap();
        }
        locks.push((trial, lock));
    }
    for (trial, lock) in locks {
        run_out(bench, &lock.path).await;
        check_cell(bench, state, trial, lock).await;
    }
}

pub(super) async fn s8_a_lock_that_is_not_there_is_not_found<B: Bench>(bench: &B) {
    let (store, a) = (bench.store(), new_id());
    acquire(bench, &lock(bench, "host/neighbour/~/FUNCTION"), longest(a)).await;
    let path = lock(bench, "host/nobody/~/FUNCTION");
    for operation in [RenewA, ReleaseA, WriteA] {
        let answer = carry_out(&*store, operation, &path, a, None).await;
        assert!(matches!(answer, Err(StoreError::NotFound)), "{operation:?}: {answer:?}");
    }
    assert!(matches!(store.read_record(&path).await, Err(StoreError::NotFound)));
    let etag = read(bench, &lock(bench, "host/neighbour/~/FUNCTION")).await.etag;
    for operation in [RenewA, ReleaseA, BreakRunOut, BreakNow, WriteA] {
        let answer = carry_out(&*store, operation, &path, a, Some(etag.clone())).await;
        let refused = matches!(answer, Err(StoreError::NotFound | StoreError::Changed));
        assert!(refused, "{operation:?}: {answer:?}");
    }
    assert!(matches!(store.delete(&path, etag).await, Err(StoreError::NotFound)));
    assert_eq!(store.read_break_note(&path).await.unwrap(), None);
}

pub(super) async fn s18_acquire_makes_the_lock<B: Bench>(bench: &B) {
    let (path, a) = (lock(bench, "host/new/~/FUNCTION"), new_id());
    let first = acquire(bench, &path, longest(a)).await;
    assert!(first.created);
    let stored = read(bench, &path).await;
    assert_eq!((stored.lease, stored.etag), (Leased, first.etag.clone()));
    assert!(stored.fields.is_empty(), "{:?}", stored.fields);
    let again = acquire(bench, &path, longest(a)).await;
    assert_eq!((again.created, again.etag), (false, first.etag));
}
