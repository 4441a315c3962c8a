//! The version stands in Cargo.toml; what has to repeat it says the same.

use crate::{assert_none, root};

/// Where tools and people read it: the file, and what stands before the version in it.
const REPEATED: [(&str, &str); 26] = [
    ("Cargo.toml", "path = \"clients/rust\", version = \""),
    ("clients/go/README.md", "`clients/go/v"),
    ("clients/go/leaseholdotel/go.mod", "github.com/leasehold/leasehold/clients/go v"),
    ("clients/go/README.md", "Version "),
    ("clients/java/README.md", "dev.leasehold:leasehold-client:"),
    ("clients/java/README.md", "<artifactId>leasehold-client</artifactId>\n  <version>"),
    ("clients/java/pom.xml", "<artifactId>leasehold-client</artifactId>\n  <version>"),
    ("clients/python/src/leasehold/__init__.py", "\n__version__ = \""),
    ("clients/typescript/package-lock.json", "\"name\": \"leasehold-client\",\n  \"version\": \""),
    (
        "clients/typescript/package-lock.json",
        "\"name\": \"leasehold-client\",\n      \"version\": \"",
    ),
    ("clients/typescript/package.json", "\n  \"version\": \""),
    ("docs/install.md", "clients/go@v"),
    ("docs/install.md", "leasehold-"),
    ("docs/install.md", "leasehold-client-"),
    ("docs/install.md", "leasehold-sidecar-"),
    ("docs/install.md", "leasehold-sidecar-linux-x64-"),
    ("docs/install.md", "leasehold_"),
    ("docs/install.md", "localhost/leasehold:"),
    ("docs/kubernetes.md", "\n    version: "),
    ("docs/kubernetes.md", "localhost/leasehold:"),
    ("docs/kubernetes.md", "registry.example/leasehold:"),
    ("examples/cronjob/cronjob.yaml", "registry.example/leasehold:"),
    ("helm/leasehold/Chart.yaml", "\nappVersion: "),
    ("helm/leasehold/Chart.yaml", "\nversion: "),
    ("packaging/kustomize/injection/policy.yaml", "leasehold/leasehold:"),
    ("packaging/kustomize/sidecar/sidecar.yaml", "leasehold/leasehold:"),
];

fn version(manifest: &str) -> String {
    let manifest: toml::Table = manifest.parse().unwrap();
    let package = manifest.get("workspace").and_then(|workspace| workspace.get("package"));
    let version = package.and_then(|package| package.get("version"));
    version.and_then(toml::Value::as_str).unwrap().to_owned()
}

fn differences(version: &str, text: &str, (path, before): (&str, &str)) -> Vec<String> {
    let found: Vec<String> = text
        .split(before)
        .skip(1)
        .map(|rest| rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect())
        .filter(|found: &String| !found.is_empty())
        .collect();
    if found.is_empty() {
        return vec![format!("{path}: there is no {before:?}")];
    }
    let found = found.iter().map(|text| text.trim_end_matches('.'));
    found
        .filter(|found| *found != version)
        .map(|found| format!("{path}: {found:?} after {before:?} is not the version {version}"))
        .collect()
}

#[test]
fn the_version_is_the_same_everywhere() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let version = version(&read("Cargo.toml"));
    let findings: Vec<String> = REPEATED
        .into_iter()
        .flat_map(|place| differences(&version, &read(place.0), place))
        .collect();
    assert_none(&findings);
}

#[test]
fn another_version_is_found() {
    assert_eq!(version("[workspace.package]\nversion = \"1.2.3\""), "1.2.3");
    let place = ("x.md", "Version ");
    assert_eq!(differences("1.2.3", "Version 1.2.3. Version 1.2.3\n", place).len(), 0);
    assert_eq!(differences("1.2.3", "Version 1.2.3. Version 1.2.4\n", place).len(), 1);
    assert_eq!(differences("1.2.3", "", place).len(), 1);
}
