use super::*;

#[test]
fn s20_only_the_first_sentence_of_a_refusal_is_told() {
    let description = "AADSTS7000215: Invalid client secret provided. Trace ID: 1234 Secret: hush";
    let told = first_sentence(description);
    assert!(told.contains("AADSTS7000215") && !told.contains("hush"), "{told}");
}
