use proptest::prelude::*;

use super::*;
use crate::lock::Permit;
use crate::text::is_invisible;

fn key(function: &str, scope: &str, mode: LockMode) -> LockKey {
    LockKey::new(function, scope, mode).unwrap()
}

fn path_in(
    layout: Layout,
    function: &str,
    scope: &str,
    mode: LockMode,
) -> Result<LockPath, PathError> {
    let namespace = Namespace {
        container: Container::parse("leasehold").unwrap(),
        prefix: Prefix::parse("locks").unwrap(),
        layout,
    };
    let host_id = HostId::parse("739df1faf6c08e78a883736d006f2964").unwrap();
    let host_type = HostType::parse("Keeper-A").unwrap();
    namespace.lock_path(&host_id, &host_type, &key(function, scope, mode))
}

fn name_in(layout: Layout, function: &str, scope: &str, mode: LockMode) -> String {
    let path = path_in(layout, function, scope, mode).unwrap();
    path.name().strip_prefix("locks/739df1faf6c08e78a883736d006f2964/").unwrap().to_owned()
}

fn readable(function: &str, scope: &str) -> String {
    name_in(Layout::Readable, function, scope, LockMode::Function)
}

#[test]
fn a_path_is_container_prefix_host_id_and_name() {
    let path = path_in(Layout::Readable, "Job.Run", "", LockMode::Function).unwrap();
    let expected = "leasehold/locks/739df1faf6c08e78a883736d006f2964/Job.Run/~/FUNCTION";
    assert_eq!((path.to_string().as_str(), path.as_str()), (expected, expected));
    assert_eq!(path.container(), "leasehold");
    assert_eq!(path.to_string().parse::<LockPath>(), Ok(path));
}

#[test]
fn readable_names_encode_each_part() {
    assert_eq!(readable("Job", "a/b c"), "Job/a%2Fb%20c/FUNCTION");
    assert_eq!(readable("", "Zürich~"), "~/Z%C3%BCrich%7E/FUNCTION");
    assert_eq!(readable(".", ".."), "%2E/.%2E/FUNCTION");
    assert_eq!(readable("a.", "a.b"), "a%2E/a.b/FUNCTION");
    assert_eq!(name_in(Layout::Readable, "f", "", LockMode::Listener), "f/~/LISTENER");
}

#[test]
fn readable_names_of_long_parts_are_cut_and_told_apart_by_their_hash() {
    let kept = "x".repeat(200);
    assert_eq!(readable(&kept, ""), format!("{kept}/~/FUNCTION"));
    let long = "x".repeat(201);
    let name = readable(&long, "");
    let part = name.split('/').next().unwrap();
    assert_eq!(part.len(), 150 + 1 + 32);
    assert_ne!(name, readable(&"x".repeat(202), ""));
    // 3 bytes an escape, after one letter: the cut at 150 would split the fiftieth escape.
    let part = readable(&format!("x{}", "/".repeat(100)), "");
    assert!(part.starts_with(&format!("x{}~", "%2F".repeat(49))), "{part}");
}

#[test]
fn hashed_names_are_the_digest_of_each_part_preceded_by_its_length() {
    let name = name_in(Layout::Hashed, "Job", "s", LockMode::Function);
    // By Python's hashlib over each length as eight bytes, big-endian, and the part.
    assert_eq!(name, "fdbb3f27255b1fca7a4761c6311f6fe6c1acf10bbe05df9f43660c1c6f064fbc");
}

#[test]
fn webjobs_names_are_raw() {
    let name = |function, scope, mode| name_in(Layout::WebJobs, function, scope, mode);
    assert_eq!(
        name("Keeper.ScheduledJob.Run", "", LockMode::Listener),
        "Keeper.ScheduledJob.Run.Listener"
    );
    assert_eq!(name("A.B+C.Run", "scope", LockMode::Function), "A.B+C.Run.scope");
    assert_eq!(name("", "testscope", LockMode::Function), "testscope");
    assert_eq!(name("A", "B", LockMode::Function), name("A.B", "", LockMode::Function));
}

