//! What was read, saved and answered, noted outside of the clients, and the proof from it that no save was
//! lost.

use std::collections::{BTreeMap, BTreeSet};

use leasehold::testing::{TraceEvent, Traced};

/// A counter as it is stored in a checkpoint: the number, and which increment wrote it. Zero, by nobody, if
/// none is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counter {
    pub(super) count: u64,
    pub(super) by: String,
}

impl Counter {
    /// As it is stored.
    pub(super) fn text(&self) -> String {
        format!("{} {}", self.count, self.by)
    }

    /// From what a grant carries.
    pub(super) fn read(checkpoint: Option<&str>) -> Self {
        let Some((count, by)) = checkpoint.map(|text| text.split_once(' ').unwrap()) else {
            return Self::default();
        };
        Self { count: count.parse().unwrap(), by: by.to_owned() }
    }

    /// What the increment called `by` makes of it.
    pub(super) fn incremented(&self, by: String) -> Self {
        Self { count: self.count + 1, by }
    }
}

/// What the writer of a counter was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The store has it.
    Saved,
    /// The store does not have it (S24).
    NotSaved,
    /// Nothing, or that nobody knows.
    Unknown,
}

/// One increment of a lock's counter.
#[derive(Clone, Debug)]
pub(super) struct Save {
    pub(super) lock: String,
    pub(super) token: u64,
    pub(super) counter: Counter,
    pub(super) answer: Answer,
    /// Where it was told: a release tells none.
    pub(super) version: Option<u64>,
}

/// The counter that a grant carried.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) lock: String,
    pub(super) token: u64,
    pub(super) counter: Counter,
}

/// The control: the same counter in a place that takes every write.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unchecked {
    pub(super) stored: u64,
    /// How many increments were written.
    pub(super) written: u64,
}

#[derive(Debug, Default)]
pub(super) struct Journal {
    pub(super) reads: Vec<Read>,
    pub(super) saves: Vec<Save>,
    pub(super) unchecked: BTreeMap<String, Unchecked>,
    pub(super) traced: Vec<TraceEvent>,
}

impl Journal {
    /// Notes what a job was told of a lock, or ended, at a moment of the boot clock in nanoseconds.
    pub(super) fn trace(&mut self, at: u64, job: &str, lock: &str, what: Traced) {
        let (process, path) = (job.to_owned(), lock.to_owned());
        self.traced.push(TraceEvent { at: at / 1_000, process, path, what });
    }

    /// Writes to the unchecked counter of a lock, whoever has the lock by now.
    pub(super) fn write_unchecked(&mut self, lock: &str, count: u64) {
        let unchecked = self.unchecked.entry(lock.to_owned()).or_default();
        unchecked.stored = count;
        unchecked.written += 1;
    }

    pub(super) fn unchecked(&self, lock: &str) -> Unchecked {
        self.unchecked.get(lock).copied().unwrap_or_default()
    }

    /// What happened, for people.
    pub(super) fn figures(&self) -> String {
        let told = |answer| self.saves.iter().filter(|save| save.answer == answer).count();
        let of_each = self.unchecked.keys().filter_map(|lock| {
            let of_it = self.reads.iter().filter(|read| read.lock == *lock);
            of_it.max_by_key(|read| read.token)
        });
        let counted: u64 = of_each.map(|read| read.counter.count).sum();
        let written: u64 = self.unchecked.values().map(|unchecked| unchecked.written).sum();
        format!(
            "{} grants; increments: {} acknowledged, {} told as not saved, {} unknown; counted: {counted}; \
             unchecked: {} of {written} lost",
            self.reads.len(),
            told(Answer::Saved),
            told(Answer::NotSaved),
            told(Answer::Unknown),
            self.lost_unchecked(),
        )
    }

    /// Increments of the unchecked counters that are gone.
    pub(super) fn lost_unchecked(&self) -> u64 {
        self.unchecked.values().map(|unchecked| unchecked.written - unchecked.stored).sum()
    }
}

