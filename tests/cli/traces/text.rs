//! A trace as text, and the one that docs/operations.md shows.

use std::fmt::Write as _;
use std::path::Path;

use super::collector::Seen;

const PAGE: &str = "docs/operations.md";
const BEGIN: &str =
    "<!-- trace: what a test got; LEASEHOLD_TEST_UPDATE=1 writes it anew -->\n```\n";
const END: &str = "```\n<!-- end of trace -->\n";

/// The trace: each hold with what it says, and below it what was done for it.
fn shown(spans: &[Seen]) -> String {
    let begun = spans.iter().map(|span| span.start).min().unwrap();
    let mut text = format!("trace {}\n", spans[0].trace);
    let milliseconds = |nanos: u64| nanos as f64 / 1e6;
    for hold in spans.iter().filter(|span| span.name == "hold") {
        let (at, took) = (milliseconds(hold.start - begun), milliseconds(hold.end - hold.start));
        let Seen { id, parent, .. } = hold;
        writeln!(text, "hold {id} below {parent}: at {at:.1} ms, took {took:.1} ms").unwrap();
        for (key, value) in &hold.attributes {
            writeln!(text, "    {key} = {value}").unwrap();
        }
        for (to, what) in &hold.links {
            writeln!(text, "    link {what} {to}").unwrap();
        }
        for event in &hold.events {
            writeln!(text, "    event {event}").unwrap();
        }
        for span in spans.iter().filter(|span| span.parent == hold.id) {
            let (at, took) = (span.start.saturating_sub(begun), span.end - span.start);
            let (at, took) = (milliseconds(at), milliseconds(took));
            let outcome = span.attribute("leasehold.outcome");
            let Seen { name, id, .. } = span;
            writeln!(text, "  {name} {id}: at {at:.1} ms, took {took:.1} ms, {outcome}").unwrap();
        }
    }
    text
}

/// Without what is another each time: times, tokens, and ids that were drawn.
fn lasting(text: &str) -> String {
    let lasting = |word: &str| {
        let bare = word.trim_end_matches([':', ',']);
        let drawn = bare.len() == 16 && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_number = bare.parse::<f64>().is_ok() && (bare.contains('.') || bare.len() > 4);
        if drawn || is_number { "N".to_owned() } else { word.to_owned() }
    };
    let line = |line: &str| line.split(' ').map(lasting).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// What the page shows is what came, but for times and ids.
pub(super) fn assert_documented(spans: &[Seen]) {
    let shown = shown(spans);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the trace's beginning");
    let (documented, after) = rest.split_once(END).expect("the trace's end");
    if lasting(documented) == lasting(&shown) {
        return;
    }
    if std::env::var_os("LEASEHOLD_TEST_UPDATE").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{shown}{END}{after}")).unwrap();
    } else {
        panic!("{PAGE} is not up to date: run this test with LEASEHOLD_TEST_UPDATE=1\n{shown}");
    }
}

#[test]
fn what_is_another_each_time_is_left_out_and_nothing_else() {
    let (one, other) =
        ("hold 00f067aa0ba902b7: at 1.5 ms, ok", "hold ffffffffffffffff: at 20.0 ms, ok");
    assert_eq!(lasting(one), lasting(other));
    assert_ne!(lasting(one), lasting("hold 00f067aa0ba902b7: at 1.5 ms, denied"));
    assert_ne!(lasting("leasehold.renewals = 0"), lasting("leasehold.renewals = 1"));
}
