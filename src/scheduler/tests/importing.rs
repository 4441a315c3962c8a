//! Schedules that begin where a timer of another scheduler has stopped (T22).

use super::rig::{START, at, complete, run, spec, standby, subscribe};
use crate::coordinator::CallError;
use crate::coordinator::tests::rig::{Account, Sidecar, by_key, key, request, settle};
use crate::lock::LockPath;
use crate::record::Record;
use crate::schedule::{Report, TakeOver, TakeOverError};
use crate::scheduler::{ImportError, ImportRequest, Imported, ScheduleChange};
use crate::store::{LeaseStoreExt as _, MemoryStore, StoreError, StoredLock};
use crate::time::Clock as _;
use crate::timetable::UtcSecond;

fn import(done_up_to: UtcSecond) -> ImportRequest {
    let take_over = TakeOver { done_up_to, next: None, replace: false };
    ImportRequest { key: key("nightly"), take_over, dry_run: false }
}

fn path(sidecar: &Sidecar) -> LockPath {
    sidecar.coordinator.host().resolve(&key("nightly")).unwrap().path
}

async fn stored(store: &MemoryStore, path: &LockPath) -> Result<StoredLock, StoreError> {
    store.read_record(path).await
}

#[tokio::test(start_paused = true)]
async fn t22_a_schedule_begins_where_the_timer_has_stopped() {
    let account = Account::new();
    let (tool, sidecar) = (account.sidecar(), account.sidecar());
    let imported = tool.scheduler.import_schedule(import(at(-7_200))).await.unwrap();
    assert_eq!(imported, Imported { path: path(&tool), is_new: true });
    let lock = stored(&account.store, &imported.path).await.unwrap();
    assert!(!lock.lease.is_held(), "the lease is given back");
    let token = Record::from_fields(&lock.fields).token.unwrap();
    settle().await;
    tool.assert_idle();

    let again = tool.scheduler.import_schedule(import(at(-7_200))).await.unwrap();
    assert!(!again.is_new, "it may be repeated");
    let shown = sidecar.scheduler.schedule(&by_key("nightly")).await.unwrap();
    assert_eq!(shown.state.unwrap().watermark, at(-7_200));
    // START is divisible by 600.
    let mut stream = subscribe(&sidecar, spec("@every 600s"));
    let granted = run(&mut stream).await;
    assert_eq!((granted.told.scheduled_at, granted.told.missed_count), (START, 11));
    assert!(granted.grant.token > token, "it was written with a token (S5)");
}

#[tokio::test(start_paused = true)]
async fn t22_nothing_is_written_where_an_import_is_refused_or_only_tried() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let mut tried = import(at(-60));
    tried.dry_run = true;
    assert!(sidecar.scheduler.import_schedule(tried).await.unwrap().is_new);
    let ahead = sidecar.scheduler.import_schedule(import(at(6))).await;
    assert!(matches!(ahead, Err(ImportError::Ahead { .. })), "{ahead:?}");
    let nothing = stored(&account.store, &path(&sidecar)).await;
    assert!(matches!(nothing, Err(StoreError::NotFound)), "{nothing:?}");

    let mut stream = subscribe(&sidecar, spec("@every 600s"));
    standby(&mut stream).await;
    let exists = sidecar.scheduler.import_schedule(import(at(-60))).await;
    let Err(ImportError::Refused { source, .. }) = exists else { panic!("{exists:?}") };
    assert!(matches!(source, TakeOverError::Exists { .. }), "{source}");
    assert!(stored(&account.store, &path(&sidecar)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn t22_a_lock_that_is_held_is_not_imported_to() {
    let account = Account::new();
    let (holder, tool) = (account.sidecar(), account.sidecar());
    let (_hold, _) = holder.hold(&request("nightly")).await;
    let busy = tool.scheduler.import_schedule(import(at(-60))).await;
    assert!(matches!(busy, Err(ImportError::Busy { .. })), "{busy:?}");
    settle().await;
    tool.assert_idle();
}

#[tokio::test(start_paused = true)]
async fn t22_a_record_that_cannot_be_read_is_not_written_over() {
    let account = Account::new();
    let sidecar = account.sidecar();
    let (hold, _) = sidecar.hold(&request("nightly")).await;
    drop(hold);
    settle().await;
    let path = path(&sidecar);
    let mut fields = stored(&account.store, &path).await.unwrap().fields;
    fields.insert("leasehold_schedule_last".to_owned(), "soon".to_owned());
    let (now, time) = (account.clock.now(), account.clock.wall());
    account.store.locks().write_without_lease(&path, fields.clone(), now, time).unwrap();
    let tool = account.sidecar();
    let refused = tool.scheduler.import_schedule(import(at(-60))).await;
    assert!(
        matches!(refused, Err(ImportError::Call(CallError::ScheduleUnreadable { .. }))),
        "{refused:?}"
    );
    assert_eq!(stored(&account.store, &path).await.unwrap().fields, fields);
}

#[tokio::test(start_paused = true)]
async fn t22_t25_what_is_imported_after_a_removal_is_where_the_schedule_begins_anew() {
    for replace in [true, false] {
        let account = Account::new();
        let (tool, sidecar) = (account.sidecar(), account.sidecar());
        let mut stream = subscribe(&sidecar, spec("@every 600s"));
        let granted = run(&mut stream).await;
        complete(&sidecar, &granted, Report::Succeeded).await;
        drop(stream);
        settle().await;
        let removal = ScheduleChange::Remove { reason: "moved".to_owned(), force: false };
        tool.scheduler.change_schedule(&by_key("nightly"), removal, "ann").await.unwrap();
        let mut import = import(at(-7_200));
        import.take_over.replace = replace;
        assert!(tool.scheduler.import_schedule(import.clone()).await.unwrap().is_new);
        assert!(!tool.scheduler.import_schedule(import).await.unwrap().is_new, "it stands there");
        let mut stream = subscribe(&sidecar, spec("@every 600s"));
        let granted = run(&mut stream).await;
        assert_eq!((granted.told.scheduled_at, granted.told.missed_count), (at(600), 12));
    }
}
