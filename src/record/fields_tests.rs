use proptest::prelude::*;

use super::super::checkpoint::{Checkpoint, CheckpointValue, MAX_CHECKPOINT_BYTES};
use super::*;

fn fullest() -> Record {
    let labels = (0..16).map(|n| (format!("key-{n:02}"), "日".repeat(19))).collect();
    Record {
        token: FencingToken::from_u64((1 << 53) - 1),
        token_is_unreadable: false,
        holder: "日".repeat(85),
        host_type: "日".repeat(85),
        function: "日".repeat(341),
        scope: "日".repeat(341),
        mode: "LISTENER".to_owned(),
        acquired_at: Some(UnixMillis(u64::MAX)),
        resting_until: Some(UnixMillis(u64::MAX)),
        resting_for: Some(Duration::from_secs(86_400)),
        handed_on: true,
        lease: Some("0123456789abcdef".to_owned()),
        generation: u64::MAX,
        attempt: "%".repeat(64),
        permits: Some(Permits::MAX),
        sidecar: "日".repeat(10).into(),
        sharing: Sharing {
            priority: Priority::MAX,
            yields: true,
            share: ShareName::new(&"日".repeat(85)).ok(),
        }
        .boxed(),
        reserved: Some(Box::new(Reserved {
            priority: Priority::MAX,
            until: UnixMillis(u64::MAX),
            for_millis: u64::MAX,
        })),
        labels: Labels::new(labels).unwrap(),
        write: "0123456789abcdef".to_owned(),
    }
}

/// The same of a lock that belongs to no share and is reserved for nobody.
fn fullest_alone() -> Record {
    Record { sidecar: Arc::default(), sharing: None, reserved: None, ..fullest() }
}

fn fullest_checkpoint() -> Checkpoint {
    Checkpoint {
        value: CheckpointValue::new(&[0xff; MAX_CHECKPOINT_BYTES]).unwrap(),
        version: (1 << 53) - 1,
        token: FencingToken::from_u64((1 << 53) - 1).unwrap(),
        saved_at: UnixMillis(u64::MAX),
    }
}

fn size(fields: &Fields) -> usize {
    fields.iter().map(|(name, value)| name.len() + value.len()).sum()
}

#[test]
fn the_fullest_record_fits_azures_metadata() {
    let fields = fullest().into_fields(Fields::new());
    assert!(size(&fields) <= MAX_FIELDS, "{} bytes", size(&fields));
    assert!(fields.values().all(|value| value.is_ascii()));
}

#[test]
fn s23_the_fullest_record_fits_with_the_fullest_checkpoint() {
    let checkpoint = fullest_checkpoint();
    let stored = checkpoint.clone().into_fields(Fields::new());
    let fields = fullest().into_fields(stored);
    assert!(size(&fields) <= MAX_FIELDS, "{} bytes", size(&fields));
    let field = |name: &str| fields.get(name).map(String::as_str);
    assert_eq!(Checkpoint::from_lookup(field), Some(checkpoint), "a checkpoint is never cut");
    let record = Record::from_fields(&fields);
    assert_eq!(record.labels, Labels::default(), "labels go first");
    assert_eq!((record.holder, record.host_type), (fullest().holder, fullest().host_type));
    assert_eq!((record.sharing, record.reserved), (fullest().sharing, fullest().reserved));
}

/// As many bytes as a schedule may have (T3), in fields of its names.
fn fullest_schedule(mut fields: Fields) -> Fields {
    let (next, ended) = ("leasehold_schedule_next", "leasehold_schedule_ended");
    let at = "9999-12-30T00:00:00Z";
    let rest = 1_200 - next.len() - at.len() - ended.len();
    fields.insert(next.to_owned(), at.to_owned());
    fields.insert(ended.to_owned(), "x".repeat(rest));
    fields
}

fn of_schedule(fields: &Fields) -> Fields {
    let ours = |name: &&String| name.starts_with(SCHEDULE);
    fields.keys().filter(ours).map(|name| (name.clone(), fields[name].clone())).collect()
}

