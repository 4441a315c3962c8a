//! A map of which there is one a lock, and which has one entry nearly always: that one needs no table.

use std::collections::HashMap;
use std::hash::Hash;

/// A map that is small while it has one entry or none.
#[derive(Debug)]
#[expect(clippy::box_collection, reason = "a table has 48 bytes, and nearly none is needed")]
pub(in crate::coordinator) struct Few<K, V> {
    one: Option<(K, V)>,
    /// The others, while there are any.
    more: Option<Box<HashMap<K, V>>>,
}

impl<K, V> Default for Few<K, V> {
    fn default() -> Self {
        Self { one: None, more: None }
    }
}

impl<K: Copy + Eq + Hash, V> Few<K, V> {
    pub(in crate::coordinator) fn get(&self, key: &K) -> Option<&V> {
        match &self.one {
            Some((one, value)) if one == key => Some(value),
            Some(_) | None => self.more.as_ref()?.get(key),
        }
    }

    pub(in crate::coordinator) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match &mut self.one {
            Some((one, value)) if one == key => Some(value),
            Some(_) | None => self.more.as_mut()?.get_mut(key),
        }
    }

    pub(in crate::coordinator) fn insert(&mut self, key: K, value: V) {
        match &mut self.one {
            Some((one, former)) if *one == key => *former = value,
            None if self.more.is_none() => self.one = Some((key, value)),
            Some(_) | None => {
                self.more.get_or_insert_default().insert(key, value);
            }
        }
    }

    pub(in crate::coordinator) fn remove(&mut self, key: &K) -> Option<V> {
        if let Some((_, value)) = self.one.take_if(|(one, _)| one == key) {
            return Some(value);
        }
        let value = self.more.as_mut()?.remove(key);
        self.more.take_if(|more| more.is_empty());
        value
    }

    pub(in crate::coordinator) fn retain(&mut self, mut stays: impl FnMut(&K, &mut V) -> bool) {
        self.one.take_if(|(key, value)| !stays(key, value));
        if let Some(more) = &mut self.more {
            more.retain(stays);
        }
        self.more.take_if(|more| more.is_empty());
    }

    /// Takes all out.
    pub(in crate::coordinator) fn drain(&mut self) -> impl Iterator<Item = (K, V)> {
        let more = self.more.take().into_iter().flat_map(|more| *more);
        self.one.take().into_iter().chain(more)
    }

    pub(in crate::coordinator) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let more = self.more.iter().flat_map(|more| more.iter());
        self.one.iter().map(|(key, value)| (key, value)).chain(more)
    }

    pub(in crate::coordinator) const fn is_empty(&self) -> bool {
        self.one.is_none() && self.more.is_none()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0_u8..5, 0_u8..4, any::<u8>()), 0..60)) {
            let (mut few, mut map) = (Few::default(), HashMap::new());
            for (step, key, value) in steps {
                match step {
                    0 | 1 => {
                        few.insert(key, value);
                        map.insert(key, value);
                    }
                    2 => prop_assert_eq!(few.remove(&key), map.remove(&key)),
                    3 => {
                        few.retain(|other, _| *other != key);
                        map.retain(|other, _| *other != key);
                    }
                    _ => prop_assert_eq!(few.get_mut(&key), map.get_mut(&key)),
                }
                prop_assert_eq!(few.get(&key), map.get(&key));
                prop_assert_eq!(few.is_empty(), map.is_empty());
                prop_assert_eq!(&few.iter().map(|(key, value)| (*key, *value)).collect::<HashMap<_, _>>(), &map);
            }
            prop_assert_eq!(few.drain().collect::<HashMap<_, _>>(), map);
            prop_assert!(few.is_empty());
        }
    }
}
