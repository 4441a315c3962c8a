use std::time::UNIX_EPOCH;

use crate::cli::rig::{Home, eventually};

fn second() -> u64 {
    UNIX_EPOCH.elapsed().unwrap().as_secs()
}

/// Makes all records of the store look as old as that, once the second of their tokens is over: until then
/// they are kept (S5).
pub(crate) async fn age(home: &Home, days: i64) {
    let granted = second();
    eventually("the second of the grant is over", || async { (second() > granted).then_some(()) })
        .await;
    let store = rusqlite::Connection::open(home.store()).unwrap();
    let changed = store
        .execute("UPDATE locks SET written_at = written_at - ?1", [days * 86_400_000])
        .unwrap();
    assert!(changed > 0);
}

async fn names(home: &Home) -> Vec<String> {
    let listed = home.directly(&["ls", "--prefix", "leasehold/locks/", "--output", "json"]).await;
    let paths = listed.json();
    let paths = paths.as_array().unwrap().iter();
    paths.map(|lock| lock["lock_path"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn idle_locks_are_listed_and_then_deleted() {
    let home = Home::new();
    assert_eq!(home.directly(&["run", "-f", "old", "--", "true"]).await.code, 0);
    age(&home, 40).await;
    assert_eq!(home.directly(&["run", "-f", "fresh", "--", "true"]).await.code, 0);

    let planned = home.directly(&["gc", "--idle", "30d", "--dry-run", "--output", "json"]).await;
    assert_eq!(planned.code, 0, "{planned:?}");
    let planned = planned.json();
    assert_eq!((&planned["dry_run"], &planned["kept"]), (&true.into(), &1.into()), "{planned}");
    assert_eq!(names(&home).await.len(), 2);

    let done = home.directly(&["gc", "--idle", "30d"]).await;
    assert!(done.stdout.contains("/old/") && done.stdout.contains("deleted 1 lock,"), "{done:?}");
    let left = names(&home).await;
    assert!(left.len() == 1 && left[0].contains("/fresh/"), "{left:?}");
}

#[tokio::test]
async fn t21_the_lock_of_a_schedule_stays_and_the_reason_is_told() {
    let home = Home::new();
    assert_eq!(home.directly(&["run", "-f", "nightly", "--", "true"]).await.code, 0);
    age(&home, 40).await;
    let store = rusqlite::Connection::open(home.store()).unwrap();
    let plan = "INSERT INTO plans SELECT container, name, 'known', '{}' FROM locks";
    assert_eq!(store.execute(plan, []).unwrap(), 1);
    let kept = home.directly(&["gc", "--idle", "30d"]).await;
    assert_eq!(kept.code, 0, "{kept:?}");
    assert!(kept.stdout.contains("kept leasehold/locks/"), "{kept:?}");
    assert!(kept.stdout.contains("the schedule's plan cannot be read"), "{kept:?}");
    assert_eq!(store.execute("DELETE FROM plans", []).unwrap(), 1);
    assert!(home.directly(&["gc", "--idle", "30d"]).await.stdout.contains("deleted 1 lock,"));
}

#[tokio::test]
async fn other_hosts_locks_are_collected_only_when_asked_for() {
    let home = Home::new();
    let other = ["run", "-f", "job", "--host-id", "other", "--", "true"];
    assert_eq!(home.directly(&other).await.code, 0);
    age(&home, 40).await;
    let count = async |words: &[&str]| {
        let all: Vec<&str> = ["gc", "--idle", "30d", "--dry-run", "--output", "json"]
            .iter()
            .chain(words)
            .copied()
            .collect();
        home.directly(&all).await.json()["deleted"].as_array().unwrap().len()
    };
    assert_eq!(count(&[]).await, 0);
    assert_eq!(count(&["--host-id", "other"]).await, 1);
    assert_eq!(count(&["--all-hosts"]).await, 1);
}

#[tokio::test]
async fn s5_too_short_an_idle_time_is_refused() {
    let home = Home::new();
    let refused = home.directly(&["gc", "--idle", "5m"]).await;
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(refused.stderr.contains("1h"), "{refused:?}");
}
