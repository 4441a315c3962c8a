//! Other credentials for the same account: secrets in files are replaced while the sidecar runs.

use std::sync::{Arc, PoisonError};

use tokio::sync::watch;

use super::{AzureSettings, AzureSettingsError, AzureStore};
use crate::lock::Container;
use crate::store::{LeaseStoreExt as _, StoreError};
use crate::time::UnixMillis;

impl AzureStore {
    /// When the shared access signature in use ends, and each change of that; none without one that says so.
    #[must_use]
    pub fn signature_end(&self) -> watch::Receiver<Option<UnixMillis>> {
        self.signature_end.subscribe()
    }

    /// Signs in by other credentials from now on, once the service has answered a look for `container` with
    /// them. Until then, and when it refuses them, the former ones stay in use. Requests under way end as
    /// they began.
    ///
    /// # Errors
    /// When the settings cannot be used or are for another account (`Fatal`), and whatever the look came to.
    pub async fn sign_in_by(
        &self,
        settings: &AzureSettings,
        container: &Container,
    ) -> Result<(), StoreError> {
        let unusable = |error: AzureSettingsError| StoreError::Fatal {
            advice: "correct the credentials of the store".to_owned(),
            source: Box::new(error),
        };
        let renewed =
            Self::on(&self.network, settings, Arc::clone(&self.clock)).map_err(unusable)?;
        if renewed.account != self.account {
            let shown = |(host, path): &(String, String)| format!("{host}{path}");
            let (other, own) = (shown(&renewed.account), shown(&self.account));
            return Err(unusable(AzureSettingsError::AnotherAccount { other, own }));
        }
        match renewed.check(container).await {
            // Of a container that is missing only credentials that count are told.
            Ok(_) | Err(StoreError::ContainerMissing { .. }) => {}
            Err(error) => return Err(error),
        }
        *self.clients.write().unwrap_or_else(PoisonError::into_inner) = renewed.clients();
        self.signature_end.send_replace(*renewed.signature_end.borrow());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ID, lease_id, path, service};
    use super::*;
    use crate::store::Secret;
    use crate::store::azure::AzureCredential;
    use crate::testing::{Reply, ScriptedHttp, SimClock};

    fn sas(endpoint: &str, more: &str) -> AzureSettings {
        let url = format!("{endpoint}/account/leasehold?sv=2025-11-05&sr=c&{more}");
        AzureSettings::new(AzureCredential::SasUrl(Secret::new(url)))
    }

    fn container() -> Container {
        Container::parse("leasehold").unwrap()
    }

    fn there() -> Reply {
        service(404, &[("x-ms-error-code", "BlobNotFound")])
    }

    #[tokio::test]
    async fn s20_another_signature_is_used_once_the_service_takes_it() {
        let denied = || service(403, &[("x-ms-error-code", "AuthenticationFailed")]);
        let renewed = || service(200, &[("x-ms-lease-id", ID)]);
        let replies =
            [renewed(), denied(), denied(), renewed(), there(), renewed(), Reply::Close, renewed()];
        let fake = ScriptedHttp::start(replies).await;
        let settings = |more| sas(fake.endpoint(), more);
        let first = settings("se=2027-03-01T00:00:00Z&sig=Zmlyc3Q");
        let store = AzureStore::new(&first, Arc::new(SimClock::new())).unwrap();
        let end = store.signature_end();
        let renew = async || store.renew(&path(), lease_id(), None).await.unwrap();
        renew().await;
        let wrong = settings("se=2027-04-01T00:00:00Z&sig=d3Jvbmc");
        let refused = store.sign_in_by(&wrong, &container()).await.unwrap_err();
        assert_eq!(refused.kind(), "denied", "{refused:?}");
        renew().await;
        let second = settings("se=2027-05-01T00:00:00Z&sig=c2Vjb25k");
        store.sign_in_by(&second, &container()).await.unwrap();
        renew().await;
        let third = settings("se=2027-06-01T00:00:00Z&sig=dGhpcmQ");
        let away = store.sign_in_by(&third, &container()).await.unwrap_err();
        assert_eq!(away.kind(), "unavailable", "{away:?}");
        renew().await;
        let used: Vec<&str> = ["Zmlyc3Q", "d3Jvbmc", "c2Vjb25k", "dGhpcmQ"].into();
        let asked = fake.asked();
        let by = asked.iter().map(|asked| {
            let found = used.iter().position(|signature| asked.target.contains(signature));
            found.unwrap()
        });
        assert_eq!(by.collect::<Vec<_>>(), [0, 1, 1, 0, 2, 2, 3, 2]);
        assert_eq!(*end.borrow(), Some(UnixMillis(1_809_129_600_000)), "of the one in use");
    }