/// S23 to S27: whatever speaks against it that each acknowledged increment stands, none that was told as not
/// stored does, and versions follow. The last read of each lock is the final one.
pub(super) fn problems(reads: &[Read], saves: &[Save]) -> Vec<String> {
    let locks: BTreeSet<&str> = reads.iter().map(|read| read.lock.as_str()).collect();
    let mut problems = Vec::new();
    for lock in locks {
        let mut reads: Vec<&Read> = reads.iter().filter(|read| read.lock == lock).collect();
        reads.sort_by_key(|read| read.token);
        let saves: Vec<&Save> = saves.iter().filter(|save| save.lock == lock).collect();
        problems.extend(unordered(&reads));
        problems.extend(unwritten(&reads, &saves));
        problems.extend(lost(&reads, &saves));
        problems.extend(miscounted(&reads, &saves));
        problems.extend(versions(&saves));
    }
    problems
}

/// S25: what later grants carry is never older.
fn unordered(reads: &[&Read]) -> Vec<String> {
    let pairs = reads.windows(2).filter(|pair| {
        let (before, after) = (&pair[0].counter, &pair[1].counter);
        after.count < before.count || (after.count == before.count && after.by != before.by)
    });
    pairs.map(|pair| format!("S25: went back: {:?}, then {:?}", pair[0], pair[1])).collect()
}

/// S24: what a grant carries was saved, and nobody was told that it was not.
fn unwritten(reads: &[&Read], saves: &[&Save]) -> Vec<String> {
    let is_stored = |read: &&&Read| {
        read.counter == Counter::default()
            || saves
                .iter()
                .any(|save| save.counter == read.counter && save.answer != Answer::NotSaved)
    };
    let found = reads.iter().filter(|read| !is_stored(read));
    found.map(|read| format!("S24: read what was not saved: {read:?}")).collect()
}

/// S24, S27: what was acknowledged is in every later grant, or what was made of it.
fn lost(reads: &[&Read], saves: &[&Save]) -> Vec<String> {
    let mut problems = Vec::new();
    for save in saves.iter().filter(|save| save.answer == Answer::Saved) {
        let is_gone = |read: &&&Read| {
            read.token > save.token
                && (read.counter.count < save.counter.count
                    || (read.counter.count == save.counter.count && read.counter != save.counter))
        };
        if let Some(read) = reads.iter().find(is_gone) {
            problems.push(format!("S24: lost: {save:?} is not in {read:?}"));
        }
    }
    problems
}

/// The end: all that were acknowledged were counted, and nothing else but what nobody knows of.
fn miscounted(reads: &[&Read], saves: &[&Save]) -> Option<String> {
    let told = |answer| saves.iter().filter(|save| save.answer == answer).count() as u64;
    let (acknowledged, unknown) = (told(Answer::Saved), told(Answer::Unknown));
    let last = reads.last()?;
    let is_right = (acknowledged..=acknowledged + unknown).contains(&last.counter.count);
    (!is_right).then(|| {
        format!(
            "S24: {acknowledged} were acknowledged, {unknown} are unknown, and the end is {last:?}"
        )
    })
}

/// S23: versions follow the order of grants, and are no less than the token.
fn versions(saves: &[&Save]) -> Vec<String> {
    let mut told: Vec<(&Save, u64)> =
        saves.iter().filter_map(|save| Some((*save, save.version?))).collect();
    told.sort_by_key(|(save, _)| (save.token, save.counter.count));
    let below = told.iter().filter(|(save, version)| *version < save.token);
    let mut problems: Vec<String> =
        below.map(|(save, _)| format!("S23: below its token: {save:?}")).collect();
    let pairs = told.windows(2).filter(|pair| pair[1].1 <= pair[0].1);
    problems
        .extend(pairs.map(|pair| format!("S23: not greater: {:?}, then {:?}", pair[0], pair[1])));
    problems
}

