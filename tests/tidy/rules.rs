//! Every rule is named by a test.

use crate::{assert_none, sources};

/// The rules of the locks.
fn rules() -> impl Iterator<Item = String> {
    (1..=38).map(|rule| format!("S{rule}"))
}

/// The rules of schedules.
fn rules_of_schedules() -> impl Iterator<Item = String> {
    (1..=25).map(|rule| format!("T{rule}"))
}

fn unnamed(code: &str) -> Vec<String> {
    let named = |rule: &String| code.contains(&format!("fn {}_", rule.to_lowercase()));
    let all = rules().chain(rules_of_schedules());
    all.filter(|rule| !named(rule)).map(|rule| format!("no test names {rule}")).collect()
}

fn unlisted(page: &str, name: &str, rules: impl Iterator<Item = String>) -> Vec<String> {
    let missing = rules.filter(|rule| !page.contains(&format!("| {rule} |")));
    missing.map(|rule| format!("docs/{name} does not list {rule}")).collect()
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
    let locks = include_str!("../../docs/semantics.md");
    let schedules = include_str!("../../docs/schedules.md");
    let mut missing = unlisted(locks, "semantics.md", rules());
    missing.extend(unlisted(schedules, "schedules.md", rules_of_schedules()));
    assert_none(&missing);
}

#[test]
fn this_check_can_fail() {
    let findings = unnamed("fn s1_one() {} fn s12_two() {} fn t3_three() {}");
    assert_eq!(findings.len(), rules().chain(rules_of_schedules()).count() - 3);
    assert_eq!(findings[0], "no test names S2");
}