#[test]
fn s19_webjobs_names_that_are_no_blob_names_are_refused() {
    for (function, scope) in
        [("a/../b", ""), ("..", ""), ("", "a."), ("/a", ""), ("a/", ""), ("a//b", ""), ("a\\b", "")]
    {
        let refused = path_in(Layout::WebJobs, function, scope, LockMode::Function);
        assert!(
            matches!(refused, Err(PathError::Name { .. })),
            "{function:?} {scope:?} {refused:?}"
        );
    }
    let long = path_in(Layout::WebJobs, &"f".repeat(1_024), "s", LockMode::Function);
    assert!(matches!(long, Err(PathError::Name { .. })));
    let deep = path_in(Layout::WebJobs, &format!("{}a", "a/".repeat(260)), "", LockMode::Function);
    assert!(matches!(deep, Err(PathError::Name { .. })));
}

#[test]
fn s19_locks_of_the_webjobs_platform_are_refused() {
    for (function, scope, mode) in [
        ("host", "", LockMode::Function),
        ("", "host", LockMode::Function),
        ("WebJobs.Internal.Blobs", "", LockMode::Listener),
        ("WebJobs.Internal.Blobs", "Listener", LockMode::Function),
    ] {
        let refused = path_in(Layout::WebJobs, function, scope, mode);
        assert!(matches!(refused, Err(PathError::Reserved { .. })), "{refused:?}");
        assert!(path_in(Layout::Readable, function, scope, mode).is_ok());
    }
}

