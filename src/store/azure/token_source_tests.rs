use super::*;
use crate::store::Secret;
use crate::store::azure::wire::{Asked, Carried, Wire};
use crate::testing::SimClock;

#[test]
fn s20_only_the_first_sentence_of_a_refusal_is_told() {
    let description = "AADSTS7000215: Invalid client secret provided. Trace ID: 1234 Secret: hush";
    let told = first_sentence(description);
    assert!(told.contains("AADSTS7000215") && !told.contains("hush"), "{told}");
}

/// Refuses every sign-in at 15 January 2027, 09:00, which is an hour after the simulated wall clock's time.
#[derive(Debug)]
struct Refuses;

#[async_trait]
impl Wire for Refuses {
    async fn carry(&self, _asked: Asked) -> Carried {
        let date = ("date".to_owned(), "Fri, 15 Jan 2027 09:00:00 GMT".to_owned());
        Carried::Answer { status: 401, headers: vec![date], body: "{}".to_owned() }
    }
}

#[tokio::test]
async fn s3_a_sign_in_that_was_refused_is_repeated_by_the_identity_endpoints_clock() {
    let method = AzureCredential::ClientSecret {
        tenant_id: "tenant".to_owned(),
        client_id: "client".to_owned(),
        secret: Secret::new("hush"),
    };
    let clock = Arc::new(SimClock::new());
    let network = Network::Wire(Arc::new(Refuses));
    let source = TokenSource::new(method, None, None, clock as _, &network).unwrap();
    assert_eq!(source.time.now().seconds(), 1_800_000_000);
    source.fetch().await.unwrap_err();
    assert_eq!(source.time.now().seconds(), 1_800_003_600);
}
