//! How much memory the sidecar may use, and what fits into it: the defaults of the limits come from here, so
//! that callers cannot fill the container (S38).

use std::path::Path;

use super::listen::Limits;
use super::setting::Setting;
use super::sources::Context;
use super::value::{Given, Value};

const MIB: u64 = 1024 * 1024;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// The least and the most that a sidecar can be told to use.
const LEAST: Bytes = Bytes(32 * MIB);
const MOST: Bytes = Bytes(1024 * 1024 * MIB);
/// What it may use where nothing limits it.
const USUAL: Bytes = Bytes(256 * MIB);

/// What the program needs without callers: itself, its store, its page, and what the allocator keeps.
const PROGRAM: u64 = 24 * MIB;
/// What one of each costs at the most, as measured, with names as long as they can be (docs/sizing.md).
const HOLD: u64 = 24 * 1024;
const WAITER: u64 = 16 * 1024;
const WATCHER: u64 = 64 * 1024;
/// One that makes calls, or none yet.
const CONNECTION: u64 = 32 * 1024;
/// Listeners that have so many connections each.
const LISTENERS: u64 = 2;

/// What fits into so much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    connections: usize,
    holds: usize,
    waiters: usize,
    watchers: usize,
    /// Bytes of the records that are kept for watchers of many locks.
    followed: usize,
    /// Bytes of requests that are not complete, and half of those of calls under way and answers that are not
    /// read.
    under_way: usize,
}

impl Budget {
    /// Three tenths are for connections, three twentieths for calls under way. Of the rest, holds have half,
    /// with as many resumes beside them, waiters three tenths, and watchers two, a quarter of it for each by
    /// itself and three for the records of the locks that they follow.
    fn of(memory: Bytes) -> Self {
        let free = memory.0.saturating_sub(PROGRAM).max(MIB);
        let (connections, under_way) = (free * 3 / 10, free / 20);
        let rest = free - connections - 3 * under_way;
        let number = |bytes: u64, each: u64, most: u64| {
            usize::try_from((bytes / each).clamp(1, most)).unwrap_or(usize::MAX)
        };
        Self {
            connections: number(connections, CONNECTION * LISTENERS, 4_096),
            holds: number(rest / 2, 2 * HOLD, 20_000),
            waiters: number(rest * 3 / 10, WAITER, 20_000),
            watchers: number(rest / 20, WATCHER, 4_096),
            followed: number(rest * 3 / 20, 1, u64::MAX),
            under_way: number(under_way, 1, 64 * MIB),
        }
    }

    /// The setting's value or default, which other defaults come from.
    fn found(context: &Context<'_>) -> Self {
        let given = context.given("limits.memory").and_then(|text| parse(text).ok());
        Self::of(given.unwrap_or_else(|| of_container(context)))
    }
}

pub(super) fn memory(context: &Context<'_>) -> Option<String> {
    Some(of_container(context).text())
}

pub(super) fn connections(context: &Context<'_>) -> Option<String> {
    Some(Budget::found(context).connections.to_string())
}

pub(super) fn holds(context: &Context<'_>) -> Option<String> {
    Some(Budget::found(context).holds.to_string())
}

/// As many as holds, whatever their number is.
pub(super) fn resumes(context: &Context<'_>) -> Option<String> {
    let holds = context.number("limits.holds");
    Some(holds.unwrap_or_else(|| Budget::found(context).holds.to_string()))
}

pub(super) fn waiters(context: &Context<'_>) -> Option<String> {
    Some(Budget::found(context).waiters.to_string())
}

pub(super) fn watchers(context: &Context<'_>) -> Option<String> {
    Some(Budget::found(context).watchers.to_string())
}

/// Bytes of the records that are kept for watchers of many locks.
pub(super) fn followed(memory: Bytes) -> usize {
    Budget::of(memory).followed
}

/// Bytes of all requests that are not complete; there are twice as many for calls under way and answers that
/// are not read.
pub(super) fn under_way(memory: Bytes) -> usize {
    Budget::of(memory).under_way
}

/// What limits together need, if that is more than `limits.memory`.
pub(super) fn excess(limits: &Limits) -> Option<Bytes> {
    let each = [
        (limits.connections, CONNECTION * LISTENERS),
        (limits.holds, HOLD),
        (limits.resumes, HOLD),
        (limits.waiters, WAITER),
        (limits.watchers, WATCHER),
        (limits.followed_bytes, 1),
        (limits.unfinished_bytes, 1),
        (limits.unread_bytes, 1),
    ];
    let cost = |(number, each): (usize, u64)| {
        u64::try_from(number).unwrap_or(u64::MAX).saturating_mul(each)
    };
    let sum = each.into_iter().map(cost).fold(PROGRAM, u64::saturating_add);
    (sum > limits.memory.0).then_some(Bytes(sum))
}

/// Three quarters of what the container may use; the rest is the kernel's, and the allocator's.
fn of_container(context: &Context<'_>) -> Bytes {
    let read = |path: &Path| {
        let bytes = (context.sources.read_file)(path).ok()?;
        String::from_utf8(bytes).ok()
    };
    let limit = limit_of_container(read);
    limit.map_or(USUAL, |limit| Bytes(limit / 4 * 3).clamp(LEAST, MOST))
}

