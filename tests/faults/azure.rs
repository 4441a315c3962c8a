//! What is in the storage account, seen by the Python storage SDK.

use std::path::Path;
use std::process::Command;

use leasehold::testing::Azurite;
use serde_json::Value;

use crate::faults::process::{Sidecar, spec};

/// The blob as the Python SDK sees it.
fn look(container: &str, name: &str) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let installed = Command::new(root.join("tests/tools/install-python.sh")).status().unwrap();
    assert!(installed.success(), "the Python storage SDK could not be installed");
    let output = Command::new(root.join(".tools/python/bin/python"))
        .arg(root.join("tests/tools/look_at_blob.py"))
        .args([container, name])
        .env("CONNECTION_STRING", Azurite::shared().connection_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn the_webjobs_layout_takes_the_very_blob_that_a_dotnet_host_takes() {
    let settings = [
        "paths.layout=webjobs",
        "paths.container=azure-webjobs-hosts",
        "paths.prefix=locks",
        "locks.holder=pod-one",
    ];
    let sidecar = Sidecar::on_azurite("Keeper-A", &settings).await;
    let mut listener = spec("Keeper.ScheduledJob.Run");
    listener.key = listener.key.listener();
    let grant = sidecar.granted(listener).await;
    let name = format!("locks/{}/Keeper.ScheduledJob.Run.Listener", grant.host_id);
    assert_eq!(grant.lock_path, format!("azure-webjobs-hosts/{name}"));
    let blob = look("azure-webjobs-hosts", &name);
    assert_eq!(blob["name"], name.as_str());
    assert_eq!(blob["lease_state"], "leased");
    assert_eq!(blob["lease_status"], "locked");
    assert_eq!(blob["lease_duration"], "fixed");
    assert_eq!(blob["size"], 0);
    let metadata = blob["metadata"].as_object().unwrap();
    let instance = metadata.iter().find(|(name, _)| name.eq_ignore_ascii_case("FunctionInstance"));
    assert!(instance.is_some_and(|(_, value)| !value.as_str().unwrap().is_empty()), "{metadata:?}");
    sidecar.client().await.release(grant.lease_id).await.unwrap();
    assert_eq!(look("azure-webjobs-hosts", &name)["lease_state"], "available");
}

#[tokio::test]
async fn s5_the_token_is_stored_with_the_lock_before_the_grant_is_given_out() {
    let sidecar = Sidecar::on_azurite("Token", &[]).await;
    let grant = sidecar.granted(spec("nightly")).await;
    let (container, name) = grant.lock_path.split_once('/').unwrap();
    let metadata = &look(container, name)["metadata"];
    assert_eq!(metadata["leasehold_token"], grant.fencing_token.to_string());
    assert_eq!(metadata["leasehold_host_type"], "Token");
}
