//! A figure, and the table of all.

use std::time::Duration;

use leasehold::time::{Clock as _, Instant};

/// What was measured, and the goal.
#[derive(Debug, Default)]
pub(crate) struct Figures(Vec<[String; 4]>);

impl Figures {
    /// Adds a figure that must not be over `limit`.
    pub(crate) fn at_most(&mut self, name: &str, measured: f64, limit: f64, unit: &str) {
        let measured_text = format!("{}{unit}", short(measured));
        self.add(name, measured_text, format!("≤ {}{unit}", short(limit)), measured <= limit);
    }

    /// Adds a figure that must not be under `limit`.
    pub(crate) fn at_least(&mut self, name: &str, measured: f64, limit: f64, unit: &str) {
        let measured_text = format!("{}{unit}", short(measured));
        self.add(name, measured_text, format!("≥ {}{unit}", short(limit)), measured >= limit);
    }

    fn add(&mut self, name: &str, measured: String, limit: String, reached: bool) {
        let verdict = if reached { "reached" } else { "MISSED" };
        eprintln!("{name}: {measured} ({limit}, {verdict})");
        self.0.push([name.to_owned(), measured, limit, verdict.to_owned()]);
    }

    pub(crate) fn print(&self) {
        println!("| figure | measured | goal | |\n| --- | --- | --- | --- |");
        for [name, measured, limit, verdict] in &self.0 {
            println!("| {name} | {measured} | {limit} | {verdict} |");
        }
    }
}

fn short(number: f64) -> String {
    if number.fract() == 0.0 || number >= 1_000.0 {
        format!("{number:.0}")
    } else {
        format!("{number:.2}")
    }
}

/// Measures how long things take, by the one clock.
#[derive(Debug)]
pub(crate) struct Stopwatch(leasehold::time::BootClock);

impl Stopwatch {
    pub(crate) fn new() -> Self {
        Self(leasehold::time::BootClock::new())
    }

    pub(crate) fn now(&self) -> Instant {
        self.0.now()
    }

    pub(crate) fn since(&self, start: Instant) -> Duration {
        self.0.now().saturating_since(start)
    }

    pub(crate) async fn time<T>(&self, work: impl Future<Output = T>) -> (T, Duration) {
        let start = self.now();
        let done = work.await;
        (done, self.since(start))
    }
}

pub(crate) fn median(times: Vec<Duration>) -> f64 {
    percentile(50, times)
}

/// The time, in seconds, that so many percent are below.
pub(crate) fn percentile(percent: usize, mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() * percent / 100].as_secs_f64()
}

/// Runs of what is compared, each with servers of its own: where the system puts their threads decides as
/// much as what they do, and stays as it is for a run.
const RUNS: usize = 9;

/// The medians over several runs, number by number.
pub(crate) fn typical<const N: usize>(mut run: impl FnMut() -> [f64; N]) -> [f64; N] {
    let runs: Vec<[f64; N]> = (0..RUNS).map(|_| run()).collect();
    std::array::from_fn(|index| {
        let mut numbers: Vec<f64> = runs.iter().map(|run| run[index]).collect();
        numbers.sort_by(f64::total_cmp);
        numbers[RUNS / 2]
    })
}