#[test]
fn t3_the_fullest_record_fits_with_a_schedule_and_the_fullest_checkpoint() {
    let checkpoint = fullest_checkpoint();
    let schedule = fullest_schedule(Fields::new());
    assert_eq!(size(&schedule), 1_200);
    let mut stored = checkpoint.clone().into_fields(schedule.clone());
    stored.insert("FunctionInstance".to_owned(), "x".repeat(36));
    let fields = fullest().into_fields(stored);
    assert!(size(&fields) <= MAX_FIELDS, "{} bytes", size(&fields));
    assert_eq!(of_schedule(&fields), schedule, "a schedule is never cut");
    let field = |name: &str| fields.get(name).map(String::as_str);
    assert_eq!(Checkpoint::from_lookup(field), Some(checkpoint), "a checkpoint is never cut");
    let record = Record::from_fields(&fields);
    assert_eq!(record.labels, Labels::default(), "labels go first");
    assert_eq!((record.token, record.attempt), (fullest().token, fullest().attempt));
}

/// The longest function and scope that a schedule's lock may have are whole, also beside much that is not
/// ours.
#[test]
fn t3_the_holder_is_cut_before_the_name_of_a_schedule() {
    let mut stored = fullest_checkpoint().into_fields(fullest_schedule(Fields::new()));
    stored.insert("theirs".to_owned(), "x".repeat(1_400));
    let (function, scope) = ("日".repeat(64), "日".repeat(21));
    let record = Record { function, scope, ..fullest_alone() };
    let cut = |name: &str| name.starts_with('日') && name.ends_with('~');
    let fields = record.clone().into_fields(stored.clone());
    assert!(size(&fields) <= MAX_FIELDS, "{} bytes", size(&fields));
    let read = Record::from_fields(&fields);
    assert!(cut(&read.holder), "{}", read.holder);
    assert_eq!((&read.function, &read.scope), (&record.function, &record.scope));
    // In a record without a schedule the long names go first, as they always did.
    stored.retain(|name, _| !name.starts_with(SCHEDULE));
    stored.insert("theirs".to_owned(), "x".repeat(2_300));
    let fields = record.clone().into_fields(stored);
    assert!(size(&fields) <= MAX_FIELDS, "{} bytes", size(&fields));
    let read = Record::from_fields(&fields);
    assert_eq!(read.holder, record.holder);
    assert!(cut(&read.function), "{}", read.function);
}

#[test]
fn t3_a_host_type_that_was_cut_is_no_other() {
    let others = Fields::from([("theirs".to_owned(), "x".repeat(6_500))]);
    let fields = fullest_alone().into_fields(others);
    assert!(size(&fields) <= MAX_FIELDS, "{} bytes", size(&fields));
    let record = Record::from_fields(&fields);
    assert!(record.host_type.ends_with('~'), "{}", record.host_type);
    assert!(record.is_of_host_type(&fullest_alone().host_type));
    assert!(!record.is_of_host_type("日本"));
    let whole = Record { host_type: "jobs".to_owned(), ..Record::default() };
    assert!(whole.is_of_host_type("jobs") && !whole.is_of_host_type("jobs-eu"));
}

#[test]
fn t3_a_record_that_fits_is_not_cut_for_its_schedule() {
    let fields = fullest_alone().into_fields(fullest_schedule(Fields::new()));
    let expected = fullest_alone().into_fields(Fields::new());
    let cut = size(&expected) + 1_200 > MAX_FIELDS;
    assert_eq!(fields.contains_key(LABELS), !cut);
    assert_eq!(fields.get(HOLDER_FIELD), expected.get(HOLDER_FIELD));
    assert_eq!(of_schedule(&fields), fullest_schedule(Fields::new()));
}

#[test]
fn t19_a_grant_keeps_the_schedules_fields() {
    let before = fullest_schedule(Fields::new());
    let after = Record { generation: 1, ..Record::default() }.into_fields(before.clone());
    assert_eq!(after, before);
    assert!(RECORD_FIELDS.iter().all(|name| !name.starts_with(SCHEDULE)));
}

#[test]
fn t3_a_share_goes_where_nothing_else_helps() {
    let others = Fields::from([("theirs".to_owned(), "x".repeat(6_500))]);
    let fields = fullest().into_fields(others);
    assert!(size(&fields) <= MAX_FIELDS, "{} bytes", size(&fields));
    let sharing = Record::from_fields(&fields).sharing.unwrap();
    assert_eq!((sharing.share, sharing.priority, sharing.yields), (None, Priority::MAX, true));
}