#[test]
fn s19_containers_and_prefixes_have_rules() {
    for good in ["abc", "azure-webjobs-hosts", "0-9"] {
        assert!(Container::parse(good).is_ok(), "{good}");
    }
    for bad in ["", "ab", "Abc", "-abc", "abc-", "a--b", "a_b", "a/b", &"a".repeat(64)] {
        assert!(Container::parse(bad).is_err(), "{bad}");
    }
    for good in ["", "locks", "a/b.c/d_e-f"] {
        assert!(Prefix::parse(good).is_ok(), "{good}");
    }
    for bad in ["/", "/a", "a/", "a//b", "..", "a/.", "a.", "ä", "a b", &"a".repeat(201)] {
        assert!(Prefix::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn an_empty_prefix_leaves_no_slash() {
    let namespace = Namespace {
        container: Container::parse("locks").unwrap(),
        prefix: Prefix::parse("").unwrap(),
        layout: Layout::Readable,
    };
    assert_eq!(namespace.host_prefix(&HostId::parse("a").unwrap()), "a/");
    assert_eq!(namespace.all_prefix(), "locks/");
    assert_eq!(self::namespace(Layout::Readable).all_prefix(), "leasehold/locks/");
}

#[test]
fn a_function_is_read_from_a_path_that_shows_the_whole_of_it() {
    let cut = "x".repeat(300);
    for (layout, function, scope, shown) in [
        (Layout::Readable, "Orders/Daily", "eu", Some("Orders/Daily")),
        (Layout::Readable, "", "eu", Some("")),
        (Layout::Readable, &cut, "eu", None),
        (Layout::WebJobs, "Job", "", Some("Job")),
        (Layout::Hashed, "Job", "", None),
    ] {
        let path = path_in(layout, function, scope, LockMode::Function).unwrap();
        let found = namespace(layout).function_of(&path);
        assert_eq!(found.as_deref(), shown, "{path}");
    }
    let other = "elsewhere/locks/host/Job/~/FUNCTION".parse().unwrap();
    assert_eq!(namespace(Layout::Readable).function_of(&other), None);
}

#[test]
fn s19_paths_may_be_as_long_and_as_deep_as_azure_allows() {
    let container = Container::parse("locks").unwrap();
    for (name, good) in [
        ("n".repeat(1_024), true),
        ("n".repeat(1_025), false),
        (vec!["n"; 254].join("/"), true),
        (vec!["n"; 255].join("/"), false),
    ] {
        let path = LockPath::from_parts(&container, &name).to_string();
        assert_eq!(path.parse::<LockPath>().is_ok(), good, "{path}");
    }
}

#[test]
fn a_namespace_knows_the_names_in_it() {
    let namespace = |prefix: &str| Namespace {
        container: Container::parse("locks").unwrap(),
        prefix: Prefix::parse(prefix).unwrap(),
        layout: Layout::Readable,
    };
    let path = |text: &str| text.parse::<LockPath>().unwrap();
    for (prefix, text, name, host_id) in [
        ("", "locks/a/f/~/FUNCTION", Some("a/f/~/FUNCTION"), Some("a")),
        ("p/q", "locks/p/q/a/f", Some("a/f"), Some("a")),
        ("p/q", "locks/p/qq/a/f", None, None),
        ("p/q", "locks/p/a/f", None, None),
        ("p", "other/p/a/f", None, None),
        ("", "other/a/f", None, None),
        ("", "locks/host", Some("host"), None),
        ("", "locks/A/f", Some("A/f"), None),
    ] {
        let (namespace, path) = (namespace(prefix), path(text));
        assert_eq!(namespace.name_of(&path), name, "{prefix:?} {text:?}");
        let found = namespace.host_id_of(&path);
        assert_eq!(found.as_ref().map(HostId::as_str), host_id, "{prefix:?} {text:?}");
    }
}

#[test]
fn a_key_is_not_read_from_what_is_no_readable_name() {
    for name in ["f", "f/~", "f/~/OTHER", "f/~/FUNCTION/x", "f%2/~/FUNCTION", "~/~/FUNCTION"] {
        let path = LockPath::from_parts(
            &namespace(Layout::Readable).container,
            &format!("locks/host/{name}"),
        );
        assert_eq!(namespace(Layout::Readable).key_of(&path), None, "{path}");
    }
    for layout in [Layout::Hashed, Layout::WebJobs] {
        let path = path_in(layout, "f/~", "", LockMode::Function).unwrap();
        assert_eq!(namespace(layout).key_of(&path), None, "{path}");
    }
}

#[test]
fn prefixes_and_layouts_are_written_as_they_are_configured() {
    assert_eq!(Prefix::parse("a/b.c").unwrap().as_str(), "a/b.c");
    let layouts = [Layout::Readable, Layout::WebJobs, Layout::Hashed];
    assert_eq!(layouts.map(Layout::as_str), ["readable", "webjobs", "hashed"]);
}

/// Parts that are likely to collide: letters that the encoding uses itself, dots, and long runs.
fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a.%~/2EF]{0,4}",
        "[a/]{195,205}",
        "\\PC{0,12}".prop_map(|text| text.replace(is_invisible, "")),
        (150_usize..260).prop_map(|length| "x".repeat(length)),
        (45_usize..75).prop_map(|length| "ä/".repeat(length)),
    ]
}

