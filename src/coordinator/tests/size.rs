//! What a hold costs beside its machine: a sidecar may have a hundred thousand of them (docs/performance.md).

use crate::coordinator::caller::Caller;
use crate::coordinator::registry::HoldEntry;
use crate::coordinator::task::Task;
use crate::hold::Terms;
use crate::lock::{FencingToken, HostId, LockPath};
use crate::time::Instant;

#[test]
fn what_there_is_of_each_hold_is_small() {
    let sizes = [
        ("task", size_of::<Task>(), 544),
        ("caller", size_of::<Caller>(), 120),
        ("terms", size_of::<Terms>(), 424),
        ("entry", size_of::<HoldEntry>(), 48),
    ];
    let over: Vec<_> = sizes.into_iter().filter(|(_, size, most)| size > most).collect();
    assert!(over.is_empty(), "what, bytes, and the most: {over:?}");
}

#[test]
fn what_each_hold_has_a_dozen_of_is_no_larger_where_it_is_optional() {
    assert_eq!(size_of::<Option<Instant>>(), 8);
    assert_eq!(size_of::<Option<FencingToken>>(), 8);
    assert_eq!(size_of::<LockPath>(), size_of::<HostId>());
}
