//! The processes of the schedules' runs: `leasehold every` in several replicas, and what their jobs wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::faults::process::{self, Environment, program};

const JOB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/schedules/job.sh");

/// One schedule, and the folder that the jobs of all its replicas write to.
pub(super) struct Timer {
    pub(super) function: String,
    pub(super) period: u64,
    work: Duration,
    folder: tempfile::TempDir,
}

/// A step of a job, as `job.sh` writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) step: String,
    /// Unix seconds.
    pub(super) due: u64,
    pub(super) token: u64,
    pub(super) attempt: u32,
    pub(super) process: i32,
    pub(super) replica: String,
    /// In whole seconds, as the job was told.
    pub(super) late: u64,
}

/// How `leasehold every` says that a run was recorded; of an end that nobody has recorded it says more.
const RECORDED: &str = " ended: SUCCEEDED; ";
const RECORDED_LATE: &str = " ended: SUCCEEDED, recorded late";

impl Timer {
    pub(super) fn new(function: &str, period: u64, work: Duration) -> Self {
        Self { function: function.to_owned(), period, work, folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// When it is due: seconds of a minute, or counted from 1970.
    fn expression(&self) -> String {
        if 60_u64.is_multiple_of(self.period) && self.period < 60 {
            format!("*/{} * * * * *", self.period)
        } else {
            format!("{}s", self.period)
        }
    }

    /// The job and its arguments.
    fn command(&self) -> Vec<String> {
        let folder = self.folder.path().display().to_string();
        vec!["sh".into(), JOB.into(), folder, self.work.as_secs_f64().to_string()]
    }

    /// What the jobs did, in the order in which they did it.
    pub(super) fn journal(&self) -> Vec<Line> {
        let text = std::fs::read_to_string(self.path("journal")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(line).collect()
    }

    /// The occurrences whose effect was made, once for each time.
    pub(super) fn effects(&self) -> Vec<u64> {
        let text = std::fs::read_to_string(self.path("effects")).unwrap_or_default();
        text.lines().map(unix_seconds).collect()
    }

    /// Every occurrence from one to another.
    pub(super) fn between(&self, first: u64, last: u64) -> BTreeSet<u64> {
        (first..=last).filter(|second| second.is_multiple_of(self.period)).collect()
    }

    /// The run that goes on, by what the jobs wrote.
    pub(super) fn running(&self) -> Option<Line> {
        let last = self.journal().pop()?;
        (last.step == "start" && Path::new(&format!("/proc/{}", last.process)).exists())
            .then_some(last)
    }

    /// Runs the job once under the lock alone, as somebody does who has a clock and no schedule.
    pub(super) fn run_by_clock(&self, due: u64, replica: &str, environment: &Environment) -> Child {
        let at =
            humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + Duration::from_secs(due));
        let mut command = Command::new(program());
        command.args(["run", "--store", "azure", "--set", "store.azure.create_container=true"]);
        command.args(["--set", "host_id.host_type=Clocks-Alone"]);
        command.args(["--function", &self.function, "--wait", "1m", "--"]);
        command.args(self.command()).env("LEASEHOLD_SCHEDULED_AT", at.to_string());
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.env("REPLICA", replica).stdin(Stdio::null());
        command.spawn().unwrap()
    }
}

fn unix_seconds(text: &str) -> u64 {
    let at = humantime::parse_rfc3339(text).unwrap();
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

fn line(text: &str) -> Line {
    let mut words = text.split(' ');
    let mut word = || words.next().unwrap();
    Line {
        step: word().to_owned(),
        due: unix_seconds(word()),
        token: word().parse().unwrap(),
        attempt: word().parse().unwrap(),
        process: word().parse().unwrap(),
        replica: word().to_owned(),
        late: word().parse().unwrap(),
    }
}

/// `leasehold every` for one schedule, in one replica.
pub(super) struct Replica {
    pub(super) name: String,
    arguments: Vec<String>,
    environment: Environment,
    notes: PathBuf,
    child: Child,
    _folder: tempfile::TempDir,
}

impl Replica {
    /// One that asks by `way`: the flags of a sidecar, or of a store of its own.
    pub(super) fn start(timer: &Timer, name: &str, way: &[&str], environment: Environment) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let every = timer.expression();
        // Each is to be run, however often what runs it is killed.
        let policies =
            ["--catch-up", "all:100", "--retry", "100", "--backoff", "1s", "--timeout", "1m"];
        let mut arguments: Vec<String> =
            ["every", &every, "--function", &timer.function, "--lease-duration", "15s"]
                .into_iter()
                .chain(["--holder", name])
                .chain(policies)
                .chain(way.iter().copied())
                .map(str::to_owned)
                .collect();
        arguments.push("--".to_owned());
        arguments.extend(timer.command());
        let mut environment = environment;
        environment.push(("REPLICA", name.to_owned()));
        let notes = folder.path().join("notes");
        let child = spawn(&arguments, &environment, &notes);
        Self { name: name.to_owned(), arguments, environment, notes, child, _folder: folder }
    }

    pub(super) fn notes(&self) -> String {
        std::fs::read_to_string(&self.notes).unwrap()
    }

    /// What it said of the ends of its runs.
    pub(super) fn ended(&self) -> Vec<String> {
        let notes = self.notes();
        notes.lines().filter(|note| note.contains(" ended: ")).map(str::to_owned).collect()
    }

    /// The tokens of the runs that were recorded as succeeded, as it was told.
    pub(super) fn recorded(&self) -> Vec<u64> {
        let (mut token, mut recorded) = (0, Vec::new());
        for note in self.notes().lines() {
            if let Some((_, told)) = note.rsplit_once(", token ") {
                token = told.parse().unwrap();
            } else if note.contains(RECORDED) || note.contains(RECORDED_LATE) {
                recorded.push(token);
            }
        }
        recorded
    }

    /// Kills it, with proof; its job ends with it.
    pub(super) fn kill(&mut self) {
        process::kill(&mut self.child);
    }

    /// Kills it, and starts another in its place.
    pub(super) fn kill_and_start(&mut self) {
        self.kill();
        self.child = spawn(&self.arguments, &self.environment, &self.notes);
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{} wrote:\n{}", self.name, self.notes());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(arguments: &[String], environment: &Environment, notes: &Path) -> Child {
    let notes = File::options().create(true).append(true).open(notes).unwrap();
    let mut command = Command::new(program());
    command.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(notes);
    command.spawn().unwrap()
}

/// What was wrong with what the jobs of one schedule did from `first` to `last`, as far as it is known.
pub(super) fn problems(timer: &Timer, first: u64, last: u64, recorded: &[u64]) -> Vec<String> {
    let journal = timer.journal();
    let mut problems = Vec::new();
    let mut say = |what: String| problems.push(format!("{}: {what}", timer.function));
    for line in journal.iter().filter(|line| line.step == "overlap") {
        say(format!("T2: two runs at once: {line:?}"));
    }
    let mut times = BTreeMap::<u64, u32>::new();
    for due in timer.effects() {
        *times.entry(due).or_default() += 1;
    }
    for due in timer.between(first, last) {
        let made = times.get(&due).copied().unwrap_or_default();
        if made != 1 {
            say(format!("the effect of {due} was made {made} times"));
        }
    }
    let starts: Vec<&Line> = journal.iter().filter(|line| line.step == "start").collect();
    let mut recorded_of = BTreeMap::<u64, u64>::new();
    for token in recorded {
        match starts.iter().find(|line| line.token == *token) {
            None => say(format!("token {token} was recorded, and no job had it")),
            Some(line) => {
                if let Some(other) = recorded_of.insert(line.due, *token) {
                    say(format!("T2: {} was recorded with tokens {other} and {token}", line.due));
                }
            }
        }
    }
    for line in &starts {
        if recorded_of.get(&line.due).is_some_and(|token| *token < line.token) {
            say(format!("T2: run after it was recorded: {line:?}"));
        }
    }
    for pair in starts.windows(2) {
        if pair[0].token >= pair[1].token {
            say(format!("S5: {:?} before {:?}", pair[0], pair[1]));
        }
    }
    problems
}
