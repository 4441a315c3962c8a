//! Callers that mean harm: resume tokens that were made up (S16), at the real program.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use leasehold_client::proto::hold_lease_response::Event;
use leasehold_client::proto::{HoldLeaseRequest, Resume, hold_lease_request::Start};

use crate::faults::process::{Sidecar, event, spec};
use crate::faults::secrets::{get, listening};

const FORGERIES: u64 = 500;

/// The same token for a storage lease that nobody had.
fn forged(token: &str, number: u64) -> String {
    let bytes = URL_SAFE_NO_PAD.decode(token).unwrap();
    let mut content: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    content["lease"] = format!("5b1c6e1a-0b0e-4c7e-9d1c-{number:012x}").into();
    URL_SAFE_NO_PAD.encode(content.to_string())
}

fn metric(page: &str, series: &str) -> f64 {
    let value = |line: &str| line.strip_prefix(series)?.trim().parse::<f64>().ok();
    page.lines().filter_map(value).sum()
}

#[tokio::test]
async fn s16_forged_resumes_keep_nobody_from_the_lock_page_nobody_and_fill_no_log() {
    let more = ["admin.listen=127.0.0.1:0"];
    let sidecar = Sidecar::on_azurite("Forgeries", &more).await;
    let (grant, stream) = sidecar.hold(spec("nightly")).await;
    sidecar.client().await.release(grant.lease_id.clone()).await.unwrap();
    drop(stream);
    let mut rpc = sidecar.rpc().await;
    for number in 0..FORGERIES {
        let resume_token = forged(&grant.resume_token, number);
        let attempt_id = format!("attempt-{number}");
        let resume = Resume { resume_token, attempt_id, told_valid_until: None };
        let request = HoldLeaseRequest { start: Some(Start::Resume(resume)), needs: 0 };
        let mut refused = rpc.hold_lease(request).await.unwrap().into_inner();
        let told = event(&mut refused).await;
        assert!(matches!(told, Event::Lost(_)), "{told:?}");
    }
    let again = sidecar.granted(spec("nightly")).await;
    assert!(again.fencing_token > grant.fencing_token, "it is free for one try");
    let log = sidecar.log();
    let lines = log.lines().filter(|line| line.contains("a resume was refused")).count();
    assert!((1..FORGERIES as usize / 10).contains(&lines), "{lines} lines");
    assert!(!log.contains("lock lost"), "nothing was lost: {log}");
    let admin = listening(&log, "admin");
    let page = get(admin.strip_prefix("http://").unwrap(), "/metrics");
    assert_eq!(metric(&page, "leasehold_resumes_refused_total"), 500.0, "{page}");
    for reason in ["taken", "expired", "lock_deleted"] {
        let series = format!("leasehold_losses_total{{reason=\"{reason}\"}}");
        assert_eq!(metric(&page, &series), 0.0, "{reason}");
    }
}
