//! The API stays compatible with the image of it that is kept: `make lint` compares them, by the rules in
//! proto/buf.yaml.

use std::path::Path;
use std::process::Command;

use super::root;

/// The API as it is when its second step is done. A release puts its own beside it.
const IMAGE: &str = "tests/proto/second-step.json";

/// What `buf breaking` finds in the API of this folder; nothing if it is compatible.
fn breaks(proto: &Path) -> String {
    let installed = Command::new(root().join("tests/tools/install.sh")).output().unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let output = Command::new(root().join(".tools/node_modules/.bin/buf"))
        .arg("breaking")
        .arg(proto)
        .arg("--against")
        .arg(root().join(IMAGE))
        .output()
        .unwrap();
    let found = String::from_utf8(output.stdout).unwrap();
    // 100: there are findings. Anything else is a failure to look.
    let looked =
        matches!((output.status.code(), found.is_empty()), (Some(0), true) | (Some(100), false));
    assert!(looked, "{found}{}", String::from_utf8_lossy(&output.stderr));
    found
}

/// The API with one change.
fn changed(file: &str, from: &str, to: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let messages = folder.path().join("leasehold/v1");
    std::fs::create_dir_all(&messages).unwrap();
    let proto = root().join("proto");
    std::fs::copy(proto.join("buf.yaml"), folder.path().join("buf.yaml")).unwrap();
    for entry in std::fs::read_dir(proto.join("leasehold/v1")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), messages.join(entry.file_name())).unwrap();
    }
    let text = std::fs::read_to_string(messages.join(file)).unwrap();
    assert!(text.contains(from), "{file} has no {from}");
    std::fs::write(messages.join(file), text.replacen(from, to, 1)).unwrap();
    folder
}

#[test]
fn the_api_is_compatible_with_its_image() {
    assert_eq!(breaks(&root().join("proto")), "");
}

#[test]
fn a_breaking_change_is_found() {
    for (file, from, to, named) in [
        ("hold.proto", "bool wait_without_end = 11", "bool wait_without_end = 99", "\"11\""),
        ("hold.proto", "bool wait_without_end = 11", "bool wait_forever = 11", "wait_without_end"),
        ("hold.proto", "optional uint32 permits = 40", "optional uint64 permits = 40", "permits"),
        ("hold.proto", "CHECKPOINT_OUTCOME_SAVED = 1", "CHECKPOINT_OUTCOME_KEPT = 1", "SAVED"),
        ("lease_service.proto", "rpc BreakLock(", "rpc EndLock(", "BreakLock"),
    ] {
        let found = breaks(changed(file, from, to).path());
        assert!(found.contains(named), "{to}: {found}");
    }
}

#[test]
fn a_new_field_breaks_nothing() {
    let from = "bool wait_without_end = 11;";
    let to = "bool wait_without_end = 11;\n  // New.\n  bool new_one = 199;";
    assert_eq!(breaks(changed("hold.proto", from, to).path()), "");
}
