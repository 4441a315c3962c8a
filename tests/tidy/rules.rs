//! Every rule is named by a test.

use crate::{assert_none, sources};

const RULES: u8 = 21;

fn unnamed(code: &str) -> Vec<String> {
    let named = |rule: &u8| code.contains(&format!("fn s{rule}_"));
    (1..=RULES).filter(|rule| !named(rule)).map(|rule| format!("no test names S{rule}")).collect()
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
    let missing: Vec<String> = (1..=RULES)
        .filter(|rule| !page.contains(&format!("| S{rule} |")))
        .map(|rule| format!("docs/semantics.md does not list S{rule}"))
        .collect();
    assert_none(&missing);
}

#[test]
fn this_check_can_fail() {
    let findings = unnamed("fn s1_one() {} fn s12_two() {}");
    assert_eq!(findings.len(), usize::from(RULES) - 2);
    assert_eq!(findings[0], "no test names S2");
}
