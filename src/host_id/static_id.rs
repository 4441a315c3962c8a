//! `static`: as given.

use super::{HostIdProvider, HostIdentity, ProviderError, host_type_of};
use crate::lock::{HostId, HostType};

/// Returns the host id that it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticId {
    host_id: HostId,
    host_type: Option<HostType>,
}

impl StaticId {
    /// The provider for `host_id`. Without a `host_type`, the host id stands for it, and two deployments that
    /// were given the same one cannot be told apart.
    #[must_use]
    pub const fn new(host_id: HostId, host_type: Option<HostType>) -> Self {
        Self { host_id, host_type }
    }
}

impl HostIdProvider for StaticId {
    fn provide(&self) -> Result<HostIdentity, ProviderError> {
        let host_type = match &self.host_type {
            Some(host_type) => host_type.clone(),
            None => host_type_of("static", self.host_id.as_str())?,
        };
        Ok(HostIdentity {
            host_id: self.host_id.clone(),
            host_type,
            provider: "static".to_owned(),
            warnings: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_id_is_as_given() {
        let host_id = HostId::parse("billing-eu").unwrap();
        let identity = StaticId::new(host_id.clone(), None).provide().unwrap();
        assert_eq!((identity.host_id, identity.host_type.as_str()), (host_id, "billing-eu"));
    }

    #[test]
    fn a_host_type_tells_deployments_with_the_same_host_id_apart() {
        let host_id = HostId::parse("billing-eu").unwrap();
        let host_type = HostType::parse("Billing").unwrap();
        let identity = StaticId::new(host_id, Some(host_type.clone())).provide().unwrap();
        assert_eq!(identity.host_type, host_type);
    }
}
