//! Generated code that is checked in is what the generator makes now.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::root;

#[test]
fn rust_client_stubs_are_fresh() {
    let checked_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/rust/gen/leasehold.v1.rs");
    let made = std::fs::read_to_string(concat!(env!("OUT_DIR"), "/client/leasehold.v1.rs"))
        .expect("build.rs makes the client's stubs");
    let present = std::fs::read_to_string(&checked_in).unwrap_or_default();
    assert!(
        present == made,
        "{} is not what proto/ gives now: run `make proto`",
        checked_in.display()
    );
}

#[test]
fn enums_constants_and_revisions_of_the_clients_are_fresh() {
    let looked = Command::new(root().join("clients/generate")).arg("--check").output().unwrap();
    assert!(looked.status.success(), "{}", String::from_utf8_lossy(&looked.stderr));
}

/// A copy of the API and of the generator, with fields that this version does not have.
struct Newer(tempfile::TempDir);

impl Newer {
    /// What the files that it writes have of a field of revision 2 and of another one of revision 3.
    const FILES: [(&str, &str); 5] = [
        (
            "clients/go/constants.go",
            "{\"leasehold.v1.LeaseSpec.newer\": 2, \"leasehold.v1.Resume.newest\": 3}",
        ),
        (
            "clients/java/src/main/java/dev/leasehold/client/Constants.java",
            "Map.entry(\"leasehold.v1.LeaseSpec.newer\", 2),\n          Map.entry(\"leasehold.v1.Resume.newest\", 3)",
        ),
        (
            "clients/python/src/leasehold/_constants.py",
            "    \"leasehold.v1.LeaseSpec.newer\": 2,\n    \"leasehold.v1.Resume.newest\": 3,\n",
        ),
        ("clients/rust/gen/revisions.rs", "needs.max(since(3, &self.newest));\n"),
        (
            "clients/typescript/src/constants.ts",
            "  HoldLeaseRequest: [[\"start.spec.newer\", 2], [\"start.resume.newest\", 3]],\n",
        ),
    ];

    fn new() -> Self {
        let newer = Self(tempfile::tempdir().unwrap());
        let messages = newer.path("proto/leasehold/v1");
        std::fs::create_dir_all(&messages).unwrap();
        for entry in std::fs::read_dir(root().join("proto/leasehold/v1")).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), messages.join(entry.file_name())).unwrap();
        }
        for written in std::fs::read_to_string(root().join("clients/generate")).unwrap().lines() {
            let path =
                written.trim_start().strip_prefix('"').and_then(|rest| rest.split_once("\": "));
            if let Some((path, _)) = path.filter(|(path, _)| path.contains('/')) {
                let folder = newer.path("clients").join(path);
                std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
            }
        }
        for same in ["clients/generate", "proto/constants.json"] {
            std::fs::copy(root().join(same), newer.path(same)).unwrap();
        }
        // All fields of this version are of revision 1 there, whatever they came with.
        let table = std::fs::read_to_string(root().join("proto/revisions.json")).unwrap();
        let table: Vec<BTreeMap<String, Vec<String>>> = serde_json::from_str(&table).unwrap();
        let mut first: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (message, fields) in table.into_iter().flatten() {
            first.entry(message).or_default().extend(fields);
        }
        let table = serde_json::to_string_pretty(&[first]).unwrap();
        std::fs::write(newer.path("proto/revisions.json"), table).unwrap();
        newer.replace("proto/leasehold/v1/hold.proto", "  bool rebalance = 15;", |had| {
            format!("{had}\n\n  // Newer.\n  bool newer = 99;")
        });
        newer.replace("proto/leasehold/v1/hold.proto", "  string attempt_id = 3;", |had| {
            format!("{had}\n\n  // Newest.\n  string newest = 99;")
        });
        newer
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.0.path().join(path)
    }

    fn replace(&self, path: &str, what: &str, by: impl Fn(&str) -> String) {
        let text = std::fs::read_to_string(self.path(path)).unwrap();
        assert!(text.contains(what), "{path} has no {what}");
        std::fs::write(self.path(path), text.replacen(what, &by(what), 1)).unwrap();
    }

    /// Whether it was all written; else what is wrong.
    fn generate(&self) -> Result<(), String> {
        let made = Command::new(self.path("clients/generate")).output().unwrap();
        let complaint = String::from_utf8_lossy(&made.stderr).into_owned();
        if made.status.success() { Ok(()) } else { Err(complaint) }
    }
}

