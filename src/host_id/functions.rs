//! `functions`: what the Azure Functions host makes of its site's name.

use super::{HostIdProvider, HostIdentity, ProviderError, Warning, host_type_of};
use crate::lock::HostId;

/// Characters that the Functions host keeps of a site's name.
const KEPT: usize = 32;

/// Returns the host id of an Azure Functions host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Functions {
    site_name: String,
}

impl Functions {
    /// The provider for a site's name (`WEBSITE_SITE_NAME`, with `-` and the slot's name unless it is
    /// production).
    #[must_use]
    pub fn new(site_name: impl Into<String>) -> Self {
        Self { site_name: site_name.into() }
    }
}

impl HostIdProvider for Functions {
    /// Cut to 32 characters, lower case, trailing dashes removed. The host type is the whole name, so that
    /// cut names that collide show.
    fn provide(&self) -> Result<HostIdentity, ProviderError> {
        let host_type = host_type_of("functions", &self.site_name)?;
        let kept: String = self.site_name.chars().take(KEPT).collect();
        let cut = kept.len() < self.site_name.len();
        let host_id = HostId::parse(kept.to_lowercase().trim_end_matches('-'))
            .map_err(|source| ProviderError::HostId { provider: "functions", source })?;
        let warning = Warning::Cut { site_name: self.site_name.clone(), host_id: host_id.clone() };
        Ok(HostIdentity {
            host_id,
            host_type,
            provider: "functions".to_owned(),
            warnings: cut.then_some(warning).into_iter().collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_ids_are_those_of_the_functions_host() {
        for (site_name, host_id, cut) in [
            ("TEST-FUNCTIONS--", "test-functions", false),
            ("TEST-FUNCTIONS-XXXXXXXXXXXXXXXXX", "test-functions-xxxxxxxxxxxxxxxxx", false),
            ("TEST-FUNCTIONS-XXXXXXXXXXXXXXXXXX", "test-functions-xxxxxxxxxxxxxxxxx", true),
            ("TEST-FUNCTIONS-XXXXXXXXXXXXXXXX-X", "test-functions-xxxxxxxxxxxxxxxx", true),
            ("Orders", "orders", false),
        ] {
            let identity = Functions::new(site_name).provide().unwrap();
            assert_eq!(identity.host_id.as_str(), host_id, "{site_name}");
            assert_eq!(identity.host_type.as_str(), site_name);
            let warning =
                Warning::Cut { site_name: site_name.to_owned(), host_id: identity.host_id };
            assert_eq!(identity.warnings, Vec::from_iter(cut.then_some(warning)));
        }
    }

    #[test]
    fn s19_a_name_that_gives_no_host_id_is_refused() {
        for site_name in ["a--b", "---", "a b"] {
            let error = Functions::new(site_name).provide().unwrap_err();
            assert!(matches!(error, ProviderError::HostId { .. }), "{site_name}");
        }
        assert!(matches!(Functions::new("").provide(), Err(ProviderError::HostType { .. })));
    }
}
