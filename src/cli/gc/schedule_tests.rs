use super::super::Collected;
use super::super::tests::{Bench, DAY, ours};
use super::*;
use crate::schedule::{Attempts, Definition, Intervention, Spec, Subscription};
use crate::store::Write;
use crate::testing::SimClock;
use crate::time::Clock as _;
use crate::timetable::Timetable;

const SECOND: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(30 * 86_400);

fn now(clock: &SimClock) -> UtcSecond {
    UtcSecond(i64::try_from(clock.wall().0 / 1_000).unwrap())
}

/// A schedule of every midnight that is subscribed to now: the simulated clock begins at 08:00.
fn daily(clock: &SimClock) -> Plan {
    let timetable = Timetable::parse("0 0 * * *", "UTC").unwrap();
    let definition = Definition::new(Spec::new(timetable)).unwrap();
    let (path, definition) = (&"leasehold/locks/nightly".parse().unwrap(), &definition);
    let subscription = Subscription { path, definition, is_new: true, runs_at_once: false };
    Plan::subscribed(None, &subscription, None, now(clock)).write.unwrap()
}

/// What a record says when this midnight comes next.
fn waiting_for(plan: &Plan, next: UtcSecond) -> ScheduleRecord {
    ScheduleRecord {
        watermark: UtcSecond(next.0 - 86_400),
        outcome: None,
        next: Some(next),
        plan: plan.version(),
        serial: plan.serial(),
        reset: plan.reset(),
        started: None,
        run: None,
        attempts: Attempts::default(),
        by_hand_done: 0,
        by_hand: Attempts::default(),
        missed: 0,
        missed_since: 0,
        ended: Vec::new(),
    }
}

impl Bench {
    /// A lock of ours that nobody holds, with the schedule's part of its record and its plan.
    async fn scheduled(&self, record: Option<ScheduleRecord>, plan: Option<&str>) -> LockPath {
        let (path, lease_id) = self.take("locks/h/nightly", ours()).await;
        if let Some(record) = record {
            let fields = ours().into_fields(record.into_fields(Default::default()));
            let write = Write { lease_id, if_match: None, fields };
            self.store.write_record(&path, write).await.unwrap();
        }
        self.store.release(&path, lease_id, None).await.unwrap();
        if let Some(plan) = plan {
            self.store
                .write_document(DocumentPath::Plan(path.clone()), plan.to_owned(), None)
                .await
                .unwrap();
        }
        path
    }

    async fn has_plan(&self, path: &LockPath) -> bool {
        read_plan(&self.store, path).await.unwrap().is_some()
    }

    fn set(&self, time: &str) {
        let at: UtcSecond = time.parse().unwrap();
        self.clock.advance(Duration::from_secs(at.0.abs_diff(now(&self.clock).0)));
        assert_eq!(now(&self.clock), at, "the clock does not go back");
    }
}

fn reason(collected: &Collected) -> &str {
    assert_eq!((collected.deleted.len(), collected.kept), (0, 1));
    &collected.spared.first().expect("it was spared").reason
}

#[tokio::test]
async fn t21_a_schedule_keeps_its_lock_for_two_periods_and_the_idle_time_after_its_next_run() {
    let bench = Bench::new();
    let plan = daily(&bench.clock);
    let record = waiting_for(&plan, "2027-02-01T00:00:00Z".parse().unwrap());
    let path = bench.scheduled(Some(record), Some(&plan.to_text())).await;
    // 30 days after the third of February.
    bench.set("2027-03-04T23:59:59Z");
    for dry_run in [true, false] {
        let kept = bench.collect(IDLE, dry_run).await;
        let said = "its schedule was last in use at 2027-02-01T00:00:00Z: it is deleted from 2027-03-05T00:00:00Z on";
        assert_eq!(reason(&kept), said);
    }
    bench.clock.advance(SECOND);
    assert_eq!(bench.collect(IDLE, true).await.deleted.len(), 1);
    assert!(bench.has_plan(&path).await, "a dry run deletes nothing");
    assert_eq!(bench.collect(IDLE, false).await.deleted, [path.to_string()]);
    assert!(!bench.has_plan(&path).await, "the plan goes with its lock");
}

