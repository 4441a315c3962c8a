//! Wall clocks that jump. Validity is counted on the boot clock, so nothing may come of it (S3).

use std::path::{Path, PathBuf};
use std::process::Command;

use leasehold::testing::Azurite;
use leasehold_client::proto::hold_lease_response::Event;

use crate::process::{Sidecar, event, patient, spec};

/// Debian's libfaketime.
fn library() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/install-faketime.sh");
    let output = Command::new(script).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "libfaketime could not be installed: {complaint}");
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

/// The day of the log's last line.
fn day(sidecar: &Sidecar) -> String {
    let log = sidecar.log();
    let line: serde_json::Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    line["timestamp"].as_str().unwrap().split_once('T').unwrap().0.to_owned()
}

#[tokio::test]
async fn s3_a_wall_clock_that_jumps_ends_no_hold_and_frees_no_lock() {
    let folder = tempfile::tempdir().unwrap();
    let offset = folder.path().join("offset");
    let jump = |to: &str| std::fs::write(&offset, format!("{to}\n")).unwrap();
    jump("+0");
    let environment = vec![
        ("LEASEHOLD_STORE_AZURE_CONNECTION_STRING", Azurite::shared().connection_string()),
        ("LD_PRELOAD", library().display().to_string()),
        ("FAKETIME_TIMESTAMP_FILE", offset.display().to_string()),
        ("FAKETIME_NO_CACHE", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ];
    let jumping = Sidecar::start("Jumping", &[], environment).await;
    let steady = Sidecar::on_azurite("Jumping", &[]).await;
    let (grant, mut stream) = jumping.hold(patient("nightly")).await;
    let mut days = vec![day(&jumping)];
    for to in ["+40d", "-40d", "+0"] {
        jump(to);
        for _ in 0..2 {
            let renewed = event(&mut stream).await;
            assert!(matches!(renewed, Event::Renewed(_)), "{renewed:?} after {to}");
        }
        let busy = steady.acquire(spec("nightly")).await;
        assert!(busy.granted().is_none(), "taken from its holder after {to}");
        // Another lock's grant is a line of the log.
        jumping.granted(spec(to)).await;
        days.push(day(&jumping));
    }
    let (there, back) = (&days[1], &days[2]);
    assert!(days[0] < *there && *back < days[0], "the clock did not jump: {days:?}");
    drop(stream);
    let next = steady.granted(patient("nightly")).await;
    assert!(next.fencing_token > grant.fencing_token, "S5");
}
