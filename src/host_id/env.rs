//! `env`: hashed from the value of an environment variable.

use std::env::VarError;

use super::host_type::host_id_of;
use super::{HostIdProvider, HostIdentity, ProviderError, host_type_of};

/// Returns a host id hashed from the value that a variable has when asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Env {
    variable: String,
}

impl Env {
    /// The provider that reads `variable`.
    #[must_use]
    pub fn new(variable: impl Into<String>) -> Self {
        Self { variable: variable.into() }
    }

    fn identity(&self, value: Result<String, VarError>) -> Result<HostIdentity, ProviderError> {
        let unusable =
            |problem| ProviderError::Variable { variable: self.variable.clone(), problem };
        let value = value.map_err(|error| match error {
            VarError::NotPresent => unusable("not set"),
            VarError::NotUnicode(_) => unusable("not UTF-8"),
        })?;
        if value.trim().is_empty() {
            return Err(unusable("empty"));
        }
        let host_type = host_type_of("env", &value)?;
        Ok(HostIdentity {
            host_id: host_id_of(&host_type),
            host_type,
            provider: "env".to_owned(),
            warnings: Vec::new(),
        })
    }
}

impl HostIdProvider for Env {
    fn provide(&self) -> Result<HostIdentity, ProviderError> {
        self.identity(std::env::var(&self.variable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_type_is_the_value() {
        let identity = Env::new("DEPLOYMENT").identity(Ok("Keeper-A".to_owned())).unwrap();
        assert_eq!(identity.host_type.as_str(), "Keeper-A");
        assert_eq!(identity.host_id.as_str(), "739df1faf6c08e78a883736d006f2964");
    }

    #[test]
    fn the_variable_is_read_when_asked() {
        let identity = Env::new("PATH").provide().unwrap();
        assert!(std::env::var("PATH").unwrap().starts_with(identity.host_type.as_str()));
    }

    #[test]
    fn unset_and_empty_name_the_variable() {
        let provider = Env::new("LEASEHOLD_TEST_SET_BY_NOBODY");
        let unset = provider.provide().unwrap_err().to_string();
        assert!(unset.contains("LEASEHOLD_TEST_SET_BY_NOBODY, which is not set"), "{unset}");
        let empty = provider.identity(Ok(" ".to_owned())).unwrap_err().to_string();
        assert!(empty.contains("which is empty"), "{empty}");
    }
}
