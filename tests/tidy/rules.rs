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

/// The tests that a page names in its tables, by rule, and that are not there.
fn not_there(page: &str, code: &str) -> Vec<String> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    let names = cells.filter_map(|cell| cell.strip_prefix("`t")?.strip_suffix('`'));
    let names = names.filter(|name| name.starts_with(|first: char| first.is_ascii_digit()));
    let missing = names.filter(|name| !code.contains(&format!("fn t{name}(")));
    missing.map(|name| format!("no test is named t{name}")).collect()
}

#[test]
fn what_others_users_report_has_a_test_in_each_row() {
    let page = include_str!("../../docs/schedules.md");
    let (_, after) = page.split_once("## What others' users report").unwrap();
    let (table, _) = after.split_once("\n## ").unwrap();
    // But for its head.
    let rows = table.lines().filter(|line| line.starts_with("| ")).count() - 2;
    assert_eq!(table.matches("| `t").count(), rows, "each row names its test");
    let code: String =
        sources(&["src", "tests"], ".rs").into_iter().map(|source| source.text).collect();
    assert_none(&not_there(table, &code));
}

#[test]
fn this_check_can_fail() {
    let missing = not_there("| a | b | `t1_one` |\n| a | b | `t2_two` |", "fn t2_two() {}");
    assert_eq!(missing, ["no test is named t1_one"]);
    let findings = unnamed("fn s1_one() {} fn s12_two() {} fn t3_three() {}");
    assert_eq!(findings.len(), rules().chain(rules_of_schedules()).count() - 3);
    assert_eq!(findings[0], "no test names S2");
}