fn mode() -> impl Strategy<Value = LockMode> {
    prop_oneof![Just(LockMode::Function), Just(LockMode::Listener)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn readable_and_hashed_names_are_injective(
        one in (part(), part(), mode()), two in (part(), part(), mode()),
    ) {
        prop_assume!(one != two);
        let named = |key: &(String, String, LockMode)| !key.0.is_empty() || !key.1.is_empty();
        prop_assume!(named(&one) && named(&two));
        for layout in [Layout::Readable, Layout::Hashed] {
            prop_assert_ne!(
                name_in(layout, &one.0, &one.1, one.2), name_in(layout, &two.0, &two.1, two.2)
            );
        }
    }

    #[test]
    fn a_readable_name_shows_its_key_unless_it_was_cut(
        function in part(), scope in part(), mode in mode(),
    ) {
        prop_assume!(!(function.is_empty() && scope.is_empty()));
        let path = path_in(Layout::Readable, &function, &scope, mode).unwrap();
        let cut = |part: &str| readable_part(part).len() > 1 && readable_part(part).contains('~');
        let shown = !cut(&function) && !cut(&scope);
        let key = LockKey::new(&function, &scope, mode).unwrap();
        prop_assert_eq!(namespace(Layout::Readable).key_of(&path), shown.then_some(key));
    }

    #[test]
    fn readable_names_are_always_blob_names(function in part(), scope in part(), mode in mode()) {
        prop_assume!(!(function.is_empty() && scope.is_empty()));
        let path = path_in(Layout::Readable, &function, &scope, mode).unwrap();
        prop_assert!(check_raw_name(path.name()).is_ok(), "{}", path);
        prop_assert!(path.name().is_ascii());
        prop_assert_eq!(path.name().split('/').count(), 5);
    }
}

fn namespace(layout: Layout) -> Namespace {
    Namespace {
        container: Container::parse("leasehold").unwrap(),
        prefix: Prefix::parse("locks").unwrap(),
        layout,
    }
}

#[test]
fn s28_permit_0_is_the_lock_itself_and_the_others_stand_beside_it() {
    for layout in [Layout::Readable, Layout::Hashed] {
        let lock = path_in(layout, "Job", "eu", LockMode::Function).unwrap();
        assert_eq!(lock.permit(Permit::FIRST), lock);
        let third = lock.permit(Permit::new(3).unwrap());
        assert_eq!(third.as_str(), format!("{lock}~3"));
        assert_eq!(third.to_string().parse::<LockPath>(), Ok(third));
    }
}

#[test]
fn s28_the_layout_webjobs_has_plain_locks_only() {
    let namespace = namespace(Layout::WebJobs);
    // A raw name may look like a permit's.
    let path = path_in(Layout::WebJobs, "Job~2", "", LockMode::Function).unwrap();
    assert_eq!(namespace.permit_of(&path), (path, Permit::FIRST));
}

#[test]
fn s28_a_permit_of_the_longest_name_fits() {
    for layout in [Layout::Readable, Layout::Hashed] {
        let longest = path_in(layout, &"日".repeat(341), &"日".repeat(341), LockMode::Function);
        let permit = longest.unwrap().permit(Permit::new(31).unwrap());
        assert_eq!(permit.to_string().parse::<LockPath>(), Ok(permit));
    }
}

#[test]
fn s28_what_is_no_number_of_a_permit_is_none() {
    let namespace = namespace(Layout::Readable);
    let lock = path_in(Layout::Readable, "Job", "", LockMode::Function).unwrap();
    for tail in ["~0", "~32", "~03", "~+3", "~", "~3~4", "3"] {
        let path: LockPath = format!("{lock}{tail}").parse().unwrap();
        assert_eq!(namespace.permit_of(&path), (path, Permit::FIRST), "{tail}");
    }
}

proptest! {
    #[test]
    fn s28_paths_of_permits_are_those_of_no_other_permit_and_no_other_lock(
        functions in prop::array::uniform2("[A-Z~./]{0,3}"),
        scopes in prop::array::uniform2("[A-Z0-9~/]{1,4}"),
        listeners in prop::array::uniform2(prop::bool::ANY),
        numbers in prop::array::uniform2(0_u8..32),
        hashed: bool,
    ) {
        let layout = if hashed { Layout::Hashed } else { Layout::Readable };
        let paths = [0, 1].map(|i| {
            let mode = if listeners[i] { LockMode::Listener } else { LockMode::Function };
            let lock = path_in(layout, &functions[i], &scopes[i], mode).unwrap();
            let permit = Permit::new(numbers[i]).unwrap();
            let path = lock.permit(permit);
            prop_assert_eq!(namespace(layout).permit_of(&path), (lock.clone(), permit));
            Ok((path, (lock, permit)))
        });
        let [first, second] = paths;
        let (first, second) = (first?, second?);
        prop_assert_eq!(first.0 == second.0, first.1 == second.1);
    }
}

#[test]
fn s23_s28_locks_of_webjobs_have_neither_checkpoints_nor_permits() {
    for (layout, has_both) in
        [(Layout::Readable, true), (Layout::Hashed, true), (Layout::WebJobs, false)]
    {
        assert_eq!((layout.keeps_checkpoints(), layout.has_permits()), (has_both, has_both));
    }
}
