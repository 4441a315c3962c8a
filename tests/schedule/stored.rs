//! What is stored reads back, fits, and is refused when it is broken (T3, T8).

use std::time::Duration;

use proptest::prelude::*;

use leasehold::lock::FencingToken;
use leasehold::record::{
    Checkpoint, CheckpointValue, Fields, Labels, MAX_CHECKPOINT_BYTES, Record,
};
use leasehold::schedule::*;
use leasehold::time::UnixMillis;
use leasehold::timetable::UtcSecond;

use crate::schedule::rig::{Rig, at, path, scheduled};

fn token() -> FencingToken {
    FencingToken::from_u64((1 << 53) - 1).unwrap()
}

fn by_hand() -> Occasion {
    Occasion::ByHand { number: u64::MAX, request_id: "x".repeat(64) }
}

fn fullest() -> ScheduleRecord {
    let last = at("9999-12-30T00:00:00Z");
    let attempts = Attempts { failures: 100, returned: 10, withdrawn: 10, retry_at: Some(last) };
    let attempt = 100;
    let run = Run {
        occasion: by_hand(),
        attempt,
        token: token(),
        started: last,
        deadline: Some(last),
        stop_grace: Duration::from_secs(3_600),
    };
    let ended =
        Ended { occasion: by_hand(), outcome: Outcome::FailedFinal, attempt, token: Some(token()) };
    ScheduleRecord {
        watermark: last,
        outcome: Some(Outcome::FailedFinal),
        next: Some(last),
        plan: PlanVersion { number: u64::MAX, hash: "f".repeat(32) },
        serial: u64::MAX,
        reset: u64::MAX,
        started: Some(last),
        run: Some(run),
        attempts,
        by_hand_done: u64::MAX,
        by_hand: attempts,
        missed: u64::MAX,
        missed_since: u64::MAX,
        ended: vec![ended; 16],
    }
}

fn size(fields: &Fields) -> usize {
    fields.iter().map(|(name, value)| name.len() + value.len()).sum()
}

#[test]
fn t3_the_fullest_record_has_1200_bytes_and_keeps_some_of_what_ended() {
    let fields = fullest().into_fields(Fields::new());
    assert!(size(&fields) <= MAX_RECORD_BYTES, "{}", size(&fields));
    let read = ScheduleRecord::from_fields(&fields).unwrap().unwrap();
    assert!(read.ended.len() >= 2, "{}", read.ended.len());
    assert_eq!(ScheduleRecord { ended: fullest().ended, ..read }, fullest());
    // Azure's metadata: names are identifiers, values printable ASCII without spaces at the ends.
    for (name, value) in &fields {
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
        assert!(value.bytes().all(|b| b.is_ascii_graphic()), "{value}");
    }
}

/// Azure's limit. Some of its front ends count more than names and values.
#[test]
fn t3_the_fullest_schedule_checkpoint_and_grant_fit_8192_bytes_and_the_first_two_are_never_cut() {
    let checkpoint = Checkpoint {
        value: CheckpointValue::new(&[0xff; MAX_CHECKPOINT_BYTES]).unwrap(),
        version: token().value(),
        token: token(),
        saved_at: UnixMillis(u64::MAX),
    };
    let labels = (0..16).map(|n| (format!("key-{n:02}"), "日".repeat(19))).collect();
    let grant = Record {
        token: Some(token()),
        holder: "日".repeat(85),
        host_type: "日".repeat(85),
        function: "日".repeat(64),
        scope: "日".repeat(21),
        mode: "LISTENER".to_owned(),
        acquired_at: Some(UnixMillis(u64::MAX)),
        resting_until: Some(UnixMillis(u64::MAX)),
        lease: Some("0123456789abcdef".to_owned()),
        generation: u64::MAX,
        attempt: "%".repeat(64),
        labels: Labels::new(labels).unwrap(),
        write: "0123456789abcdef".to_owned(),
        ..Record::default()
    };
    let schedule = fullest().into_fields(Fields::new());
    let fields = grant.into_fields(checkpoint.clone().into_fields(schedule.clone()));
    assert!(size(&fields) <= 8_192 - 100, "{}", size(&fields));
    let read = ScheduleRecord::from_fields(&fields).unwrap();
    assert_eq!(read, ScheduleRecord::from_fields(&schedule).unwrap());
    let field = |name: &str| fields.get(name).map(String::as_str);
    assert_eq!(Checkpoint::from_lookup(field), Some(checkpoint));
    assert_eq!(Record::from_fields(&fields).token, Some(token()));
}

#[test]
fn t3_a_person_reads_the_next_and_the_last_time_and_fields_of_others_stay() {
    let mut rig = Rig::hourly();
    rig.run_at("01:00:00");
    let others = Fields::from([("leasehold_token".to_owned(), "7".to_owned())]);
    let fields = rig.record().clone().into_fields(others);
    let field = |name: &str| fields.get(name).unwrap().as_str();
    assert_eq!(field("leasehold_schedule_next"), "2026-01-05T02:00:00Z");
    assert_eq!(
        field("leasehold_schedule_last"),
        "2026-01-05T01:00:00Z/SUCCEEDED/2026-01-05T01:00:00Z"
    );
    assert_eq!(field("leasehold_token"), "7");
}

