//! The JSON documents of commands: their shapes are kept in `json_shapes.json`, and their fields are documented.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::rig::{Home, Sidecar};

/// A document with types instead of values. Labels are free, so they have no shape.
fn shape(document: &Value) -> Value {
    match document {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(_) => "number".into(),
        Value::String(_) => "text".into(),
        Value::Array(all) => all.first().map_or_else(|| json!([]), |first| json!([shape(first)])),
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

async fn shapes() -> BTreeMap<&'static str, Value> {
    let sidecar = Sidecar::start(&["admin.allow_break=true"]).await;
    let ask = async |words: &[&str]| {
        let words: Vec<&str> = words.iter().chain(&["--output", "json"]).copied().collect();
        let ended = sidecar.leasehold(&words).await;
        let text = if ended.stdout.is_empty() { &ended.stderr } else { &ended.stdout };
        serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
    };
    let granted = ask(&["acquire", "job", "--label", "team=orders"]).await;
    let lease_id = granted["lease_id"].as_str().unwrap();
    let mut documents = BTreeMap::from([
        ("acquire, busy", ask(&["acquire", "job"]).await),
        ("extend", ask(&["extend", lease_id, "--max-hold", "5m"]).await),
        ("ls", ask(&["ls"]).await),
        ("path", ask(&["path", "job"]).await),
        ("info", ask(&["info"]).await),
        ("check-token", ask(&["check-token", "-f", "job", "--token", "1"]).await),
        ("break", ask(&["break", "-f", "job", "--reason", "a test"]).await),
        ("show", ask(&["show", "-f", "job"]).await),
        ("release", ask(&["release", lease_id]).await),
        ("an error", Home::new().leasehold(&["ls", "--output", "json"]).await.error_json()),
    ]);
    documents.insert("acquire", granted);
    documents.into_iter().map(|(name, document)| (name, shape(&document))).collect()
}

#[tokio::test]
async fn the_json_of_commands_has_the_shape_that_is_documented() {
    let shapes = serde_json::to_value(shapes().await).unwrap();
    let kept: Value = serde_json::from_str(include_str!("json_shapes.json")).unwrap();
    assert_eq!(shapes, kept, "changed: {}", serde_json::to_string_pretty(&shapes).unwrap());
    let page = include_str!("../../docs/cli.md");
    let mut all = Vec::new();
    names(&shapes, &mut all);
    for name in all.iter().filter(|name| !shapes.as_object().unwrap().contains_key(*name)) {
        assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/cli.md");
    }
}
