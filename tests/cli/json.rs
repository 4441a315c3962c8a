//! The JSON documents of commands: their shapes are kept in `json_shapes.json`, and their fields are
//! documented.

use std::collections::BTreeMap;

use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::cli::rig::{Ended, GENEROUS, Home, Sidecar, eventually, signal_to};

/// The shape of `bench` is compared where it runs.
const ELSEWHERE: &str = "bench";

/// A document with types instead of values, and arrays with each shape that occurs in them, once. Labels are
/// free, so they have no shape.
fn shape(document: &Value) -> Value {
    match document {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(_) => "number".into(),
        Value::String(_) => "text".into(),
        Value::Array(all) => {
            let mut shapes = Vec::new();
            for shape in all.iter().map(shape) {
                if !shapes.contains(&shape) {
                    shapes.push(shape);
                }
            }
            shapes.into()
        }
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| {
                let shape = if name == "labels" { "labels".into() } else { shape(value) };
                (name.clone(), shape)
            })
            .collect(),
    }
}

fn names(shape: &Value, all: &mut Vec<String>) {
    match shape {
        Value::Array(items) => items.iter().for_each(|item| names(item, all)),
        Value::Object(fields) => {
            for (name, value) in fields {
                all.push(name.clone());
                names(value, all);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn kept() -> BTreeMap<String, Value> {
    serde_json::from_str(include_str!("json_shapes.json")).unwrap()
}

/// Checks a document against the shape that is kept under `name`.
pub(crate) fn has_the_kept_shape(name: &str, document: &Value) {
    let (shape, kept) = (shape(document), kept());
    assert_eq!(Some(&shape), kept.get(name), "{name} is now {shape:#}");
}

async fn shapes() -> BTreeMap<String, Value> {
    let sidecar =
        Sidecar::start(&["admin.allow_break=true", "admin.allow_schedule_changes=true"]).await;
    let ask = async |words: &[&str]| sidecar.leasehold(&with_json(words)).await.document();
    let directly = async |words: &[&str]| sidecar.home.directly(&with_json(words)).await.document();
    let granted = ask(&["acquire", "job", "--label", "team=orders"]).await;
    let lease_id = granted["lease_id"].as_str().unwrap();
    let mut documents = vec![
        ("acquire, busy", ask(&["acquire", "job", "--priority", "1"]).await),
        ("extend", ask(&["extend", lease_id, "--max-hold", "5m"]).await),
        ("ls", ask(&["ls"]).await),
        ("watch", first_line(&sidecar, &["watch", "-f", "job"]).await),
        ("ls --by-sidecar", ask(&["ls", "--by-sidecar"]).await),
        ("ls --by-sidecar --watch", {
            first_line(&sidecar, &["ls", "--by-sidecar", "--watch"]).await
        }),
        ("ls --watch", first_line(&sidecar, &["ls", "--watch"]).await),
        ("path", ask(&["path", "job"]).await),
        ("info", ask(&["info"]).await),
        ("schedule next", {
            let words = ["schedule", "next", "30 2 * * *", "--tz", "Europe/Copenhagen"];
            ask(&[&words[..], &["--from", "2027-03-28T00:00:00Z"]].concat()).await
        }),
        ("schedule import", {
            let status = sidecar.home.path("status.json");
            std::fs::write(&status, crate::cli::import::STATUS).unwrap();
            let status = status.display().to_string();
            let words = ["import", "-f", "imported", "--dry-run", "--status", &status];
            sidecar.home.directly_in("schedule", &with_json(&words)).await.document()
        }),
        ("check-token", ask(&["check-token", "-f", "job", "--token", "1"]).await),
        ("break", ask(&["break", "-f", "job", "--reason", "a test"]).await),
        ("show", ask(&["show", "-f", "job"]).await),
        ("release, already lost", {
            ask(&["break", "-f", "job", "--reason", "a test", "--now", "--yes"]).await;
            ask(&["release", lease_id]).await
        }),
        ("an error", Home::new().leasehold(&["ls", "--output", "json"]).await.error_json()),
        ("an error of the API", ask(&["extend", "no-lease-id", "--max-hold", "5m"]).await),
        ("doctor", directly(&["doctor", "--exclusion"]).await),
    ];
    let rests = ask(&["acquire", "rests", "--min-hold", "1m"]).await;
    let lease_id = rests["lease_id"].as_str().unwrap();
    documents.push(("release, resting", ask(&["release", lease_id]).await));
    let short = ask(&["acquire", "short"]).await;
    let lease_id = short["lease_id"].as_str().unwrap();
    documents.push(("release", ask(&["release", lease_id]).await));
    let get = ["checkpoint", "get", "-f", "saved"];
    documents.push(("checkpoint get, none", ask(&get).await));
    let set = ["checkpoint", "set", "-f", "saved", "--value", "page 7"];
    documents.push(("checkpoint set", ask(&set).await));
    documents.push(("checkpoint get", ask(&get).await));
    crate::cli::gc::age(&sidecar.home, 40).await;
    documents.push(("gc", directly(&["gc", "--idle", "30d", "--dry-run", "--all-hosts"]).await));
    documents.extend(of_a_schedule(&sidecar).await);
    documents.push(("acquire", granted));
    documents.into_iter().map(|(name, document)| (name.to_owned(), shape(&document))).collect()
}

/// A schedule that was run once, by hand.
async fn of_a_schedule(sidecar: &Sidecar) -> Vec<(&'static str, Value)> {
    let ask = async |what: &str, more: &[&str]| {
        let words = [&["schedule", what, "-f", "yearly"], more].concat();
        sidecar.leasehold(&with_json(&words)).await.document()
    };
    let command = ["every", "@yearly", "-f", "yearly", "--", "true"];
    let every = sidecar.home.command(&command).spawn().unwrap();
    eventually("it is run by hand", || async {
        let asked = ask("trigger", &["--request-id", "first"]).await;
        asked["request_id"].is_string().then_some(())
    })
    .await;
    let show = eventually("the run has ended", || async {
        let shown = ask("show", &[]).await;
        let is_over = shown["lock"]["state"] == "available" && shown["state"]["run"].is_null();
        (is_over && shown["state"]["ended"][0].is_object()).then_some(shown)
    })
    .await;
    signal_to(&every, Signal::TERM);
    assert_eq!(Ended::of_child(every).await.code, 0);
    let ls = sidecar.leasehold(&with_json(&["schedule", "ls"])).await.document();
    let (pause, resume) = (ask("pause", &[]).await, ask("resume", &[]).await);
    let trigger = ask("trigger", &[]).await;
    let reset = ask("reset", &["--reason", "a test"]).await;
    let rm = ask("rm", &["--reason", "a test"]).await;
    vec![
        ("schedule ls", ls),
        ("schedule show", show),
        ("schedule pause", pause),
        ("schedule resume", resume),
        ("schedule trigger", trigger),
        ("schedule reset", reset),
        ("schedule rm", rm),
    ]
}

fn with_json<'a>(words: &[&'a str]) -> Vec<&'a str> {
    words.iter().chain(&["--output", "json"]).copied().collect()
}

/// The first line of a watch, which does not end by itself.
async fn first_line(sidecar: &Sidecar, words: &[&str]) -> Value {
    let mut watch = sidecar.home.command(&with_json(words)).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let line = tokio::time::timeout(GENEROUS, lines.next_line()).await.expect("a line").unwrap();
    serde_json::from_str(&line.unwrap()).unwrap()
}

#[tokio::test]
async fn the_json_of_commands_has_the_shape_that_is_documented() {
    let shapes = shapes().await;
    let mut kept = kept();
    let elsewhere = kept.remove(ELSEWHERE).expect("a shape that another test compares");
    let now = serde_json::to_string_pretty(&shapes).unwrap();
    assert!(shapes == kept, "changed: {now}");
    let page = include_str!("../../docs/cli.md");
    let mut all = Vec::new();
    for shape in shapes.values().chain([&elsewhere]) {
        names(shape, &mut all);
    }
    for name in all {
        assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/cli.md");
    }
}
