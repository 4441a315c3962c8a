//! `webjobs`: what WebJobs hosts hash from their name, so that both share locks.

use md5::{Digest as _, Md5};

use super::{HostIdProvider, HostIdentity, ProviderError, host_id_of_uuid};
use crate::lock::{HostId, HostType};

/// Returns the host id of a WebJobs host (`DefaultHostIdProvider`, and providers built like it).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebJobs {
    host_name: HostType,
}

impl WebJobs {
    /// The provider for the text that the WebJobs host hashes: the full name of its assembly, unless its
    /// provider uses something else.
    #[must_use]
    pub const fn new(host_name: HostType) -> Self {
        Self { host_name }
    }
}

impl HostIdProvider for WebJobs {
    fn provide(&self) -> Result<HostIdentity, ProviderError> {
        Ok(HostIdentity {
            host_id: host_id_of(&self.host_name),
            host_type: self.host_name.clone(),
            provider: "webjobs".to_owned(),
            warnings: Vec::new(),
        })
    }
}

/// MD5 of the UTF-8 text, read as .NET's `Guid(byte[])` (first three fields little-endian), in format "N".
/// A name, not a protection: MD5 is what the other side uses.
pub(super) fn host_id_of(host_name: &HostType) -> HostId {
    let digest: [u8; 16] = Md5::digest(host_name.as_str()).into();
    host_id_of_uuid(uuid::Uuid::from_bytes_le(digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_ids_are_those_of_dotnet() {
        for (text, host_id) in [
            ("Keeper-A", "4b0611c2b06a92981657b5b4d45d8231"),
            ("Keeper-Unknown", "2024f7e209f7de4409577480fff110e2"),
            ("Unknown", "943b1888c56ce8f0c96b2e66e1c74a7e"),
            (
                "MyJobs, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null",
                "b5832e5c6f79070ef55fe8d712d47e78",
            ),
            ("orders-worker", "7f790f044874d5727692b1636c8cf2d1"),
            ("Zürich-日本", "1c54651c18b35f20631eb16fcd66533b"),
            ("myfunctionstestapp", "6606e225f163a70190e4f4357d3dad78"),
        ] {
            let identity = WebJobs::new(HostType::parse(text).unwrap()).provide().unwrap();
            assert_eq!(identity.host_id.as_str(), host_id, "{text}");
            assert_eq!(identity.host_type.as_str(), text);
        }
    }
}
