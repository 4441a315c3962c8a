//! Scenarios of a lock that several may hold at once (S28 to S32).

use std::collections::BTreeSet;

use serde_json::json;

use crate::clients::driver::Driver;
use crate::clients::sidecar::Sidecar;

/// How many may hold the lock.
const PERMITS: u64 = 2;

pub(crate) async fn permits(driver: &mut Driver, _: &mut Sidecar) {
    let spec = json!({ "function": "pool", "permits": PERMITS });
    let mut permits = Vec::new();
    for holder in ["a", "b"] {
        driver.tell(holder, "hold", spec.clone()).await;
        permits.push(driver.event(holder, "granted").await["permit"].as_u64().unwrap());
    }
    assert_eq!(BTreeSet::from_iter(permits.clone()), (0..PERMITS).collect(), "S28");
    driver.tell("c", "hold", spec.clone()).await;
    let busy = driver.event("c", "busy").await;
    assert_eq!(busy["held_permits"], PERMITS, "S29: {busy}");
    let mut waits = spec.clone();
    waits["wait_forever"] = true.into();
    driver.tell("d", "hold", waits).await;
    driver.event("d", "waiting").await;
    driver.save("b", "of one permit").await;
    driver.release("b").await;
    let granted = driver.event("d", "granted").await;
    // The permit that became available, with what its last holder has left.
    assert_eq!(granted["permit"], permits[1], "S30: {granted}");
    assert_eq!(granted["checkpoint"], "of one permit", "S28: {granted}");
    driver.release("d").await;
    driver.release("a").await;
}
