//! Checkpoints to which every holder adds (S23 to S27): each value is the list of the saves that it came of,
//! its own the last. So what was acknowledged and is not there any more is seen, and what comes too late.
//! What stands here is true of any store and of any sidecar, so tests/world judges by it too.

use std::collections::{BTreeMap, BTreeSet};

use leasehold::lock::FencingToken;
use leasehold::record::{Checkpoint, CheckpointValue, Fields, Record};

/// More saves than a value may name.
const MOST_SAVES: usize = 500;

pub(crate) fn checkpoint_of(fields: &Fields) -> Option<Checkpoint> {
    Checkpoint::from_lookup(|name| fields.get(name).map(String::as_str))
}

pub(crate) fn name_of(fields: &Fields) -> String {
    Record::from_fields(fields).write
}

/// The saves that a value came of.
pub(crate) fn log_of(checkpoint: Option<&Checkpoint>) -> Vec<u32> {
    let bytes = checkpoint.map(|checkpoint| checkpoint.value.as_bytes()).unwrap_or_default();
    bytes.chunks(4).map(|save| u32::from_be_bytes(save.try_into().unwrap())).collect()
}

/// What a save is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SaveAnswer {
    Stored {
        version: u64,
    },
    /// The hold is over: it is not stored.
    Ended,
    /// The store does not take it.
    Refused(String),
    Unknown,
}

