//! What carries requests: HTTP over the network, or a wire of a test.

use std::sync::Arc;
use std::time::Duration;

use azure_core::http::{ExponentialRetryOptions, HttpClient, RetryOptions};
use azure_core::time::Duration as SdkDuration;

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

    /// How often the SDK tries again by itself: not over a wire, since their times are not a test's to say.
    pub(super) fn retries(&self, max_retries: u32, within: SdkDuration) -> RetryOptions {
        match self {
            Self::System => RetryOptions::exponential(ExponentialRetryOptions {
                max_retries,
                max_total_elapsed: within,
                ..ExponentialRetryOptions::default()
            }),
            #[cfg(feature = "testing")]
            Self::Wire(_) => RetryOptions::none(),
        }
    }
}
