//! Measures the figures of docs/performance.md and prints them as its table: `cargo bench`, or `make bench`.
//! Names of groups choose some: `cargo bench -- calls holds`.
//!
//! Times are ratios against a baseline that is measured in the same run, in turns with what it is compared
//! to.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench that fails stops, and prints what it found"
)]

mod acquire;
mod calls;
mod echo;
mod fake_service;
mod figure;
mod holds;
mod idle;
mod known;
mod peer;
mod process;
mod requests;
mod saves;
mod sidecar;
mod slow_store;
mod timetable;
mod waiters;
mod workers;

use figure::Figures;

/// Figures that belong together.
type Group = (&'static str, fn(&mut Figures));

const GROUPS: [Group; 12] = [
    ("timetable", timetable::measure),
    ("requests", requests::measure),
    ("calls", calls::measure),
    ("acquire", acquire::measure),
    ("saves", saves::measure),
    ("waiters", waiters::measure),
    ("workers", workers::measure),
    ("idle", idle::measure),
    ("known", known::measure),
    ("holds", holds::measure),
    ("many", holds::measure_many),
    ("peer", peer::measure),
];

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [first, socket] = arguments.as_slice()
        && first == holds::CHILD
    {
        return holds::be_the_sidecar(socket);
    }
    let mut figures = Figures::default();
    for (name, measure) in GROUPS {
        if arguments.is_empty() || arguments.iter().any(|chosen| chosen == name) {
            measure(&mut figures);
        }
    }
    figures.print();
}