/// What became of the saves of one lock.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    last: u32,
    /// How many saves have come to a sidecar, and as the how many-th each did.
    arrivals: u64,
    came: BTreeMap<u32, u64>,
    /// Those that the store has had, in a value of their own, and in that of a later one.
    own: BTreeSet<u32>,
    stored: BTreeSet<u32>,
    /// Which save each version is of.
    saves: BTreeMap<u64, u32>,
    /// How often each request that writes a save as its last has reached the store.
    reached: BTreeMap<(u32, String, u64), u32>,
    /// Those that were told as stored, and when, as saves go by.
    acknowledged: BTreeMap<u32, u32>,
    /// Those that went with a deletion, or for an older copy: they may be told as stored yet.
    gone: BTreeSet<u32>,
    /// Those that were told as not done.
    refused: BTreeSet<u32>,
    /// The checkpoint in the store, and the greatest version there ever was.
    newest: Option<Checkpoint>,
    version: u64,
    /// The greatest token that was granted.
    granted: u64,
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl Ledger {
    /// Another save of a client whose value came of `log` so far; none once values are long enough.
    pub(crate) fn next(&mut self, log: &mut Vec<u32>) -> Option<(u32, CheckpointValue)> {
        if log.len() >= MOST_SAVES {
            return None;
        }
        self.last += 1;
        log.push(self.last);
        let bytes: Vec<u8> = log.iter().flat_map(|save| save.to_be_bytes()).collect();
        Some((self.last, CheckpointValue::new(&bytes).unwrap()))
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// A sidecar is asked for a save.
    pub(crate) fn comes(&mut self, save: u32) {
        self.arrivals += 1;
        self.came.insert(save, self.arrivals);
    }

    /// A write has reached the store, by the request of this number: whether it changes the checkpoint.
    pub(crate) fn reached(&mut self, fields: &Fields, request: u64) -> bool {
        let checkpoint = checkpoint_of(fields);
        if let Some(save) = log_of(checkpoint.as_ref()).last() {
            *self.reached.entry((*save, name_of(fields), request)).or_default() += 1;
        }
        checkpoint != self.newest
    }

    /// Whether the network has repeated the write of a save: what its only answer says may be true of the
    /// second one.
    fn was_repeated(&self, save: u32) -> bool {
        let tries = self.reached.range((save, String::new(), 0)..(save + 1, String::new(), 0));
        tries.map(|(_, times)| *times).max().is_some_and(|times| times > 1)
    }

    /// The store has written the record.
    pub(crate) fn wrote(&mut self, fields: &Fields) -> Result<(), String> {
        let written = checkpoint_of(fields);
        if written == self.newest {
            return Ok(());
        }
        let Some(new) = written else {
            return Err(format!("S25: a write has dropped {:?}", self.newest));
        };
        let log = log_of(Some(&new));
        let save = log.last().copied().unwrap_or_default();
        if new.version <= self.version {
            let version = self.version;
            return Err(format!("S23: version {} is written after {version}", new.version));
        }
        if self.refused.contains(&save) && !self.was_repeated(save) {
            return Err(format!("S27: save {save} was told as not done, and is written"));
        }
        if new.token.value() < self.granted {
            let granted = self.granted;
            return Err(format!(
                "S27: save {save} of {} comes after the grant of {granted}",
                new.token
            ));
        }
        // Two calls at once have no order: one that was under way when the other was answered may come after
        // it.
        let before = self.acknowledged.len();
        self.acknowledged.retain(|other, since| log.contains(other) || save > *since);
        let overtaken = before - self.acknowledged.len();
        *self.counts.entry("saves: overtaken").or_default() += overtaken as u64;
        self.own.insert(save);
        self.saves.insert(new.version, save);
        self.stored.extend(log);
        self.version = new.version;
        self.newest = Some(new);
        Ok(())
    }

    /// Somebody has deleted the lock, or the store has gone back to an older copy: what is there counts. A
    /// lock that is made again too soon promises nothing about the order of its tokens (S5).
    pub(crate) fn reset(&mut self, fields: Option<&Fields>, too_soon: bool) {
        let checkpoint = fields.and_then(checkpoint_of);
        if checkpoint != self.newest {
            let log = log_of(checkpoint.as_ref());
            self.acknowledged.retain(|save, _| log.contains(save));
            self.gone.extend(self.stored.iter().filter(|save| !log.contains(save)));
            self.newest = checkpoint;
        }
        if too_soon {
            (self.version, self.granted) = (0, 0);
        }
    }

    /// A grant is told; whether later ones must have greater tokens, and whether an operator let two believe,
    /// is known (S5, S17).
    pub(crate) fn granted(
        &mut self,
        (token, counts): (FencingToken, bool),
        checkpoint: Option<&Checkpoint>,
        is_excused: bool,
    ) -> Result<(), String> {
        if counts {
            self.granted = self.granted.max(token.value());
        }
        let log = log_of(checkpoint);
        if let Some(before) = &self.newest
            && before.token.epoch() == token.epoch()
            && before.token < token
            && !log_of(Some(before))
                .iter()
                .all(|save| log.contains(save) || self.was_repeated(*save))
            && !is_excused
        {
            let save = log_of(Some(before)).last().copied().unwrap_or_default();
            return Err(format!("S13, S27: {token} is handed on, and save {save} was not settled"));
        }
        let lost = self.acknowledged.keys().find(|save| !log.contains(save));
        if let Some(save) = lost.filter(|_| !is_excused) {
            return Err(format!("S25: {token} is granted without save {save}"));
        }
        if let Some(save) = log.last().filter(|save| !self.own.contains(save)) {
            return Err(format!("S25: {token} is granted with save {save}, which is not stored"));
        }
        if checkpoint.is_some() {
            self.count("granted: with a checkpoint");
        }
        Ok(())
    }

    /// A save is answered.
    pub(crate) fn answered(&mut self, save: u32, answer: &SaveAnswer) -> Result<(), String> {
        match answer {
            SaveAnswer::Stored { version } => {
                self.count("saves: stored");
                let stored = self.stored.contains(&save);
                if stored && !self.gone.contains(&save) {
                    self.acknowledged.insert(save, self.last);
                }
                // One that came later, and whose client did not wait for this one, may have taken its place
                // (S26).
                let own = self.saves.get(version);
                let replaced = own.is_some_and(|own| self.came.get(own) > self.came.get(&save));
                if !stored && !replaced {
                    return Err(format!("S24: save {save} is told as stored, and is not"));
                }
            }
            SaveAnswer::Ended | SaveAnswer::Refused(_) => {
                let ended = *answer == SaveAnswer::Ended;
                self.count(if ended { "saves: ended" } else { "saves: refused" });
                self.refused.insert(save);
                let stands = self.own.contains(&save) && !self.gone.contains(&save);
                if stands && !self.was_repeated(save) {
                    return Err(format!("S27: save {save} is told as {answer:?}, and is stored"));
                }
            }
            SaveAnswer::Unknown => self.count("saves: unknown"),
        }
        Ok(())
    }
}
