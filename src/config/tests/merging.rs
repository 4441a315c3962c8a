//! Defaults < file < environment < flags.

use proptest::prelude::*;

use super::*;

/// Settings with values that go together, as the file writes them, and as a variable or flag does.
const SAMPLES: &[(&str, [(&str, &str); 3])] = &[
    (
        "store.kind",
        [("\"memory\"", "memory"), ("\"embedded\"", "embedded"), ("\"memory\"", "memory")],
    ),
    ("locks.poll_cap", [("\"1s\"", "1s"), ("\"2s\"", "2000ms"), ("\"250ms\"", "250ms")]),
    ("limits.holds", [("1", "1"), ("0x10", "16"), ("1_000_000", "1000000")]),
    ("admin.allow_break", [("true", "true"), ("false", "false"), ("true", "true")]),
    ("listen.tcp", [("\"\"", ""), ("\"[::1]:1\"", "[::1]:1"), ("\"127.0.0.1:0\"", "127.0.0.1:0")]),
    ("listen.unix_allowed_uids", [("[1, 2]", "1,2"), ("[]", "[]"), ("[7]", "[7]")]),
    ("paths.prefix", [("\"\"", ""), ("\"a/b\"", "a/b"), ("'locks'", "locks")]),
];

type Layers = Vec<[Option<usize>; 3]>;

fn layered(layers: &Layers) -> Sources {
    let (mut file, mut variables, mut flags) =
        (String::from("listen.unix = '/run/l'\n"), vec![], vec![]);
    for ((key, values), [in_file, in_variable, in_flag]) in SAMPLES.iter().zip(layers) {
        if let Some(index) = in_file {
            file.push_str(&format!("{key} = {}\n", values[*index].0));
        }
        if let Some(index) = in_variable {
            let setting = settings().find(|setting| setting.key == *key).unwrap();
            variables.push((setting.variable(), values[*index].1));
        }
        if let Some(index) = in_flag {
            flags.push(format!("{key}={}", values[*index].1));
        }
    }
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    sources(&file, &variables, &flags.iter().map(String::as_str).collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn the_strongest_source_counts_and_is_named(
        layers in prop::collection::vec(prop::array::uniform3(prop::option::of(0_usize..3)), SAMPLES.len())
    ) {
        let config = Config::load(&layered(&layers)).unwrap();
        let defaults = load("listen.unix = '/run/l'");
        for ((key, values), [in_file, in_variable, in_flag]) in SAMPLES.iter().zip(&layers) {
            let of = |config: &Config| config.shown().iter().find(|shown| shown.key == *key).cloned().unwrap();
            let shown = of(&config);
            let rank = match (in_flag, in_variable, in_file) {
                (Some(_), ..) => 3,
                (None, Some(_), _) => 2,
                (None, None, in_file) => u8::from(in_file.is_some()),
            };
            prop_assert_eq!(shown.origin.rank(), rank, "{}", key);
            let expected = match in_flag.or(*in_variable).or(*in_file) {
                Some(index) => {
                    let table: toml::Table = toml::from_str(&format!("value = {}", values[index].0)).unwrap();
                    table.get("value").cloned()
                }
                None => of(&defaults).value,
            };
            prop_assert_eq!(shown.value, expected, "{}", key);
        }
    }

    #[test]
    fn what_is_printed_can_be_used_as_a_file(
        layers in prop::collection::vec(prop::array::uniform3(prop::option::of(0_usize..3)), SAMPLES.len())
    ) {
        let config = Config::load(&layered(&layers)).unwrap();
        let printed = config.print();
        let again = load(&printed);
        let values = |config: &Config| -> Vec<_> {
            config.shown().iter().map(|shown| (shown.key, shown.value.clone())).collect()
        };
        prop_assert_eq!(values(&config), values(&again));
        prop_assert_eq!(&config.store, &again.store);
    }

    #[test]
    fn no_text_in_the_file_is_a_panic(text in "(?s).{0,200}") {
        let _ = Config::load(&sources(&text, &[], &[]));
    }

    #[test]
    fn no_value_of_a_setting_is_a_panic(index in 0_usize..70, value in ".{0,60}") {
        let all: Vec<_> = settings().collect();
        let flag = Flag { name: "--set".to_owned(), key: all[index % all.len()].key.to_owned(), value };
        let _ = Config::load(&Sources { flags: vec![flag], ..sources("", &[], &[]) });
    }
}

#[test]
fn a_later_flag_replaces_an_earlier_one() {
    let config = Config::load(&sources("", &[], &["limits.holds=1", "limits.holds=2"])).unwrap();
    assert_eq!(config.limits.holds, 2);
}

#[test]
fn every_setting_has_a_variable_of_its_own_that_nothing_else_means() {
    let names: Vec<String> = settings().map(Setting::variable).collect();
    let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    for (setting, name) in settings().zip(&names) {
        let text = format!("value of {}", setting.key);
        let error = Config::load(&sources("", &[(name, &text)], &[]));
        let unknown = |mistake: &Mistake| matches!(mistake, Mistake::Unknown { .. });
        assert!(error.map_or_else(|error| !error.mistakes.iter().any(unknown), |_| true), "{name}");
    }
}

#[test]
fn defaults_need_no_file() {
    let config = Config::load(&Sources { file: None, ..sources("", &[], &[]) }).unwrap();
    let path = PathBuf::from("/home/keeper/.local/state/leasehold/locks.db");
    assert_eq!(config.store, Store::Embedded { path, remote_callers: false, max_locks: 10_000 });
    assert_eq!(config.locks.holder, "keeper-1");
    assert_eq!(config.paths.container.as_str(), "leasehold");
    assert_eq!(config.host_id.provider.as_dyn().provide().unwrap().warnings.len(), 1);
    assert!(config.shown().iter().all(|shown| shown.origin == Origin::Default));
}

#[test]
fn defaults_are_found_in_the_surroundings() {
    let variables = [("POD_NAME", "keeper-7f-2"), ("XDG_STATE_HOME", "/state")];
    let config = Config::load(&sources("paths.layout = 'webjobs'", &variables, &[])).unwrap();
    assert_eq!(config.locks.holder, "keeper-7f-2");
    let path = PathBuf::from("/state/leasehold/locks.db");
    assert_eq!(config.store, Store::Embedded { path, remote_callers: false, max_locks: 10_000 });
    assert_eq!(config.paths.container.as_str(), "azure-webjobs-hosts");
}

#[test]
fn a_choice_may_be_overridden_without_taking_back_what_belonged_to_it() {
    let file = "store.kind = 'azure'\nstore.azure.account = 'a'\n\
                host_id.provider = 'env'\nhost_id.variable = 'X'";
    let flags = ["store.kind=memory", "host_id.provider=static", "host_id.host_id=a"];
    let config = Config::load(&sources(file, &[], &flags)).unwrap();
    assert_eq!(config.store, Store::Memory);
    let passed_over: Vec<_> =
        config.shown().iter().filter(|shown| shown.passed_over).map(|shown| shown.key).collect();
    assert_eq!(passed_over, ["store.azure.account", "host_id.variable"]);
    assert_eq!(load(&config.print()).store, Store::Memory);
}
