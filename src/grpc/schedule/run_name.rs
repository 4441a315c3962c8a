//! Run ids as callers have them: with the lock's key where its path hides the function, so that the caller's
//! rights can be checked when it completes the run (S16, T8).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::coordinator::Target;
use crate::lock::{HostType, Layout, LockKey, LockMode, LockPath, Namespace};

/// Between a run id and the key: none of the letters of either.
const MARK: char = '.';
/// The longest key as text: function and scope of a schedule have 256 bytes together, a host type as many.
const MAX_BYTES: usize = 2_048;

/// The key of a run's lock. Anybody can make one: it counts only where the run's path is made from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunKey {
    function: String,
    scope: String,
    mode: String,
    /// In the layout whose names are made from it too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host_type: Option<String>,
}

impl RunKey {
    /// That of a lock, unless its path shows the function.
    pub(super) fn of(target: &Target, namespace: &Namespace) -> Option<Self> {
        let hidden = namespace.function_of(&target.path).is_none();
        let hashed = namespace.layout == Layout::Hashed;
        hidden.then(|| Self {
            function: target.key.function().to_owned(),
            scope: target.key.scope().to_owned(),
            mode: target.key.mode().as_str().to_owned(),
            host_type: hashed.then(|| target.host_type.to_string()),
        })
    }

    /// The run id and the key in a caller's text.
    pub(super) fn split(text: &str) -> (&str, Option<&str>) {
        text.split_once(MARK).map_or((text, None), |(id, key)| (id, Some(key)))
    }

    /// Reads what [`Self::split`] has found.
    pub(super) fn read(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok().filter(|_| text.len() <= MAX_BYTES)?;
        serde_json::from_slice(&bytes).ok()
    }

    /// The lock at `path`, if that is made from this key.
    pub(super) fn target(
        &self,
        path: &LockPath,
        namespace: &Namespace,
        own: &HostType,
    ) -> Option<Target> {
        let modes = [LockMode::Function, LockMode::Listener];
        let mode = modes.into_iter().find(|mode| mode.as_str() == self.mode)?;
        let key = LockKey::new(&self.function, &self.scope, mode).ok()?;
        let host_id = namespace.host_id_of(path)?;
        let host_type = match &self.host_type {
            Some(text) => HostType::parse(text).ok()?,
            None => own.clone(),
        };
        let made = namespace.lock_path(&host_id, &host_type, &key).ok()?;
        (made == *path).then_some(Target { path: made, host_id, host_type, key })
    }
}

impl fmt::Display for RunKey {
    /// What follows the run id.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A struct of plain strings always has a JSON form.
        let json = serde_json::to_vec(self).unwrap_or_default();
        write!(formatter, "{MARK}{}", URL_SAFE_NO_PAD.encode(json))
    }
}

#[cfg(test)]
mod tests {
    use crate::lock::{Container, HostId, Prefix};

    use super::*;

    fn namespace(layout: Layout) -> Namespace {
        let container = Container::parse("leasehold").unwrap();
        Namespace { container, prefix: Prefix::parse("locks").unwrap(), layout }
    }

    fn target(namespace: &Namespace, function: &str) -> Target {
        let host_id = HostId::parse("keeper-1").unwrap();
        let host_type = HostType::parse("Keeper").unwrap();
        let key = LockKey::new(function, "eu", LockMode::Function).unwrap();
        let path = namespace.lock_path(&host_id, &host_type, &key).unwrap();
        Target { path, host_id, host_type, key }
    }

    #[test]
    fn s16_a_key_counts_only_for_the_path_that_is_made_from_it() {
        let long = "é".repeat(100);
        for (layout, function) in [(Layout::Hashed, "nightly"), (Layout::Readable, long.as_str())] {
            let namespace = namespace(layout);
            let (own, other) = (target(&namespace, function), target(&namespace, "payroll"));
            let key = RunKey::of(&own, &namespace).unwrap();
            let text = format!("id{key}");
            let (id, found) = RunKey::split(&text);
            assert_eq!((id, RunKey::read(found.unwrap())), ("id", Some(key.clone())));
            let own_type = HostType::parse("Another").unwrap();
            let made = key.target(&own.path, &namespace, &own_type).unwrap();
            assert_eq!((made.path, made.key), (own.path, own.key));
            assert!(key.target(&other.path, &namespace, &own_type).is_none());
        }
        let namespace = namespace(Layout::Readable);
        assert_eq!(
            RunKey::of(&target(&namespace, "nightly"), &namespace),
            None,
            "the path shows it"
        );
    }
}