#[test]
fn names_are_cut_where_nothing_else_helps() {
    let others = Fields::from([("FunctionInstance".to_owned(), "x".repeat(5_000))]);
    let fields = fullest().into_fields(others);
    assert!(size(&fields) <= MAX_FIELDS, "{} bytes", size(&fields));
    assert_eq!(fields.get("FunctionInstance").map(String::len), Some(5_000));
    assert!(fields.get(FUNCTION).is_some_and(|name| name.ends_with('~')));
}

#[test]
fn fields_of_others_are_kept_and_ours_replaced() {
    let before = Fields::from([
        ("FunctionInstance".to_owned(), "guid".to_owned()),
        (HOLDER_FIELD.to_owned(), "old".to_owned()),
        (RESTING.to_owned(), "5".to_owned()),
    ]);
    let record = Record { holder: "new".to_owned(), ..Record::default() };
    let after = record.into_fields(before);
    assert_eq!(after.get("FunctionInstance").map(String::as_str), Some("guid"));
    assert_eq!(after.get(HOLDER_FIELD).map(String::as_str), Some("new"));
    assert_eq!(after.get(RESTING), None);
}

#[test]
fn s5_a_token_that_cannot_be_read_is_not_taken_for_none() {
    for text in ["", "0", "x", "-1", "9007199254740992", "1e3", " 4096"] {
        let fields = Fields::from([(TOKEN.to_owned(), text.to_owned())]);
        let record = Record::from_fields(&fields);
        assert_eq!((record.token, record.token_is_unreadable), (None, true), "{text:?}");
    }
    let none = Record::from_fields(&Fields::new());
    assert_eq!((none.token, none.token_is_unreadable), (None, false));
}

#[test]
fn s36_the_generation_of_another_lease_does_not_count() {
    let record = Record {
        lease: Some("aa".to_owned()),
        generation: 7,
        attempt: "try/1".to_owned(),
        ..Record::default()
    };
    let mut fields = record.clone().into_fields(Fields::new());
    assert_eq!(Record::from_fields(&fields), record);
    // Somebody who does not know these fields has acquired the lock since, and kept them.
    fields.insert(LEASE.to_owned(), "bb".to_owned());
    let later = Record::from_fields(&fields);
    assert_eq!((later.generation, later.attempt.as_str()), (0, ""));
}

#[test]
fn s36_what_an_earlier_holder_said_of_itself_speaks_for_no_later_one() {
    let Record { sidecar, sharing, reserved, .. } = fullest();
    let lease = Some("aa".to_owned());
    let record = Record { lease, sidecar, sharing, reserved, ..Record::default() };
    let mut fields = record.clone().into_fields(Fields::new());
    assert_eq!(Record::from_fields(&fields), record);
    fields.insert(LEASE.to_owned(), "bb".to_owned());
    let later = Record::from_fields(&fields);
    assert_eq!((later.sidecar.as_ref(), later.sharing, later.reserved), ("", None, None));
}

#[test]
fn a_record_names_the_key_of_its_lock() {
    let key = LockKey::new("Invoices", "eu", crate::lock::LockMode::Listener).unwrap();
    let record = Record::for_key(&key);
    let named = (record.function.as_str(), record.scope.as_str(), record.mode.as_str());
    assert_eq!(named, ("Invoices", "eu", "LISTENER"));
}

#[test]
fn s23_a_grant_keeps_the_checkpoint() {
    let before = Fields::from([("leasehold_checkpoint".to_owned(), "9.7.5.YQ".to_owned())]);
    let after = Record { generation: 1, ..Record::default() }.into_fields(before.clone());
    assert_eq!(after, before);
}

#[test]
fn what_a_record_does_not_say_is_not_written() {
    let record = Record { lease: Some("aa".to_owned()), ..Record::default() };
    let fields = record.into_fields(Fields::new());
    assert_eq!(fields, Fields::from([(LEASE.to_owned(), "aa".to_owned())]));
}

fn label() -> impl Strategy<Value = String> {
    "\\PC{0,20}".prop_map(|text| text.replace(crate::text::is_invisible, ""))
}

