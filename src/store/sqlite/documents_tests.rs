use std::sync::Arc;

use rusqlite::Connection;
use tempfile::TempDir;

use crate::lock::{Container, LockPath};
use crate::store::{DocumentPath, LeaseStoreExt as _, SqliteStore};
use crate::testing::SimClock;

fn path() -> LockPath {
    LockPath::from_parts(&Container::parse("locks").unwrap(), "host/f")
}

fn plan() -> DocumentPath {
    DocumentPath::Plan(path())
}

/// A file as a program made it that knew of no plans, with a lock in it.
fn file_of_before(folder: &TempDir) -> std::path::PathBuf {
    let file = folder.path().join("locks.db");
    drop(SqliteStore::open(&file, Arc::new(SimClock::new())).unwrap());
    let connection = Connection::open(&file).unwrap();
    connection
        .execute_batch(
            "DROP TABLE plans;
             INSERT INTO locks (container, name, etag, fields, written_at)
             VALUES ('locks', 'host/f', 'known', '{\"leasehold_token\":\"65537\"}', 5)",
        )
        .unwrap();
    file
}

fn version(file: &std::path::Path) -> i64 {
    let connection = Connection::open(file).unwrap();
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn t3_a_file_of_before_there_were_plans_gets_their_table_and_keeps_its_locks() {
    let folder = TempDir::new().unwrap();
    let file = file_of_before(&folder);
    let store = SqliteStore::open(&file, Arc::new(SimClock::new())).unwrap();
    assert_eq!(store.read_document(plan()).await.unwrap().document, None);
    let written = store.write_document(plan(), "{}".to_owned(), None).await.unwrap();
    let lock = store.read_record(&path()).await.unwrap();
    assert_eq!((&*lock.etag.0, lock.fields.len()), ("known", 1));
    drop(store);
    // A program of before takes any file of this version, whatever tables it has.
    assert_eq!(version(&file), 1);
    let store = SqliteStore::open(&file, Arc::new(SimClock::new())).unwrap();
    let kept = store.read_document(plan()).await.unwrap().document.unwrap();
    assert_eq!((kept.text.as_str(), kept.etag), ("{}", written.etag));
}

/// Two processes that open such a file at once both find the table missing.
#[tokio::test]
async fn t3_the_table_of_plans_is_made_once() {
    let folder = TempDir::new().unwrap();
    let file = file_of_before(&folder);
    let open = |file: std::path::PathBuf| {
        std::thread::spawn(move || SqliteStore::open(&file, Arc::new(SimClock::new())).unwrap())
    };
    let opened: Vec<_> = (0..4).map(|_| open(file.clone())).collect();
    let stores: Vec<_> = opened.into_iter().map(|opened| opened.join().unwrap()).collect();
    stores[0].write_document(plan(), "{}".to_owned(), None).await.unwrap();
    for store in &stores {
        assert!(store.read_document(plan()).await.unwrap().document.is_some());
    }
}
