//! What a schedule may be (T3, T9 to T13), and which definition is in force (T16).

use leasehold::lock::{LockKey, LockMode};
use leasehold::schedule::*;

use crate::schedule::rig::{Rig, at, plan_of, scheduled, seconds, spec};

fn refused(change: impl FnOnce(&mut Spec)) -> String {
    let mut spec = spec("0 * * * *");
    change(&mut spec);
    let error = Definition::new(spec).unwrap_err();
    format!("{}: {error}", error.field())
}

#[test]
fn t9_t11_t13_wrong_values_are_refused_with_the_field_the_value_and_the_range() {
    let said = [
        refused(|spec| spec.catch_up = CatchUp::All(101)),
        refused(|spec| spec.catch_up = CatchUp::All(0)),
        refused(|spec| spec.max_attempts = Some(0)),
        refused(|spec| spec.grace = Some(seconds(39))),
        refused(|spec| spec.backoff = Some(seconds(601))),
        refused(|spec| spec.run_timeout = RunTimeout::Duration(seconds(0))),
        refused(|spec| spec.spread = std::time::Duration::from_millis(1_500)),
        refused(|spec| spec.takeover_check = Some(seconds(0))),
        refused(|spec| spec.lease_duration = Some(seconds(61))),
        refused(|spec| spec.catch_up_window = Some(seconds(59))),
    ];
    assert_eq!(
        said,
        [
            "catch_up_max: catch_up_max is 101; 1 to 100 is allowed",
            "catch_up_max: catch_up_max is 0; 1 to 100 is allowed",
            "max_attempts: max_attempts is 0; 1 to 100 is allowed",
            "grace: grace is 39s; a whole number of seconds from 40 s to 604800 s is allowed",
            "backoff: backoff is 601s; a whole number of seconds from 1 s to 600 s is allowed",
            "run_timeout: run_timeout is 0ns; a whole number of seconds from 1 s to 31622400 s is allowed",
            "spread: spread is 1.5s; a whole number of seconds from 0 s to 86400 s is allowed",
            "takeover_check: takeover_check is 0ns; a whole number of seconds from 1 s to 600 s is allowed",
            "lease_duration: lease_duration is 61s; a whole number of seconds from 15 s to 60 s is allowed",
            "catch_up_window: catch_up_window is 59s; a whole number of seconds from 60 s to 31622400 s is allowed",
        ]
    );
}

#[test]
fn t3_function_and_scope_have_256_bytes_together() {
    let key = |scope: usize| LockKey::new("f", &"s".repeat(scope), LockMode::Function).unwrap();
    assert_eq!(check_key(&key(255)), Ok(()));
    assert_eq!(check_key(&key(256)), Err(DefinitionError::Key { bytes: 257 }));
}

#[test]
fn t16_equal_definitions_have_one_hash() {
    let hash = |spec| Definition::new(spec).unwrap().hash();
    let mut same = spec("0 */1 * * *");
    same.revision = 7;
    assert_eq!(hash(spec("@hourly")), hash(same));
    let mut other = spec("@hourly");
    other.overlap = Overlap::Skip;
    assert_ne!(hash(spec("@hourly")), hash(other));
    // Every version of this program must compute the same.
    assert_eq!(hash(spec("@hourly")), "8c806781d199b5502fb7ee9ae79d4597");
}

fn definition(expression: &str, revision: u64) -> Definition {
    Definition::new(Spec { revision, ..spec(expression) }).unwrap()
}

#[test]
fn t16_the_higher_revision_wins_and_of_equal_ones_the_later_new_subscriber() {
    // stored revision, given revision, same definition, new subscriber; written, in force, conflict
    let cases = [
        (1, 2, false, true, (true, true, false)),
        (1, 2, false, false, (true, true, false)),
        (2, 1, false, true, (false, false, false)),
        (1, 1, false, true, (true, true, true)),
        (1, 1, false, false, (false, false, true)),
        (1, 1, true, true, (false, true, false)),
        (1, 0, false, true, (false, false, false)),
        (0, 0, false, true, (true, true, true)),
        (0, 1, false, false, (true, true, false)),
        (1, 2, true, false, (true, true, false)),
        (2, 1, true, true, (false, true, false)),
    ];
    for (stored, given, same, is_new, expected) in cases {
        let stored = definition("0 * * * *", stored);
        let plan = plan_of(None, &stored, true, None, at("00:30:00")).write.unwrap();
        let given = definition(if same { "0 * * * *" } else { "5 * * * *" }, given);
        let got = plan_of(Some(&plan), &given, is_new, None, at("00:40:00"));
        let (written, in_force) = (got.write.is_some(), got.is_in_force);
        assert_eq!((written, in_force, got.conflict), expected, "{stored:?} {given:?} {is_new}");
        if let Some(write) = got.write {
            assert_eq!(write.definition(), &given);
            // The revision alone changes nothing of what is due.
            assert_eq!(write.version() == plan.version(), same);
        }
    }
}

impl Rig {
    fn redefine_at(&mut self, time: &str, given: &Definition) {
        self.now = at(time);
        let (plan, record) = (Some(&self.plan), self.record.as_ref());
        self.plan = plan_of(plan, given, true, record, self.now).write.unwrap();
    }
}

#[test]
fn t16_a_change_between_occurrences_takes_effect_at_once() {
    let mut rig = Rig::hourly();
    rig.run_at("01:00:00");
    rig.redefine_at("01:10:00", &definition("30 * * * *", 1));
    assert_eq!(rig.look_at("01:10:00"), Decision::Wait(Some(at("01:30:00"))));
    // The old definition's 02:00 never comes.
    let told = rig.start_at("02:00:00").unwrap();
    assert_eq!((told.run_id.occasion, told.missed_count), (scheduled("01:30:00"), 0));
}