#[test]
fn a_field_of_a_request_that_has_no_revision_is_found() {
    let missing = Newer::new().generate().unwrap_err();
    assert!(missing.contains("'LeaseSpec.newer', 'Resume.newest'"), "{missing}");
    let newer = Newer::new();
    newer.replace("proto/revisions.json", "\n]", |_| {
        ",{\"LeaseSpec\": [\"newer\", \"older\"], \"Resume\": [\"newest\"]}\n]".to_owned()
    });
    let unknown = newer.generate().unwrap_err();
    assert!(unknown.contains("['LeaseSpec.older']"), "{unknown}");
}

#[test]
fn a_field_with_options_one_listed_twice_and_a_repeated_message_are_found() {
    let newer = Newer::new();
    newer.replace("proto/leasehold/v1/hold.proto", "  bool newer = 99;", |_| {
        "  bool newer = 99 [deprecated = true];".to_owned()
    });
    let missing = newer.generate().unwrap_err();
    assert!(missing.contains("'LeaseSpec.newer'"), "{missing}");
    newer.replace("proto/revisions.json", "\n]", |_| {
        ",{\"LeaseSpec\": [\"newer\", \"newer\"], \"Resume\": [\"newest\"]}\n]".to_owned()
    });
    let twice = newer.generate().unwrap_err();
    assert!(twice.contains("['LeaseSpec.newer']"), "{twice}");
    for kind in ["repeated BootTime", "map<string, BootTime>"] {
        let newer = Newer::new();
        newer.replace("proto/leasehold/v1/hold.proto", "  bool newer = 99;", |_| {
            format!("  {kind} newer = 99;")
        });
        let repeated = newer.generate().unwrap_err();
        assert!(repeated.contains("LeaseSpec.newer repeats a message"), "{kind}: {repeated}");
    }
}

#[test]
fn a_newer_field_of_a_request_that_does_not_say_what_it_needs_is_found() {
    for (file, message) in
        [("lease_service.proto", "ReleaseLeaseRequest"), ("lock.proto", "LockKey")]
    {
        let newer = Newer::new();
        newer.replace(
            &format!("proto/leasehold/v1/{file}"),
            &format!("message {message} {{\n"),
            |beginning| format!("{beginning}  bool later = 99;\n"),
        );
        newer.replace("proto/revisions.json", "\n]", |_| {
            format!(
                ",{{\"LeaseSpec\": [\"newer\"], \"Resume\": [\"newest\"], \"{message}\": [\"later\"]}}\n]"
            )
        });
        let silent = newer.generate().unwrap_err();
        assert!(
            silent.contains("does not say what it needs") && silent.contains("later"),
            "{silent}"
        );
    }
}

#[test]
fn a_newer_field_is_written_into_each_client() {
    let newer = Newer::new();
    newer.replace("proto/revisions.json", "\n]", |_| {
        ",\n  {\"LeaseSpec\": [\"newer\"]},\n  {\"Resume\": [\"newest\"]}\n]".to_owned()
    });
    newer.generate().unwrap();
    for (path, wanted) in Newer::FILES {
        let made = std::fs::read_to_string(newer.path(path)).unwrap();
        assert!(made.contains(wanted), "{path} has no {wanted}:\n{made}");
    }
}

#[test]
fn the_sidecar_has_the_newest_revision_of_the_table() {
    let table = std::fs::read_to_string(root().join("proto/revisions.json")).unwrap();
    let table: Vec<serde_json::Value> = serde_json::from_str(&table).unwrap();
    assert_eq!(u32::try_from(table.len()), Ok(leasehold::coordinator::REVISION));
}
