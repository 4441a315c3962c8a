//! Where a host id comes from: the provider trait, and one file a provider.
//!
//! Rules: the paths design (equal host ids share locks, and nothing else does), S19 (a host id keeps its
//! rule). May import: lock. To add a provider: a file here with vectors in its tests, an arm in [`Provider`],
//! and what can go wrong in [`ProviderError`]; its name and its settings in `config/host_id.rs`, each setting
//! with a row in `refuse_unread`, which the compiler does not ask for; a row and an example in
//! `docs/paths.md`. The chart offers some of them: `hostId` in its values and their schema, and its
//! `_sidecar.tpl`.

mod env;
mod exec;
mod functions;
mod host_type;
mod kubernetes;
mod static_id;
mod webjobs;

use std::fmt;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

pub use env::Env;
pub use exec::Exec;
pub use functions::Functions;
pub use host_type::{DEFAULT_HOST_TYPE, FromHostType};
pub use kubernetes::Kubernetes;
pub use static_id::StaticId;
pub use webjobs::WebJobs;

use crate::lock::{HostId, HostIdError, HostType, HostTypeError};

/// Determines the host id of a deployment's locks.
///
/// # Contract
/// Every replica of a deployment gets the same host id, now and after a restart; deployments that may run
/// side by side get different ones. So it depends on nothing that changes by itself: pod name, start time,
/// library version. It is asked once, at start, and may take a few seconds.
pub trait HostIdProvider: Send + Sync + fmt::Debug {
    /// The host id, and where it comes from.
    ///
    /// # Errors
    /// When there is none, or it does not keep the rule of host ids.
    fn provide(&self) -> Result<HostIdentity, ProviderError>;
}

/// What a provider returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostIdentity {
    /// The namespace of the deployment's locks.
    pub host_id: HostId,
    /// What is stored with each lock: two deployments that share a host id by accident show by it.
    pub host_type: HostType,
    /// The provider's name, for people.
    pub provider: String,
    /// What the operator should be told at start.
    pub warnings: Vec<Warning>,
}

/// A host id that is valid, but may be shared by accident.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// Nobody named the kind of host.
    #[error(
        "the host type is {DEFAULT_HOST_TYPE:?}: every deployment that keeps its locks in the same store and does not \
         set host_id.host_type shares its locks with this one"
    )]
    DefaultHostType,
    /// The site's name was cut, and cut names collide.
    #[error(
        "the site name {site_name:?} was cut to the host id {host_id}: another site whose name begins with the same \
         32 characters shares its locks with this one"
    )]
    Cut {
        /// The whole name.
        site_name: String,
        /// What remained of it.
        host_id: HostId,
    },
}

/// Why a provider returns no host id. None is retried: the start fails, and the error says what to change.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// What it returned is not a valid host id.
    #[error("the host-id provider {provider} returned no valid host id")]
    HostId {
        /// The provider's name.
        provider: &'static str,
        /// The rule, and what broke it.
        #[source]
        source: HostIdError,
    },
    /// The host type that it returned is not valid.
    #[error("the host-id provider {provider} returned no valid host type: {text:?}")]
    HostType {
        /// The provider's name.
        provider: &'static str,
        /// What it was given.
        text: String,
        /// The rule that it breaks.
        #[source]
        source: HostTypeError,
    },
    /// The variable of the provider `env` is not set, or is not UTF-8.
    #[error(
        "the host-id provider env reads the variable {variable}, which is {problem}: set it, or name another"
    )]
    Variable {
        /// The variable's name.
        variable: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The command of the provider `exec` could not be started.
    #[error("the host-id command {command:?} could not be started")]
    NotStarted {
        /// The program that was to be run.
        command: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The command did not end in time, and was killed.
    #[error(
        "the host-id command {command:?} was killed: it did not end, or did not close its output, within {} s",
        limit.as_secs()
    )]
    TimedOut {
        /// The program that was run.
        command: String,
        /// The time it had.
        limit: Duration,
    },
    /// The command ended with an error.
    #[error("the host-id command {command:?} failed ({status}) and wrote {stderr:?}")]
    Failed {
        /// The program that was run.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// The beginning of what it wrote to standard error.
        stderr: String,
    },
    /// A provider of an embedder failed.
    #[error("the host-id provider failed")]
    Other(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The providers that configuration can choose, with what each needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    /// The host id is hashed from the host type.
    HostType(FromHostType),
    /// The host id is given.
    Static(StaticId),
    /// The host id is what WebJobs hosts hash from their name.
    WebJobs(WebJobs),
    /// The host id is what the Azure Functions host makes of its site's name.
    Functions(Functions),
    /// The host id is hashed from the namespace and the owner of the pod.
    Kubernetes(Kubernetes),
    /// The host id is hashed from a variable.
    Env(Env),
    /// The host id is what a command prints.
    Exec(Exec),
}

