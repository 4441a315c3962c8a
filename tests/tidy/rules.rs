//! Every rule is named by a test.

use crate::{assert_none, sources};

/// The rules of the locks; those of priorities and fair shares, S33 to S35, are not built yet.
fn rules() -> impl Iterator<Item = u8> {
    (1..=32).chain([36, 37])
}

fn unnamed(code: &str) -> Vec<String> {
    let named = |rule: &u8| code.contains(&format!("fn s{rule}_"));
    rules().filter(|rule| !named(rule)).map(|rule| format!("no test names S{rule}")).collect()
}

#[test]
fn every_rule_is_named_by_a_test() {
    let code: String = sources(&["src", "tests", "clients"], ".rs")
        .into_iter()
        .map(|source| source.text)
        .collect();
    assert_none(&unnamed(&code));
}

#[test]
fn every_rule_stands_in_the_documentation() {
    let page = include_str!("../../docs/semantics.md");
    let missing: Vec<String> = rules()
        .filter(|rule| !page.contains(&format!("| S{rule} |")))
        .map(|rule| format!("docs/semantics.md does not list S{rule}"))
        .collect();
    assert_none(&missing);
}

#[test]
fn this_check_can_fail() {
    let findings = unnamed("fn s1_one() {} fn s12_two() {}");
    assert_eq!(findings.len(), rules().count() - 2);
    assert_eq!(findings[0], "no test names S2");
}