/// Its lock was there before, for something else: the record says nothing of the schedule until that has run.
#[tokio::test]
async fn t21_a_schedule_that_was_just_subscribed_to_keeps_a_lock_that_was_idle_before() {
    let bench = Bench::new();
    let path = bench.scheduled(None, None).await;
    bench.clock.advance(DAY * 60);
    let text = daily(&bench.clock).to_text();
    bench.store.write_document(DocumentPath::Plan(path.clone()), text, None).await.unwrap();
    assert!(
        reason(&bench.collect(IDLE, false).await).starts_with("its schedule was last in use at")
    );
    assert!(bench.has_plan(&path).await);
    bench.clock.advance(DAY * 33);
    assert_eq!(bench.collect(IDLE, false).await.deleted.len(), 1);
}

#[tokio::test]
async fn t21_a_schedule_without_its_plan_keeps_its_lock_for_the_idle_time_after_its_next_run() {
    let bench = Bench::new();
    let record = waiting_for(&daily(&bench.clock), "2027-02-01T00:00:00Z".parse().unwrap());
    bench.scheduled(Some(record), None).await;
    bench.set("2027-03-02T23:59:59Z");
    let kept = bench.collect(IDLE, false).await;
    assert!(reason(&kept).ends_with("from 2027-03-03T00:00:00Z on"), "{:?}", kept.spared);
    bench.clock.advance(SECOND);
    assert_eq!(bench.collect(IDLE, false).await.deleted.len(), 1);
}

#[tokio::test]
async fn t21_what_cannot_be_read_is_kept_and_said() {
    for (field, plan, said) in [
        (None, Some("{"), "plan cannot be read"),
        (Some("soon"), None, "leasehold_schedule_next cannot be read"),
    ] {
        let bench = Bench::new();
        let record = waiting_for(&daily(&bench.clock), now(&bench.clock));
        let path = bench.scheduled(Some(record), plan).await;
        if let Some(value) = field {
            let mut fields = bench.store.read_record(&path).await.unwrap().fields;
            fields.insert("leasehold_schedule_next".to_owned(), value.to_owned());
            let (now, time) = (bench.clock.now(), bench.clock.wall());
            bench.store.locks().write_without_lease(&path, fields, now, time).unwrap();
        }
        bench.clock.advance(DAY * 400);
        let kept = bench.collect(IDLE, false).await;
        assert!(reason(&kept).contains(said), "{:?}", kept.spared);
        bench.store.read_record(&path).await.unwrap();
    }
}

/// A pause outlives the schedule's subscribers: without its plan the schedule would go on when they come
/// back.
#[tokio::test]
async fn t18_a_schedule_that_is_paused_keeps_its_lock() {
    let bench = Bench::new();
    let plan = daily(&bench.clock).pause(now(&bench.clock)).unwrap();
    let record = waiting_for(&plan, now(&bench.clock));
    let path = bench.scheduled(Some(record), Some(&plan.to_text())).await;
    bench.clock.advance(DAY * 400);
    assert!(reason(&bench.collect(IDLE, false).await).contains("paused"));
    let known = read_plan(&bench.store, &path).await.unwrap().unwrap().etag;
    let resumed = plan.resume(now(&bench.clock)).unwrap().to_text();
    bench.store.write_document(DocumentPath::Plan(path), resumed, Some(known)).await.unwrap();
    assert!(
        reason(&bench.collect(IDLE, false).await).starts_with("its schedule was last in use at")
    );
    bench.clock.advance(DAY * 33);
    assert_eq!(bench.collect(IDLE, false).await.deleted.len(), 1);
}

#[tokio::test]
async fn t25_a_schedule_that_was_removed_is_deleted_once_its_subscribers_have_been_told() {
    let bench = Bench::new();
    let by = Intervention {
        at: now(&bench.clock),
        reason: "moved".to_owned(),
        caller: "ann".to_owned(),
    };
    let paused = daily(&bench.clock).pause(now(&bench.clock)).unwrap();
    let plan = paused.remove(by).unwrap();
    let record = waiting_for(&plan, "2029-02-01T00:00:00Z".parse().unwrap());
    bench.scheduled(Some(record), Some(&plan.to_text())).await;
    bench.clock.advance(IDLE - SECOND);
    assert_eq!(bench.collect(IDLE, false).await.deleted.len(), 0);
    bench.clock.advance(2 * SECOND);
    assert_eq!(bench.collect(IDLE, false).await.deleted.len(), 1);
}
