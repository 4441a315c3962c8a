//! Names of locks, and records as a store has them.

use std::collections::BTreeMap;

use leasehold::host_id::{FromHostType, HostIdProvider as _};
use leasehold::lock::{
    Container, FencingToken, HostType, Layout, LockKey, LockMode, LockPath, Namespace, Prefix,
};
use leasehold::record::Record;
use leasehold::text::is_invisible;
use proptest::prelude::*;

use crate::fuzz::cases;

/// Text that is likely to be misread: separators, dots, percent signs, controls, letters of other scripts.
pub(crate) fn nasty() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9./~%\\\\ _:-]{0,40}",
        "(\\.|/|%2e|%2F|~){0,20}",
        "\\PC{0,60}",
        any::<String>(),
        "[a-z]{0,1200}",
    ]
}

fn namespace(layout: Layout) -> Namespace {
    let container = Container::parse("leasehold").unwrap();
    Namespace { container, prefix: Prefix::parse("locks").unwrap(), layout }
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn s19_a_name_is_refused_or_stays_in_its_place(function in nasty(), scope in nasty()) {
        let host_type = HostType::parse("Keeper-A").unwrap();
        let host_id = FromHostType::new(host_type.clone()).provide().unwrap().host_id;
        for mode in [LockMode::Function, LockMode::Listener] {
            let key = match LockKey::new(&function, &scope, mode) {
                Ok(key) => key,
                Err(error) => {
                    prop_assert!(!error.to_string().is_empty());
                    continue;
                }
            };
            for layout in [Layout::Readable, Layout::Hashed, Layout::WebJobs] {
                let namespace = namespace(layout);
                let Ok(path) = namespace.lock_path(&host_id, &host_type, &key) else { continue };
                let place = format!("leasehold/{}", namespace.host_prefix(&host_id));
                prop_assert!(path.as_str().starts_with(&place), "{path}");
                prop_assert!(path.as_str().len() <= 1_088, "{path}");
                let rest = path.as_str().strip_prefix(&place).unwrap_or_default();
                let parts = || rest.split('/');
                prop_assert!(layout == Layout::WebJobs || parts().all(|part| !["", ".", ".."].contains(&part)), "{path}");
                prop_assert!(!rest.contains(is_invisible), "{path}");
                prop_assert_eq!(LockPath::from_parts(&namespace.container, path.name()), path);
            }
        }
    }

    #[test]
    fn records_of_others_are_read_as_far_as_they_can_be(
        fields in proptest::collection::btree_map("(leasehold_[a-z_]{1,12}|[A-Za-z]{1,12})", nasty(), 0..12)
    ) {
        let record = Record::from_fields(&fields);
        let written = record.clone().into_fields(BTreeMap::new());
        prop_assert_eq!(Record::from_fields(&written), record);
        prop_assert!(written.values().all(|value| value.bytes().all(|byte| (0x20..0x7f).contains(&byte))));
    }

    #[test]
    fn tokens_are_numbers_in_their_range_and_nothing_else(number in any::<u64>()) {
        match FencingToken::from_u64(number) {
            Some(token) => prop_assert!(token.value() == number && number > 0 && number < 1 << 53),
            None => prop_assert!(number == 0 || number >= 1 << 53),
        }
    }
}