#[test]
fn t2_a_broken_record_is_an_error_and_never_taken_for_none() {
    let whole = fullest().into_fields(Fields::new());
    assert_eq!(ScheduleRecord::from_fields(&Fields::new()), Ok(None));
    for name in whole.keys() {
        for broken in ["", "x", "1/2", "2026-01-05T01:00:00Z/DONE"] {
            let mut fields = whole.clone();
            fields.insert(name.clone(), broken.to_owned());
            let error = ScheduleRecord::from_fields(&fields).unwrap_err();
            // Two numbers are a count of what was missed, and a version.
            assert_eq!(error.field, name, "{broken:?}");
            assert!(error.to_string().contains(broken));
            if name.ends_with("missed") || name.ends_with("plan") {
                break;
            }
        }
    }
    let mut fields = whole;
    fields.remove("leasehold_schedule_last");
    assert!(ScheduleRecord::from_fields(&fields).is_err());
}

#[test]
fn t3_a_plan_is_read_by_people_and_keeps_what_a_newer_version_added() {
    let mut rig = Rig::hourly();
    rig.plan = rig.plan.trigger("r1", None, at("00:31:00")).unwrap().write.unwrap();
    let text = rig.plan.to_text();
    for line in [
        "\"expression\": \"0 * * * *\"",
        "\"time_zone\": \"UTC\"",
        "\"next\": \"2026-01-05T01:00:00Z\"",
        "\"request_id\": \"r1\"",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    assert_eq!(Plan::from_text(&text).unwrap(), rig.plan);
    let newer = text.replacen('{', "{ \"calendar\": [\"DK\"],", 1);
    let newer = newer.replace("\"expression\"", "\"holidays\": true, \"expression\"");
    let read = Plan::from_text(&newer).unwrap();
    assert_eq!(read.version(), rig.plan.version());
    let written = read.pause(at("00:40:00")).unwrap().to_text();
    assert!(written.contains("\"calendar\"") && written.contains("\"holidays\""), "{written}");
}

#[test]
fn t3_a_broken_plan_is_a_clear_error() {
    let text = Rig::hourly().plan.to_text();
    let broken = [
        (String::new(), "cannot be read"),
        ("[]".to_owned(), "cannot be read"),
        (text.replace("0 * * * *", "99 * * * *"), "wrong definition"),
        (text.replace("0 * * * *", "5 * * * *"), "it was edited"),
        (text.replace("\"since\": \"2026", "\"since\": \"abcd"), "cannot be read"),
        (text.replace("\"LATEST\"", "\"NEWEST\""), "wrong definition"),
        (text.replace("\"requests\": []", "\"requests\": [{\"number\": 1, \"request_id\": \"a\", \"at\": \"2026-01-05T01:00:00Z\"}]"), "wrong requests"),
        (format!("{text}{}", " ".repeat(MAX_PLAN_BYTES)), "at most 16384"),
    ];
    for (text, said) in broken {
        let error = Plan::from_text(&text).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn t3_the_fullest_plan_is_far_below_its_bound() {
    let mut rig = Rig::hourly();
    for number in 0..8 {
        let id = format!("{number}{}", "x".repeat(63));
        rig.plan = rig.plan.trigger(&id, None, at("00:31:00")).unwrap().write.unwrap();
    }
    assert!(rig.plan.to_text().len() < MAX_PLAN_BYTES / 4, "{}", rig.plan.to_text().len());
}

#[test]
fn t8_a_run_id_has_all_that_another_sidecar_needs() {
    for occasion in [scheduled("01:00:00"), by_hand()] {
        let id = RunId { path: path(), occasion, attempt: 3, token: token() };
        assert_eq!(id.to_string().parse(), Ok(id));
    }
}

#[test]
fn t8_garbage_is_no_run_id() {
    let id = RunId { path: path(), occasion: scheduled("01:00:00"), attempt: 3, token: token() };
    let text = id.to_string();
    let refused = |text: &str| text.parse::<RunId>().unwrap_err().to_string();
    for index in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        if let Some(byte) = bytes.get_mut(index) {
            *byte = if *byte == b'A' { b'B' } else { b'A' };
        }
        refused(&String::from_utf8(bytes).unwrap());
        refused(text.get(..index).unwrap());
    }
    for wrong in ["", "x", "run 7", "ü", &"A".repeat(2_049)] {
        assert!(refused(wrong).contains("send the text that came with the run"), "{wrong}");
    }
}

fn instants() -> impl Strategy<Value = UtcSecond> {
    (0_i64..253_402_128_000).prop_map(UtcSecond)
}

proptest! {
    #[test]
    fn t3_a_record_reads_back_as_it_was_written(
        watermark in instants(), next in proptest::option::of(instants()), started in instants(),
        failures in 1_u32..100, retry_at in proptest::option::of(instants()), missed in 0_u64..9,
    ) {
        let run = Run {
            occasion: Occasion::Scheduled(started), attempt: failures, token: token(), started, deadline: retry_at,
            stop_grace: Duration::from_secs(missed),
        };
        let ended = Ended { occasion: Occasion::Scheduled(watermark), outcome: Outcome::Skipped, attempt: 0, token: None };
        let attempts = Attempts { failures, returned: 0, withdrawn: 0, retry_at };
        let record = ScheduleRecord {
            watermark, next, run: Some(run), attempts, ended: vec![ended], missed, missed_since: 0, ..fullest()
        };
        let fields = record.clone().into_fields(Fields::new());
        prop_assert_eq!(ScheduleRecord::from_fields(&fields), Ok(Some(record)));
    }

    #[test]
    fn t3_any_fields_and_any_plan_can_be_read(
        values in prop::collection::vec(".{0,40}", 8), text in ".{0,80}",
    ) {
        let names = fullest().into_fields(Fields::new()).into_keys();
        let _ = ScheduleRecord::from_fields(&names.zip(values).collect());
        let _ = Plan::from_text(&text);
        let _ = text.parse::<RunId>();
    }
}
