use super::*;

fn refusal(status: u16, code: &str) -> Refusal {
    Refusal {
        status,
        code: code.to_owned(),
        request_id: "r-1".to_owned(),
        retry_after: None,
        date: None,
    }
}

#[test]
fn s8_a_conflict_that_nobody_knows_ends_a_hold_and_fails_an_acquire() {
    for request in [Request::Renew, Request::Release, Request::Write] {
        for status in [409, 412] {
            let error = refusal(status, "SomethingNew").into_conflict(request);
            assert_eq!(error.kind(), "lease_lost", "{request:?} {status}");
        }
    }
    assert_eq!(refusal(409, "SomethingNew").into_conflict(Request::Acquire).kind(), "fatal");
}

#[test]
fn what_is_asked_decides_what_a_conflict_means() {
    let kind = |code: &str, request| refusal(409, code).into_conflict(request).kind();
    assert_eq!(kind("LeaseNotPresentWithLeaseOperation", Request::Break), "not_held");
    assert_eq!(kind("LeaseNotPresentWithLeaseOperation", Request::Renew), "lease_lost");
    assert_eq!(kind("LeaseIdMissing", Request::Delete), "contended");
    assert_eq!(kind("LeaseIdMissing", Request::Write), "lease_lost");
    assert_eq!(kind("ContainerBeingDeleted", Request::Acquire), "unavailable");
    assert_eq!(kind("ContainerBeingDeleted", Request::Renew), "not_found");
    assert_eq!(kind("LeaseIsBreakingAndCannotBeAcquired", Request::Acquire), "contended");
}

#[test]
fn a_failure_that_trying_again_does_not_mend_says_what_to_do() {
    for (code, advice) in [
        ("InvalidHeaderValue", "REST version"),
        ("MetadataTooLarge", "labels"),
        ("InvalidBlobType", "container of their own"),
        ("", "check the endpoint"),
    ] {
        let error = refusal(400, code).into_fatal(Request::Write);
        assert!(error.to_string().contains(advice), "{error}");
    }
}
