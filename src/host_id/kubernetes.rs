//! `kubernetes`: hashed from the pod's namespace and its owner's name.

use super::host_type::host_id_of;
use super::{HostIdProvider, HostIdentity, ProviderError, host_type_of};

/// Returns a host id hashed from `namespace/owner`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubernetes {
    namespace: String,
    owner: String,
}

impl Kubernetes {
    /// The provider for the pod's namespace and the name of what owns it: the Deployment, StatefulSet or
    /// CronJob, and never the ReplicaSet, whose name changes with each roll-out.
    #[must_use]
    pub fn new(namespace: impl Into<String>, owner: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), owner: owner.into() }
    }
}

impl HostIdProvider for Kubernetes {
    fn provide(&self) -> Result<HostIdentity, ProviderError> {
        let host_type = host_type_of("kubernetes", &format!("{}/{}", self.namespace, self.owner))?;
        Ok(HostIdentity {
            host_id: host_id_of(&host_type),
            host_type,
            provider: "kubernetes".to_owned(),
            warnings: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::HostType;

    #[test]
    fn the_host_type_is_namespace_and_owner() {
        let identity = Kubernetes::new("shop", "orders-worker").provide().unwrap();
        assert_eq!(identity.host_type.as_str(), "shop/orders-worker");
        assert_eq!(identity.host_id, host_id_of(&HostType::parse("shop/orders-worker").unwrap()));
        let elsewhere = Kubernetes::new("shop-test", "orders-worker").provide().unwrap();
        assert_ne!(identity.host_id, elsewhere.host_id);
    }
}