/// S28: who was granted a permit that there is none of.
pub(super) fn beyond(traced: &[TraceEvent], permits: u32) -> Vec<String> {
    let permit = |path: &str| path.rsplit_once('~')?.1.parse::<u32>().ok();
    let found = traced.iter().filter(|event| permit(&event.path).is_none_or(|one| one >= permits));
    found.map(|event| format!("S28: no permit of {permits}: {event:?}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(text: &str) -> Counter {
        Counter::read(Some(text))
    }

    fn read(token: u64, text: &str) -> Read {
        Read { lock: "a".to_owned(), token, counter: counter(text) }
    }

    fn save(token: u64, text: &str, answer: Answer) -> Save {
        let version = (answer == Answer::Saved).then_some(token + 1);
        Save { lock: "a".to_owned(), token, counter: counter(text), answer, version }
    }

    fn found(reads: &[Read], saves: &[Save]) -> Vec<String> {
        problems(reads, saves).into_iter().map(|problem| problem[..3].to_owned()).collect()
    }

    #[test]
    fn a_counter_is_read_as_it_was_written() {
        let first = Counter::read(None).incremented("go-1".to_owned());
        assert_eq!(Counter::read(Some(&first.text())), first);
        assert_eq!((first.count, first.by.as_str()), (1, "go-1"));
    }

    #[test]
    fn s24_an_acknowledged_save_that_is_lost_is_found() {
        let saves = [
            save(10, "1 a", Answer::Saved),
            save(20, "2 b", Answer::Saved),
            save(30, "3 c", Answer::Saved),
        ];
        let reads = |last: &str| [read(20, "1 a"), read(30, "2 b"), read(40, last)];
        assert_eq!(found(&reads("3 c"), &saves), [""; 0]);
        assert!(found(&reads("2 b"), &saves).contains(&"S24".to_owned()));
        // Overwritten by one that had read before it.
        let twice = [save(10, "1 a", Answer::Saved), save(20, "1 b", Answer::Saved)];
        assert!(found(&[read(20, "1 a"), read(30, "1 b")], &twice).contains(&"S24".to_owned()));
    }

    #[test]
    fn s24_what_was_told_as_not_stored_or_never_written_is_found() {
        for (answer, problems) in [(Answer::NotSaved, 2), (Answer::Unknown, 0)] {
            let found = found(&[read(20, "1 a")], &[save(10, "1 a", answer)]);
            assert_eq!(found.len(), problems, "{found:?}");
        }
        assert!(!found(&[read(20, "1 x")], &[save(10, "1 a", Answer::Unknown)]).is_empty());
    }

    #[test]
    fn s25_a_counter_that_goes_back_or_is_another_is_found() {
        let saves = [save(10, "1 a", Answer::Unknown), save(10, "2 a", Answer::Unknown)];
        let reads = [read(20, "2 a"), read(30, "1 a")];
        assert_eq!(found(&reads, &saves), ["S25"]);
        let saves = [save(10, "1 a", Answer::Unknown), save(20, "1 b", Answer::Unknown)];
        assert_eq!(found(&[read(30, "1 a"), read(40, "1 b")], &saves), ["S25"]);
    }

    #[test]
    fn s23_versions_that_do_not_grow_are_found() {
        let mut saves = [save(10, "1 a", Answer::Saved), save(20, "2 b", Answer::Saved)];
        let reads = [read(20, "1 a"), read(30, "2 b")];
        assert_eq!(found(&reads, &saves), [""; 0]);
        saves[0].version = Some(21);
        assert_eq!(found(&reads, &saves), ["S23"]);
        (saves[0].version, saves[1].version) = (Some(11), Some(19));
        assert_eq!(found(&reads, &saves), ["S23"]);
    }

    #[test]
    fn the_unchecked_counter_loses_what_a_late_writer_had_not_read() {
        let mut journal = Journal::default();
        let late = journal.unchecked("a").stored + 1;
        for _ in 0..3 {
            journal.write_unchecked("a", journal.unchecked("a").stored + 1);
        }
        assert_eq!(journal.lost_unchecked(), 0);
        journal.write_unchecked("a", late);
        assert_eq!(journal.lost_unchecked(), 3);
    }

    #[test]
    fn s28_a_permit_beyond_the_last_is_found() {
        let mut journal = Journal::default();
        journal.trace(1_000, "one", "pool~1", Traced::Died);
        assert_eq!(beyond(&journal.traced, 2).len(), 0);
        assert_eq!(beyond(&journal.traced, 1).len(), 1);
    }
}