/// The limit of the control group of this process, which is the container's, or the least of those above it.
fn limit_of_container(read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    const ROOT: &str = "/sys/fs/cgroup";
    /// Version 1 writes "no limit" as nearly 2^63.
    const NO_LIMIT: u64 = 1 << 60;
    let number = |path: &Path| {
        let limit: u64 = read(path)?.trim().parse().ok()?;
        (limit < NO_LIMIT).then_some(limit)
    };
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let second = Path::new(own)
        .ancestors()
        .filter_map(|group| number(&Path::new(ROOT).join(group).join("memory.max")));
    let first = number(Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
    second.chain(first).min()
}

fn parse(text: &str) -> Result<Bytes, String> {
    let wrong = || {
        let (least, most) = (LEAST.text(), MOST.text());
        format!(
            "must be an amount of memory from {least} to {most}, with its unit, such as \"{}\"",
            USUAL.text()
        )
    };
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim() {
        "KiB" => 1024,
        "MiB" => MIB,
        "GiB" => 1024 * MIB,
        _ => return Err(wrong()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes.map(Bytes).filter(|bytes| (LEAST..=MOST).contains(bytes)).ok_or_else(wrong)
}

impl Bytes {
    /// As people write it; a part of a KiB is left out.
    #[must_use]
    pub fn text(self) -> String {
        match self.0 {
            whole if whole % MIB == 0 => format!("{}MiB", whole / MIB),
            odd => format!("{}KiB", odd / 1024),
        }
    }
}

impl Value for Bytes {
    fn parse(_: &Setting, given: &Given) -> Result<Self, String> {
        parse(given.text().unwrap_or_default())
    }

    fn to_toml(&self) -> toml::Value {
        toml::Value::String(self.text())
    }

    fn describe(_: &Setting) -> String {
        format!("amount of memory, `{}` to `{}`", LEAST.text(), MOST.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(memory: Bytes) -> Limits {
        let Budget { connections, holds, waiters, watchers, followed, under_way } =
            Budget::of(memory);
        Limits {
            memory,
            connections,
            streams_per_connection: 256,
            holds,
            resumes: holds,
            waiters,
            watchers,
            remembered_locks: 5_000,
            starts_per_second: 50,
            header_list_bytes: 16_384,
            followed_bytes: followed,
            unfinished_bytes: under_way,
            unread_bytes: 2 * under_way,
            worker_threads: 1,
        }
    }

    #[test]
    fn s38_the_defaults_fit_into_the_memory_together() {
        for mib in [32, 48, 64, 96, 192, 256, 1_000, 8_000, 1_000_000] {
            let limits = limits(Bytes(mib * MIB));
            assert_eq!(excess(&limits), None, "{mib} MiB: {limits:?}");
            assert!(limits.holds >= 1 && limits.waiters >= 1 && limits.watchers >= 1);
        }
        let usual = limits(USUAL);
        assert!(usual.connections >= 1_000, "{usual:?}");
        let more = Limits { waiters: usual.waiters + 10_000, ..usual };
        assert!(excess(&more) > Some(USUAL));
    }

    #[test]
    fn s38_the_container_says_how_much_there_is() {
        let found = |files: &[(&str, &str)]| {
            limit_of_container(|path| {
                let file = files.iter().find(|(name, _)| Path::new(name) == path);
                file.map(|(_, text)| (*text).to_owned())
            })
        };
        let group = ("/proc/self/cgroup", "0::/\n");
        assert_eq!(found(&[]), None);
        assert_eq!(
            found(&[group, ("/sys/fs/cgroup/memory.max", "134217728\n")]),
            Some(134_217_728)
        );
        assert_eq!(found(&[group, ("/sys/fs/cgroup/memory.max", "max\n")]), None);
        let service =
            ("/proc/self/cgroup", "1:name=systemd:/x\n0::/system.slice/leasehold.service\n");
        let slice = ("/sys/fs/cgroup/system.slice/memory.max", "3000\n");
        let own = ("/sys/fs/cgroup/system.slice/leasehold.service/memory.max", "5000\n");
        assert_eq!(found(&[service, own]), Some(5_000));
        assert_eq!(found(&[service, own, slice]), Some(3_000));
        let first = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
        assert_eq!(found(&[(first, "9223372036854771712\n")]), None);
        assert_eq!(found(&[(first, "4000\n")]), Some(4_000));
    }

    #[test]
    fn amounts_are_written_with_their_units() {
        assert_eq!(parse("96MiB"), Ok(Bytes(96 * MIB)));
        assert_eq!(parse("1 GiB"), Ok(Bytes(1024 * MIB)));
        assert_eq!(parse(&Bytes(100_000 * 1024).text()), Ok(Bytes(100_000 * 1024)));
        for wrong in
            ["", "96", "96MB", "MiB", "-96MiB", "1MiB", "99999999999999999999GiB", "2000GiB"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
