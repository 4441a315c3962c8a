//! What carries requests: HTTP over the network, or a wire of a test.

use std::sync::Arc;
use std::time::Duration;

use azure_core::http::HttpClient;

use super::connections::Connections;
use super::settings::AzureSettingsError;
#[cfg(feature = "testing")]
use super::wire::{Wire, Wired};

/// Where HTTP clients come from.
#[derive(Clone, Debug)]
pub(super) enum Network {
    /// Clients of the machine's network.
    System,
    /// None: the process itself answers.
    #[cfg(feature = "testing")]
    Wire(Arc<dyn Wire>),
}

impl Network {
    /// A client whose requests take no longer than this.
    pub(super) fn client(
        &self,
        timeout: Duration,
    ) -> Result<Arc<dyn HttpClient>, AzureSettingsError> {
        Ok(match self {
            Self::System => Arc::new(Connections::new(timeout)?),
            #[cfg(feature = "testing")]
            Self::Wire(wire) => Arc::new(Wired { wire: Arc::clone(wire), timeout }),
        })
    }

    /// Whether the SDK may try again by itself: the times of its retries are not a test's to say.
    pub(super) const fn retries(&self) -> bool {
        match self {
            Self::System => true,
            #[cfg(feature = "testing")]
            Self::Wire(_) => false,
        }
    }
}
