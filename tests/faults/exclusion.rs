//! Two sidecars on one account.

use std::process::Command;

use leasehold_client::{LockState, Outcome};

use crate::faults::process::{Sidecar, program, spec};

#[tokio::test]
async fn s1_sidecars_of_one_host_type_exclude_each_other_and_of_two_do_not() {
    let first = Sidecar::on_azurite("Exclusion-A", &[]).await;
    let second = Sidecar::on_azurite("Exclusion-A", &[]).await;
    let other = Sidecar::on_azurite("Exclusion-B", &[]).await;
    let grant = first.granted(spec("nightly")).await;
    let Outcome::Busy(busy) = second.acquire(spec("nightly")).await else { panic!("granted") };
    assert_eq!(busy.record.unwrap().fencing_token, Some(grant.fencing_token));
    let elsewhere = other.granted(spec("nightly")).await;
    assert_ne!(elsewhere.lock_path, grant.lock_path);
    first.client().await.release(grant.lease_id).await.unwrap();
    let next = second.granted(spec("nightly")).await;
    assert!(next.fencing_token > grant.fencing_token, "S5");
    assert_eq!(next.lock_path, grant.lock_path);
}

#[tokio::test]
async fn everybody_sees_who_holds_what_across_sidecars() {
    let first = Sidecar::on_azurite("Listing", &[]).await;
    let second = Sidecar::on_azurite("Listing", &[]).await;
    first.granted(spec("a").with_holder("pod-one")).await;
    second.granted(spec("b").with_holder("pod-two")).await;
    for sidecar in [&first, &second] {
        let request = leasehold_client::ListLocks::default();
        let page = sidecar.client().await.list_locks(request).await.unwrap();
        let seen: Vec<_> = page
            .records
            .iter()
            .map(|record| (record.holder.as_str(), record.state, record.held_here))
            .collect();
        let here = |name: &str| {
            sidecar.endpoint()
                == if name == "pod-one" { first.endpoint() } else { second.endpoint() }
        };
        let expected = ["pod-one", "pod-two"].map(|name| (name, LockState::Held, here(name)));
        assert_eq!(seen, expected);
        let listed = Command::new(program())
            .args(["ls", "--endpoint", &sidecar.endpoint()])
            .output()
            .unwrap();
        let table = String::from_utf8(listed.stdout).unwrap();
        assert!(table.contains("pod-one") && table.contains("pod-two"), "{table}");
    }
}