proptest! {
    #[test]
    fn a_record_reads_back_as_it_was_written(
        holder in "\\PC{0,60}", host_type in "\\PC{1,60}", function in "\\PC{0,100}", token in 1_u64..1 << 53,
        labels in prop::collection::btree_map("[a-z./_-]{1,9}", label(), 0..5),
        handed_on: bool,
    ) {
        let record = Record {
            token: FencingToken::from_u64(token), holder, host_type, function,
            handed_on, labels: Labels::new(labels).unwrap(), ..Record::default()
        };
        prop_assert_eq!(Record::from_fields(&record.clone().into_fields(Fields::new())), record);
    }

    #[test]
    fn any_fields_can_be_read(fields in prop::collection::btree_map("leasehold_[a-z]{4,9}", ".*", 0..6)) {
        let _ = Record::from_fields(&fields);
    }
}

#[test]
fn s29_s36_the_permits_of_another_lease_do_not_count() {
    let permits = Permits::new(3).ok();
    let lease = Some("aa".to_owned());
    let record = Record { lease, permits, ..Record::default() };
    let mut fields = record.clone().into_fields(Fields::new());
    assert_eq!(Record::from_fields(&fields), record);
    fields.insert("leasehold_permits".to_owned(), "aa.33".to_owned());
    assert_eq!(Record::from_fields(&fields).permits, None);
    fields.insert("leasehold_permits".to_owned(), "aa.3".to_owned());
    fields.insert("leasehold_lease".to_owned(), "bb".to_owned());
    assert_eq!(Record::from_fields(&fields).permits, None);
}

#[test]
fn s36_a_record_that_just_fits_is_left_as_it_is() {
    let mut fields = Fields::new();
    fields.insert(LABELS.to_owned(), "team=billing".to_owned());
    fields.insert(HOLDER_FIELD.to_owned(), "h".repeat(300));
    fields.insert(SIDECAR.to_owned(), "sidecar".to_owned());
    let size: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
    fields.insert("pad".to_owned(), "p".repeat(MAX_FIELDS - size - "pad".len()));
    let before = fields.clone();
    fit(&mut fields, true);
    assert_eq!(fields, before);
    fields.insert("pads".to_owned(), String::new());
    fit(&mut fields, true);
    assert!(!fields.contains_key(LABELS), "labels go first");
    assert_eq!(fields.get(HOLDER_FIELD), before.get(HOLDER_FIELD));
}

#[test]
fn s33_a_priority_that_nobody_gave_is_not_stored() {
    let sharing = |priority| Sharing { priority, yields: true, share: None }.boxed();
    let stored = |priority| {
        let lease = Some("0123456789abcdef".to_owned());
        let record = Record { sharing: sharing(priority), lease, ..Record::default() };
        record.into_fields(Fields::new()).contains_key(PRIORITY)
    };
    assert!(!stored(Priority::NONE) && stored(Priority::MAX));
}

#[test]
fn t22_a_stranger_has_nothing_of_the_last_holder() {
    let mut fields = fullest().into_fields(Fields::new());
    let before = fields.clone();
    held_by_stranger(&mut fields, "a WebJobs host");
    let record = Record::from_fields(&fields);
    assert_eq!((record.holder.as_str(), record.host_type.as_str()), ("a WebJobs host", ""));
    assert!(record.sharing.is_none() && record.acquired_at.is_none());
    assert_eq!(fields.get(TOKEN), before.get(TOKEN));
}

#[test]
fn s34_the_share_is_that_of_the_holders_place_among_others() {
    let share = ShareName::new("workers").unwrap();
    let sharing = Sharing { share: Some(share.clone()), ..Sharing::default() }.boxed();
    assert_eq!(Record { sharing, ..Record::default() }.share(), Some(&share));
    assert_eq!(Record::default().share(), None);
}

#[test]
fn t3_hosts_of_dotnet_are_shown_the_holder_where_there_is_one() {
    let mut fields =
        Record { holder: "a pod".to_owned(), ..Record::default() }.into_fields(Fields::new());
    show_holder(&mut fields);
    assert_eq!(fields.get(FUNCTION_INSTANCE), fields.get(HOLDER_FIELD));
    let mut nobodys = Fields::new();
    show_holder(&mut nobodys);
    assert_eq!(nobodys, Fields::new());
}
