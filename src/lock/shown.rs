//! What a lock path shows: the host id, the function, the key.

use super::encoding::decode;
use super::path::readable_name;
use super::{HostId, Layout, LockKey, LockMode, LockPath, Namespace};

impl Namespace {
    /// The name of `path` in this namespace, the host id first; none if the path is not in it.
    #[must_use]
    pub fn name_of<'path>(&self, path: &'path LockPath) -> Option<&'path str> {
        let inside = path.container() == self.container.as_str();
        let name = path.name();
        let own = if self.prefix.as_str().is_empty() {
            Some(name)
        } else {
            name.strip_prefix(self.prefix.as_str()).and_then(|rest| rest.strip_prefix('/'))
        };
        own.filter(|_| inside)
    }

    /// The host id in `path`, if it shows one.
    #[must_use]
    pub fn host_id_of(&self, path: &LockPath) -> Option<HostId> {
        let (host_id, _) = self.name_of(path)?.split_once('/')?;
        HostId::parse(host_id).ok()
    }

    /// The function in `path`, if it shows the whole of it; in the layout `webjobs`, where several keys have
    /// one name, that name.
    #[must_use]
    pub fn function_of(&self, path: &LockPath) -> Option<String> {
        let (_, lock_name) = self.name_of(path)?.split_once('/')?;
        match self.layout {
            Layout::Hashed => None,
            Layout::WebJobs => Some(lock_name.to_owned()),
            Layout::Readable => part_of(lock_name.split('/').next()?),
        }
    }

    /// The key of `path`, if it shows the whole of it: in the layout `readable`, unless a part is too long
    /// for that.
    #[must_use]
    pub fn key_of(&self, path: &LockPath) -> Option<LockKey> {
        let lock_name = match self.layout {
            Layout::Readable => self.name_of(path)?.split_once('/')?.1,
            Layout::Hashed | Layout::WebJobs => return None,
        };
        let mut parts = lock_name.split('/');
        let (function, scope) = (part_of(parts.next()?)?, part_of(parts.next()?)?);
        let mode = parts.next()?;
        let modes = [LockMode::Function, LockMode::Listener];
        let mode = modes.into_iter().find(|known| known.as_str() == mode)?;
        let key = LockKey::new(&function, &scope, mode).ok()?;
        (readable_name(&key) == lock_name).then_some(key)
    }
}

/// What a readable part was made from, unless it was cut.
fn part_of(encoded: &str) -> Option<String> {
    match encoded {
        "~" => Some(String::new()),
        cut if cut.contains('~') => None,
        encoded => Some(decode(encoded)),
    }
}
