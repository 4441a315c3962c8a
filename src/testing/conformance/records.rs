//! What is kept with a lock.

use super::bench::{
    Bench, acquire, break_lease, fields, lock, longest, new_id, note, read, run_out, shortest,
    write,
};
use crate::lock::{FencingToken, LockKey, LockMode};
use crate::record::{Fields, Record};
use crate::store::{BreakPeriod, LeaseStoreExt as _};
use crate::time::UnixMillis;

/// Names of fields are told apart regardless of case, as those of HTTP headers are.
fn lower_case(fields: &Fields) -> Fields {
    fields.iter().map(|(name, value)| (name.to_lowercase(), value.clone())).collect()
}

fn record() -> Record {
    let key = LockKey::new("Zürich/日本 100% +", "scope ~ with = & ?", LockMode::Listener)
        .expect("a good key");
    Record {
        token: FencingToken::from_u64(27_465_820 * 65_536 + 3),
        holder: "pod-7 (Ümlaut, \"quoted\", 100%)".to_owned(),
        host_type: "Keeper-A".to_owned(),
        acquired_at: Some(UnixMillis(1_800_000_000_123)),
        resting_until: Some(UnixMillis(1_800_000_060_000)),
        handed_on: true,
        lease: Some("0123456789abcdef".to_owned()),
        ..Record::for_key(&key)
    }
}

pub(super) async fn a_record_reads_back_as_it_was_written<B: Bench>(bench: &B) {
    let (path, a) = (lock(bench, "host/record/~/FUNCTION"), new_id());
    acquire(bench, &path, longest(a)).await;
    let written = record().into_fields(Fields::new());
    write(bench, &path, a, written.clone()).await;
    let stored = read(bench, &path).await;
    assert_eq!(stored.fields, written);
    assert_eq!(Record::from_fields(&stored.fields), record());
}

pub(super) async fn a_write_replaces_all_fields<B: Bench>(bench: &B) {
    let (path, a) = (lock(bench, "host/replace/~/FUNCTION"), new_id());
    acquire(bench, &path, longest(a)).await;
    write(bench, &path, a, fields([("first", "1"), ("second", "2")])).await;
    write(bench, &path, a, fields([("second", "two"), ("third", "3")])).await;
    assert_eq!(read(bench, &path).await.fields, fields([("second", "two"), ("third", "3")]));
    write(bench, &path, a, Fields::new()).await;
    assert_eq!(read(bench, &path).await.fields, Fields::new());
}

pub(super) async fn fields_of_others_are_kept_by_the_record<B: Bench>(bench: &B) {
    let (path, a) = (lock(bench, "host/others/~/FUNCTION"), new_id());
    acquire(bench, &path, longest(a)).await;
    let instance = "0f8fad5b-d9cb-469f-a165-70867728950e";
    let of_others = fields([("FunctionInstance", instance), ("_x1", "a b;c,d=\"e\"%20+")]);
    write(bench, &path, a, of_others.clone()).await;
    let found = read(bench, &path).await.fields;
    assert_eq!(lower_case(&found), lower_case(&of_others));
    write(bench, &path, a, record().into_fields(found)).await;
    let after = lower_case(&read(bench, &path).await.fields);
    for (name, value) in lower_case(&of_others) {
        assert_eq!(after.get(&name), Some(&value), "{name}");
    }
    assert_eq!(Record::from_fields(&after), record());
}

pub(super) async fn a_record_outlives_its_lease<B: Bench>(bench: &B) {
    let (path, a, b) = (lock(bench, "host/outlives/~/FUNCTION"), new_id(), new_id());
    let store = bench.store();
    let kept = fields([("leasehold_token", "65536")]);
    acquire(bench, &path, shortest(a)).await;
    let etag = write(bench, &path, a, kept.clone()).await.etag;
    run_out(bench, &path).await;
    acquire(bench, &path, longest(b)).await;
    assert_eq!(read(bench, &path).await.fields, kept);
    break_lease(bench, &path, note(BreakPeriod::Now, "outlived")).await.unwrap();
    assert_eq!(read(bench, &path).await.fields, kept);
    store.release(&path, b, None).await.unwrap();
    let stored = read(bench, &path).await;
    assert_eq!((stored.fields, stored.etag), (kept, etag));
}

pub(super) async fn the_fullest_record_is_kept<B: Bench>(bench: &B) {
    let (path, a) = (lock(bench, "host/fullest/~/FUNCTION"), new_id());
    acquire(bench, &path, longest(a)).await;
    // Azure keeps 8 KiB of names and values.
    let full: Fields =
        (0..7).map(|number| (format!("leasehold_field_{number}"), "%E6".repeat(380))).collect();
    write(bench, &path, a, full.clone()).await;
    assert_eq!(read(bench, &path).await.fields, full);
}
