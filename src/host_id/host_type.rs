//! `host-type`, the default: hashed from the name of the deployment's kind of host.

use sha2::{Digest as _, Sha256};

use super::{HostIdProvider, HostIdentity, ProviderError, Warning, host_id_of_uuid};
use crate::lock::{HostId, HostType};

/// The host type of a sidecar without a configured one.
pub const DEFAULT_HOST_TYPE: &str = "default";

/// Keeps host ids of this algorithm apart from any other use of SHA-256 over the same text.
const DOMAIN: &[u8] = b"leasehold/host-id/v1\0";

/// Returns a host id hashed from a host type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromHostType {
    host_type: HostType,
}

impl FromHostType {
    /// The provider for `host_type`.
    #[must_use]
    pub const fn new(host_type: HostType) -> Self {
        Self { host_type }
    }
}

impl HostIdProvider for FromHostType {
    fn provide(&self) -> Result<HostIdentity, ProviderError> {
        let unnamed = self.host_type.as_str() == DEFAULT_HOST_TYPE;
        Ok(HostIdentity {
            host_id: host_id_of(&self.host_type),
            host_type: self.host_type.clone(),
            provider: "host-type".to_owned(),
            warnings: unnamed.then_some(Warning::DefaultHostType).into_iter().collect(),
        })
    }
}

/// SHA-256 of the domain and the host type; its first 16 bytes as a UUID v8, in 32 hex digits.
pub(super) fn host_id_of(host_type: &HostType) -> HostId {
    let digest = Sha256::new().chain_update(DOMAIN).chain_update(host_type.as_str()).finalize();
    let mut bytes = [0; 16];
    for (byte, from) in bytes.iter_mut().zip(digest) {
        *byte = from;
    }
    host_id_of_uuid(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_ids_are_those_of_the_design() {
        for (text, host_id) in [
            ("Keeper-A", "739df1faf6c08e78a883736d006f2964"),
            ("Keeper-Unknown", "56f4ff5312b8848a8d96be8e472d5360"),
            ("Unknown", "52a7de23a8748f76b1ac2d0b2ecaeb2f"),
            (
                "MyJobs, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null",
                "deb6785eaa8888e4942cc8d65061196a",
            ),
            ("orders-worker", "5b0c82e5ff3f81daa80e50f85f04fe65"),
            ("Zürich-日本", "2ab6a72a9d0a8684949d0693ed21aa58"),
        ] {
            let identity = FromHostType::new(HostType::parse(text).unwrap()).provide().unwrap();
            assert_eq!(identity.host_id.as_str(), host_id, "{text}");
            assert_eq!(identity.host_type.as_str(), text);
            assert_eq!(identity.warnings, []);
        }
    }

    #[test]
    fn an_unnamed_deployment_is_warned() {
        let host_type = HostType::parse(DEFAULT_HOST_TYPE).unwrap();
        let identity = FromHostType::new(host_type).provide().unwrap();
        assert_eq!(identity.warnings, [Warning::DefaultHostType]);
    }
}
