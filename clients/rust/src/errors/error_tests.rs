use std::collections::HashMap;

use tonic_types::ErrorDetails;

use super::*;

fn refusal(error: Error) -> Refusal {
    let Error::Refused(refusal) = error else {
        panic!("{error}");
    };
    *refusal
}

#[test]
fn s19_field_violations_are_data() {
    let mut details = ErrorDetails::new();
    details
        .set_error_info("INVALID_FIELD", DOMAIN, HashMap::new())
        .add_bad_request_violation("spec.wait", "is 25 h; 0 to 24 h are allowed");
    let status =
        Status::with_error_details(tonic::Code::InvalidArgument, "one field is wrong", details);
    let refusal = refusal(Error::refused(&status));
    assert_eq!(refusal.reason, Some(Reason::InvalidField));
    assert_eq!(refusal.violations[0].field, "spec.wait");
    assert_eq!(
        refusal.to_string(),
        "one field is wrong; spec.wait: is 25 h; 0 to 24 h are allowed"
    );
}

#[test]
fn a_reason_of_another_domain_is_none() {
    let mut details = ErrorDetails::new();
    details.set_error_info("HOLD_LOST", "example.com", HashMap::new());
    let status = Status::with_error_details(tonic::Code::FailedPrecondition, "no", details);
    assert_eq!(Error::refused(&status).reason(), None);
}

#[test]
fn an_unknown_reason_keeps_its_name() {
    assert_eq!(Reason::parse("NEW_ONE").as_str(), "NEW_ONE");
    assert_eq!(Reason::parse("SUPERSEDED"), Reason::Superseded);
}

#[test]
fn every_documented_reason_is_known() {
    let mut seen = 0;
    for number in (1..100).filter(|number| proto::ErrorReason::try_from(*number).is_ok()) {
        let reason = Reason::from_wire(number);
        assert!(!matches!(reason, Reason::Other(_)), "{number}");
        seen += 1;
    }
    assert_eq!(seen, 35);
    assert_eq!(Reason::from_wire(13), Reason::StoreUnavailable);
    assert_eq!(Reason::from_wire(99), Reason::Other("99".to_owned()));
}
