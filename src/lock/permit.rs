//! Permits: a lock that up to N callers may hold at once (S28).

use std::fmt;

use super::{Layout, LockMode, LockPath, Namespace};

/// How many callers may hold a lock at once: 1 to 32 (S28). A plain lock is a pool of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permits(u8);

/// One of the permits of a lock, counted from 0: each is a lock of its own (S28). Permit 0 is the plain lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permit(u8);

/// A number of permits that no lock has (S28).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a lock has 1 to 32 permits; {count} were asked for")]
pub struct PermitsError {
    /// What was given.
    pub count: u32,
}

impl Permits {
    /// A plain lock.
    pub const ONE: Self = Self(1);
    /// As many as a lock may have.
    pub const MAX: Self = Self(32);

    /// Checks `count`: 1 to 32.
    ///
    /// # Errors
    /// When it is outside this range.
    pub fn new(count: u32) -> Result<Self, PermitsError> {
        match u8::try_from(count) {
            Ok(number) if (Self::ONE.0..=Self::MAX.0).contains(&number) => Ok(Self(number)),
            Ok(_) | Err(_) => Err(PermitsError { count }),
        }
    }

    /// The number, 1 to 32.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Whether `permit` is one of so many.
    #[must_use]
    pub const fn contains(self, permit: Permit) -> bool {
        permit.0 < self.0
    }

    /// All of them, from permit 0.
    pub fn each(self) -> impl DoubleEndedIterator<Item = Permit> {
        (0..self.0).map(Permit)
    }
}

impl fmt::Display for Permits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Permit {
    /// The permit whose path is the lock's own.
    pub const FIRST: Self = Self(0);

    /// The permit of this number, 0 to 31; none beyond.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number < Permits::MAX.0 { Some(Self(number)) } else { None }
    }

    /// The number, 0 to 31.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Permit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Stands before the number of a permit: no lock name of the layouts that know permits ends in it and a
/// number (S28).
const MARK: char = '~';
/// The length of a name of the layout `hashed`.
const HASHED_NAME: usize = 64;

impl LockPath {
    /// The path of a permit of the lock whose own path this is: the same for permit 0, else the path, `~` and
    /// the number. It is no path below the lock's, which accounts with a hierarchical namespace would refuse
    /// (S28).
    #[must_use]
    pub fn permit(&self, permit: Permit) -> Self {
        match permit {
            Permit::FIRST => self.clone(),
            permit => self.renamed(&format!("{}{MARK}{permit}", self.name())),
        }
    }
}

impl Namespace {
    /// The lock that `path` is a permit of, and which (S28). Permit 0 has the lock's own path.
    #[must_use]
    pub fn permit_of(&self, path: &LockPath) -> (LockPath, Permit) {
        self.split_permit(path).unwrap_or_else(|| (path.clone(), Permit::FIRST))
    }

    fn split_permit(&self, path: &LockPath) -> Option<(LockPath, Permit)> {
        let (lock, number) = path.name().rsplit_once(MARK)?;
        let last = lock.rsplit('/').next()?;
        let is_lock = match self.layout {
            Layout::WebJobs => false,
            Layout::Readable => [LockMode::Function, LockMode::Listener]
                .into_iter()
                .any(|mode| mode.as_str() == last),
            Layout::Hashed => {
                last.len() == HASHED_NAME && last.bytes().all(|byte| byte.is_ascii_hexdigit())
            }
        };
        let permit = Permit::new(number.parse().ok()?)?;
        // A number is written in one way only.
        let is_own = permit != Permit::FIRST && number == permit.to_string();
        (is_lock && is_own).then(|| (path.renamed(lock), permit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{Container, Prefix};

    #[test]
    fn s28_a_lock_has_1_to_32_permits() {
        assert_eq!(Permits::new(1), Ok(Permits::ONE));
        assert_eq!(Permits::new(32), Ok(Permits::MAX));
        for count in [0, 33, 256, 257, u32::MAX] {
            assert_eq!(Permits::new(count), Err(PermitsError { count }));
        }
        assert_eq!(Permit::new(31).map(Permit::number), Some(31));
        assert_eq!(Permit::new(32), None);
        let three = Permits::new(3).unwrap();
        assert_eq!(three.each().map(Permit::number).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(three.each().all(|permit| three.contains(permit)));
        assert_eq!(Permit::new(3).map(|permit| three.contains(permit)), Some(false));
    }

    #[test]
    fn s28_only_what_has_the_shape_of_a_hash_has_permits_in_the_layout_hashed() {
        let container = Container::parse("locks").unwrap();
        let prefix = Prefix::parse("v1").unwrap();
        let namespace = Namespace { container: container.clone(), prefix, layout: Layout::Hashed };
        let number = |last: &str| {
            let path = LockPath::from_parts(&container, &format!("v1/{last}{MARK}3"));
            namespace.split_permit(&path).map(|(_, permit)| permit.number())
        };
        assert_eq!(number(&"a".repeat(HASHED_NAME)), Some(3));
        assert_eq!(number(&"a".repeat(HASHED_NAME - 1)), None);
        assert_eq!(number(&"x".repeat(HASHED_NAME)), None);
    }
}