impl Provider {
    /// The provider as the trait.
    #[must_use]
    pub fn as_dyn(&self) -> &dyn HostIdProvider {
        match self {
            Self::HostType(provider) => provider,
            Self::Static(provider) => provider,
            Self::WebJobs(provider) => provider,
            Self::Functions(provider) => provider,
            Self::Kubernetes(provider) => provider,
            Self::Env(provider) => provider,
            Self::Exec(provider) => provider,
        }
    }

    /// How a request's `host_type` becomes a host id: as WebJobs hosts do where that is the provider, else by
    /// the algorithm of `host-type`.
    #[must_use]
    pub const fn host_id_of(&self) -> fn(&HostType) -> HostId {
        match self {
            Self::WebJobs(_) => webjobs::host_id_of,
            Self::HostType(_)
            | Self::Static(_)
            | Self::Functions(_)
            | Self::Kubernetes(_)
            | Self::Env(_)
            | Self::Exec(_) => host_type::host_id_of,
        }
    }
}

impl HostIdProvider for Provider {
    fn provide(&self) -> Result<HostIdentity, ProviderError> {
        self.as_dyn().provide()
    }
}

fn host_type_of(provider: &'static str, text: &str) -> Result<HostType, ProviderError> {
    HostType::parse(text).map_err(|source| ProviderError::HostType {
        provider,
        text: text.chars().take(80).collect(),
        source,
    })
}

/// The 32 hex digits of a UUID as a host id.
fn host_id_of_uuid(uuid: uuid::Uuid) -> HostId {
    #[expect(
        clippy::expect_used,
        reason = "32 lower-case hex digits always keep the rule of host ids"
    )]
    HostId::parse(&uuid.simple().to_string()).expect("hex digits are a host id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_mapped_as_the_configured_provider_maps() {
        let keeper = HostType::parse("Keeper-A").unwrap();
        let webjobs = Provider::WebJobs(WebJobs::new(keeper.clone()));
        assert_eq!(webjobs.host_id_of()(&keeper).as_str(), "4b0611c2b06a92981657b5b4d45d8231");
        let hashed = Provider::HostType(FromHostType::new(keeper.clone()));
        assert_eq!(hashed.host_id_of()(&keeper).as_str(), "739df1faf6c08e78a883736d006f2964");
        assert_eq!(hashed.provide().unwrap().host_id, hashed.host_id_of()(&keeper));
    }

    #[test]
    fn an_embedder_passes_its_own() {
        #[derive(Debug)]
        struct Own;
        impl HostIdProvider for Own {
            fn provide(&self) -> Result<HostIdentity, ProviderError> {
                let host_type = host_type_of("own", "Own")?;
                let host_id = HostId::parse("not a host id")
                    .map_err(|source| ProviderError::HostId { provider: "own", source })?;
                Ok(HostIdentity {
                    host_id,
                    host_type,
                    provider: "own".to_owned(),
                    warnings: vec![],
                })
            }
        }
        let provider: Box<dyn HostIdProvider> = Box::new(Own);
        let error = provider.provide().unwrap_err();
        let rule = std::error::Error::source(&error).unwrap().to_string();
        assert!(rule.contains("^[a-z0-9](-?[a-z0-9]){0,31}$"), "{rule}");
    }
}