#[test]
fn t16_what_is_due_under_the_old_definition_is_final_first() {
    let mut rig = Rig::hourly();
    rig.redefine_at("01:00:05", &definition("*/10 * * * *", 1));
    let told = rig.start_at("01:25:00").unwrap();
    assert_eq!(told.run_id.occasion, scheduled("01:00:00"));
    assert_eq!(rig.record().next, Some(at("01:00:00")));
    rig.report_at("01:26:00", &told, Report::Succeeded);
    // No catch-up across definitions: 01:10 and 01:20 are not run.
    assert_eq!((rig.record().next, rig.record().plan.number), (Some(at("01:30:00")), 2));
    assert_eq!(rig.record().watermark, at("01:00:00"));
}

#[test]
fn t16_a_definition_that_came_during_a_run_waits_for_its_end() {
    let mut rig = Rig::hourly();
    let told = rig.start_at("01:00:00").unwrap();
    rig.redefine_at("01:05:00", &definition("*/10 * * * *", 1));
    assert_eq!(look(&rig.view(Lease::Elsewhere)).decision, Decision::Busy);
    assert_eq!(rig.report_at("01:31:00", &told, Report::Failed), Some(at("01:31:10")));
    assert_eq!(rig.look_at("01:31:05"), Decision::RetryLater(at("01:31:10")));
    assert_eq!(rig.run_at("01:31:10").attempt, 2);
    assert_eq!(rig.record().next, Some(at("01:40:00")));
}

#[test]
fn t16_a_deleted_plan_made_again_changes_nothing() {
    let mut rig = Rig::hourly();
    rig.run_at("01:00:00");
    let old = rig.plan.version();
    let again = definition("0 * * * *", 0);
    rig.plan = plan_of(None, &again, true, rig.record.as_ref(), at("02:30:00")).write.unwrap();
    assert_eq!(rig.plan.version(), old);
    assert_eq!(rig.look_at("02:30:00"), Decision::Run(scheduled("02:00:00")));
}

#[test]
fn t16_what_is_due_stays_due_through_several_changes() {
    let mut rig = Rig::hourly();
    rig.run_at("01:00:00");
    rig.redefine_at("01:10:00", &definition("30 * * * *", 1));
    rig.redefine_at("01:40:00", &definition("45 * * * *", 2));
    rig.redefine_at("01:50:00", &definition("50 5 * * *", 3));
    assert_eq!(rig.run_at("01:51:00").run_id.occasion, scheduled("01:30:00"));
    assert_eq!(rig.look_at("01:52:00"), Decision::Wait(Some(at("05:50:00"))));
}

#[test]
fn t9_t16_what_fell_due_during_a_run_by_hand_is_counted_when_the_timetable_changes() {
    let mut rig = Rig::hourly();
    rig.run_at("01:00:00");
    rig.plan =
        rig.plan.trigger("again", rig.record.as_ref(), at("01:10:00")).unwrap().write.unwrap();
    let by_hand = rig.start_at("01:10:00").unwrap();
    rig.redefine_at("03:20:00", &definition("30 * * * *", 1));
    rig.report_at("03:25:00", &by_hand, Report::Succeeded);
    assert_eq!(rig.run_at("03:26:00").run_id.occasion, scheduled("03:00:00"));
    assert_eq!(rig.record().missed, 1, "02:00");
}

/// A job that overruns its hour, and whose definition changes meanwhile: at 02:00 the next one was due.
fn overrun() -> (Rig, Told) {
    let mut rig = Rig::with("0 * * * *", |spec| {
        spec.run_timeout = RunTimeout::Duration(seconds(3 * 3_600));
    });
    let told = rig.start_at("01:00:00").unwrap();
    (rig, told)
}

#[test]
fn t16_what_fell_due_in_a_run_before_the_change_is_run_though_that_run_ends_under_the_new_one() {
    for how in [Report::Returned, Report::Failed, Report::Succeeded] {
        let (mut rig, told) = overrun();
        rig.redefine_at("02:10:00", &definition("30 * * * *", 2));
        rig.report_at("02:12:00", &told, how);
        if how != Report::Succeeded {
            assert_eq!(rig.run_at("02:40:00").run_id.occasion, scheduled("01:00:00"), "{how:?}");
        }
        assert_eq!(rig.look_at("02:41:00"), Decision::Run(scheduled("02:00:00")), "{how:?}");
        assert_eq!(rig.run_at("02:41:00").missed_count, 0);
        assert_eq!((rig.record().next, rig.record().missed), (Some(at("03:30:00")), 0), "{how:?}");
    }
}

#[test]
fn t16_what_was_due_before_a_change_stays_due_through_another_during_the_run() {
    let (mut rig, told) = overrun();
    rig.redefine_at("02:10:00", &definition("30 * * * *", 2));
    // Its 02:30 has never been in force.
    rig.redefine_at("02:50:00", &definition("45 * * * *", 3));
    rig.report_at("02:55:00", &told, Report::Succeeded);
    assert_eq!(rig.run_at("02:56:00").run_id.occasion, scheduled("02:00:00"));
    assert_eq!((rig.record().next, rig.record().missed), (Some(at("03:45:00")), 0));
}

#[test]
fn t16_attempts_that_end_with_the_next_due_leave_what_was_due_before_the_change() {
    let (mut rig, told) = overrun();
    rig.report_at("01:10:00", &told, Report::Failed);
    rig.redefine_at("02:10:00", &definition("30 * * * *", 2));
    let told = rig.start_at("02:11:00").unwrap();
    rig.report_at("02:12:00", &told, Report::FailedFinal);
    assert_eq!(rig.run_at("02:13:00").run_id.occasion, scheduled("02:00:00"));
    assert_eq!(rig.record().missed, 0);
}