    #[tokio::test]
    async fn s18_credentials_for_another_account_are_refused() {
        let fake = ScriptedHttp::start([there()]).await;
        let first = sas(fake.endpoint(), "sig=Zmlyc3Q");
        let store = AzureStore::new(&first, Arc::new(SimClock::new())).unwrap();
        let other = sas("https://other.blob.core.windows.net", "sig=c2Vjb25k");
        let refused = store.sign_in_by(&other, &container()).await.unwrap_err();
        assert_eq!((refused.kind(), fake.asked().len()), ("fatal", 0), "{refused:?}");
        let said = refused.chain();
        assert!(
            said.contains("other.blob.core.windows.net") && said.contains("127.0.0.1"),
            "{said}"
        );
    }

    /// The simulated wall clock stands at 15 January 2027, 08:00; the service's is an hour ahead.
    #[tokio::test]
    async fn s3_a_signature_that_begins_later_by_our_clock_only_is_used() {
        let renewed = || service(200, &[("x-ms-lease-id", ID)]);
        let fake = ScriptedHttp::start([renewed(), there(), renewed()]).await;
        let settings = |more| sas(fake.endpoint(), more);
        let first = settings("st=2027-01-15T09:00:00Z&sig=Zmlyc3Q");
        let store = AzureStore::new(&first, Arc::new(SimClock::new())).unwrap();
        store.renew(&path(), lease_id(), None).await.unwrap();
        let second = settings("st=2027-01-15T09:00:00Z&sig=c2Vjb25k");
        store.sign_in_by(&second, &container()).await.unwrap();
        store.renew(&path(), lease_id(), None).await.unwrap();
        assert!(fake.asked()[2].target.contains("c2Vjb25k"));
    }

    #[tokio::test]
    async fn s20_a_signature_that_begins_later_is_refused_with_both_times() {
        let denied = || {
            let code = ("x-ms-error-code", "AuthenticationFailed");
            service(403, &[code])
        };
        for (begins, is_told) in [
            ("2027-01-16T00:00:00Z", true),
            ("2027-01-15T08:00:01Z", true),
            ("2027-01-15", false),
            ("2026-12-01T00:00:00Z", false),
        ] {
            let fake = ScriptedHttp::start([denied(), denied()]).await;
            let settings = sas(fake.endpoint(), &format!("st={begins}&sig=eA"));
            let store = AzureStore::new(&settings, Arc::new(SimClock::new())).unwrap();
            let refused = store.renew(&path(), lease_id(), None).await.unwrap_err();
            let said = refused.chain();
            let told = said.contains(&format!("begins at {begins}"))
                && said.contains("2027-01-15T08:00:00Z");
            assert_eq!((refused.kind(), told), ("denied", is_told), "{said}");
        }
    }

    #[test]
    fn a_signature_for_one_container_names_it() {
        let container = |url: &str| AzureCredential::SasUrl(Secret::new(url)).container();
        let url = "https://a.blob.core.windows.net/locks?sr=c&sv=1&sig=eA";
        assert_eq!(container(url).as_deref(), Some("locks"));
        assert_eq!(container("https://a.blob.core.windows.net/?ss=b&sv=1&sig=eA"), None);
        assert_eq!(
            container("http://127.0.0.1:1/account/locks/?sr=c&sig=eA").as_deref(),
            Some("locks")
        );
    }
}
