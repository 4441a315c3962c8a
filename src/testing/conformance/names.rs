//! Names as strange as callers may choose them.

use std::collections::BTreeSet;

use super::bench::{Bench, acquire, fields, longest, new_id, read, write};
use crate::lock::{HostId, HostType, Layout, LockKey, LockMode, LockPath, Namespace, Prefix};
use crate::store::{LeaseStoreExt as _, List};

/// Functions and scopes that no two layouts of names may confuse.
fn odd_keys() -> Vec<(String, String)> {
    let fixed = [
        ("orders", ""),
        ("Orders", ""),
        ("ORDERS", ""),
        ("orders", "eu"),
        ("Zürich", "日本"),
        ("Zu\u{308}rich", "日本"),
        ("emoji 🦀", "🔒"),
        ("100%", "50%25"),
        ("a b", "c+d"),
        ("a%20b", "c%2Bd"),
        ("a+b", "c d"),
        ("question?mark", "hash#tag"),
        ("amp&ersand", "equals=sign"),
        ("quote\"s", "apostrophe's"),
        ("colon:semi;comma,", "at@dollar$"),
        ("(round)", "[square]{curly}"),
        ("tilde~", "caret^backtick`pipe|"),
        ("<angle>", "star*"),
        ("-dash", "_underscore"),
        ("sub/folder", "deep/er"),
    ];
    let mut keys: Vec<_> =
        fixed.map(|(function, scope)| (function.to_owned(), scope.to_owned())).into();
    keys.push(("long".repeat(100), "日".repeat(30)));
    keys.push(("long".repeat(100) + "x", "日".repeat(30)));
    keys
}

async fn are_locks_of_their_own<B: Bench>(bench: &B, layout: Layout, keys: Vec<(String, String)>) {
    let namespace = Namespace {
        container: bench.container(),
        prefix: Prefix::parse("odd.names/v1").expect("a good prefix"),
        layout,
    };
    let host_id = HostId::parse("keeper-1").expect("a good host id");
    let host_type = HostType::parse("Keeper").expect("a good host type");
    let mut paths: BTreeSet<LockPath> = BTreeSet::new();
    for (function, scope) in &keys {
        for mode in [LockMode::Function, LockMode::Listener] {
            let key = LockKey::new(function, scope, mode).expect("a good key");
            let path = namespace.lock_path(&host_id, &host_type, &key).expect("a name");
            assert!(paths.insert(path.clone()), "{path} names two keys of this case");
        }
    }
    for (number, path) in paths.iter().enumerate() {
        let id = new_id();
        let acquired = acquire(bench, path, longest(id)).await;
        assert!(acquired.created, "{path} is the lock of another name");
        write(bench, path, id, fields([("number", &number.to_string())])).await;
    }
    for (number, path) in paths.iter().enumerate() {
        let stored = read(bench, path).await;
        assert_eq!(stored.fields, fields([("number", &number.to_string())]), "{path}");
    }
    let request = List {
        container: bench.container(),
        prefix: namespace.host_prefix(&host_id),
        continuation: None,
        limit: 1_000,
    };
    let listed = bench.store().list(request).await.unwrap().locks;
    let listed: BTreeSet<LockPath> = listed.into_iter().map(|(path, _)| path).collect();
    assert_eq!(listed, paths);
}

pub(super) async fn odd_names_of_the_readable_layout_are_locks_of_their_own<B: Bench>(bench: &B) {
    let mut keys = odd_keys();
    // These have no raw name of their own, but an encoded one.
    keys.push((String::new(), "eu".to_owned()));
    keys.push(("back\\slash".to_owned(), "dot.".to_owned()));
    keys.push(("/".to_owned(), "//".to_owned()));
    keys.push((".".to_owned(), "..".to_owned()));
    keys.push(("F".repeat(1_024), "日".repeat(341)));
    are_locks_of_their_own(bench, Layout::Readable, keys).await;
}

pub(super) async fn odd_names_of_the_webjobs_layout_are_locks_of_their_own<B: Bench>(bench: &B) {
    are_locks_of_their_own(bench, Layout::WebJobs, odd_keys()).await;
}
