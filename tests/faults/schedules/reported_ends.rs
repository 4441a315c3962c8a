//! The ends of runs that users of schedulers report about, with real processes at the storage emulator:
//! deadlines, hung clients, and answers that are lost.

use leasehold_client::Completion;
use leasehold_client::proto::ScheduleSpec;
use leasehold_client::proto::schedule_spec::{Timeout, Timetable};

use super::reported_cast::{Every, Silent, azurite, behind, due, ended, next_due, sidecar};
use crate::faults::process::{PATIENCE, until};
use crate::faults::proxy::{Asked, Proxy, Weather};
use crate::faults::statistics::Statistics;

/// The flags of `leasehold every` that say the same as [`short`].
const SHORT: [&str; 8] =
    ["--timeout", "5s", "--kill-after", "1s", "--lease-duration", "15s", "--takeover-check", "1s"];

/// Each ten seconds, half of them at the most.
fn short() -> ScheduleSpec {
    let span = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    ScheduleSpec {
        timetable: Some(Timetable::Every(prost_types::Duration { seconds: 10, nanos: 0 })),
        timeout: Some(Timeout::RunTimeout(prost_types::Duration { seconds: 5, nanos: 0 })),
        stop_grace: span(2),
        lease_duration: span(15),
        takeover_check: span(1),
        ..ScheduleSpec::default()
    }
}

#[tokio::test]
async fn t12_t24_a_client_that_hangs_costs_one_occurrence_which_times_out_once() {
    let [first, second] = [sidecar("Hung", &[]).await, sidecar("Hung", &[]).await];
    let mut silent = Silent::subscribe(&first, "hung", short()).await;
    let hung = silent.run().await;
    let more = silent.reads_on();
    let flags = [&["-f", "hung"], &SHORT[..]].concat();
    // One beside it, and one elsewhere.
    let healthy = [&first, &second].map(|sidecar| Every::start(sidecar, "10s", &flags, ""));
    let journal = || {
        let mut runs: Vec<_> = healthy.iter().flat_map(Every::journal).collect();
        runs.sort_by_key(|run| run.due);
        runs
    };
    let look = || Some(journal()).filter(|runs| runs.len() >= 5);
    let runs = until("five runs", || format!("{:#?}", journal()), look).await;
    for run in &runs {
        println!("{}: attempt {}, {} s late", run.due, run.attempt, run.late);
    }
    let dues: Vec<u64> = runs.iter().map(|run| run.due).collect();
    let expected: Vec<u64> = (1..=5).map(|number| due(&hung) + 10 * number).collect();
    assert_eq!(dues[..5], expected);
    assert!(runs.iter().all(|run| (run.attempt, run.missed) == (1, 0)), "{runs:?}");
    assert_eq!(ended(&second, "hung", due(&hung)), [("timed_out".to_owned(), 1)]);
    assert!(!more.is_finished(), "it has not spoken, and was granted another run");
    more.abort();
}

#[tokio::test]
async fn t12_a_command_at_its_deadline_is_ended_once_and_not_run_again() {
    let [first, second] = [sidecar("Deadline", &[]).await, sidecar("Deadline", &[]).await];
    let flags =
        ["-f", "slow", "--timeout", "15s", "--lease-duration", "15s", "--takeover-check", "1s"];
    let start = |sidecar| Every::start(sidecar, "60s", &flags, "exec sleep 1000");
    let replicas = [start(&first), start(&second)];
    let journal = || replicas.iter().flat_map(Every::journal).collect::<Vec<_>>();
    let next = next_due(&first, "slow").await;
    let over = || Some(ended(&second, "slow", next)).filter(|ended| !ended.is_empty());
    let ended = until("its run has ended", || format!("{:?}", journal()), over).await;
    assert_eq!(ended, [("failed_final".to_owned(), 1)]);
    // Until the next one begins.
    let begun = || journal().iter().any(|run| run.due > next).then_some(());
    until("the next one begins", || format!("{:?}", journal()), begun).await;
    let runs = journal();
    println!("{runs:?}");
    assert_eq!(runs.iter().filter(|run| run.due == next).count(), 1, "{runs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t8_a_success_that_a_sidecar_is_told_during_an_outage_is_recorded() {
    let proxy = Proxy::start(azurite(), 1, Statistics::default()).await;
    let sidecar = behind("Outage", proxy.connection_string(azurite())).await;
    let spec = ScheduleSpec { timeout: None, ..short() };
    let spec = ScheduleSpec {
        timetable: Some(Timetable::Every(prost_types::Duration { seconds: 60, nanos: 0 })),
        ..spec
    };
    let mut silent = Silent::subscribe(&sidecar, "told", spec).await;
    let run = silent.run().await;
    proxy.set(Weather::Gone);
    silent.lost().await;
    let client = sidecar.client().await;
    let told = client.complete_run(run.run_id.clone(), Completion::succeeded()).await;
    println!("it is answered {told:?}");
    let more = silent.reads_on();
    proxy.set(Weather::Calm);
    let over = || Some(ended(&sidecar, "told", due(&run))).filter(|ended| !ended.is_empty());
    let outcomes = until("its outcome is recorded", String::new, over).await;
    assert_eq!(outcomes, [("succeeded".to_owned(), 1)]);
    let next = tokio::time::timeout(PATIENCE, more).await.expect("it has spoken").unwrap();
    assert_eq!((due(&next), next.attempt), (due(&run) + 60, 1), "the next one, and not it again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t6_the_only_attempt_is_not_lost_with_the_answer_to_its_start() {
    let statistics = Statistics::default();
    let proxy = Proxy::start(azurite(), 1, statistics.clone()).await;
    let sidecar = behind("Answer", proxy.connection_string(azurite())).await;
    let flags = ["-f", "once", "--retry", "1", "--lease-duration", "15s"];
    let every = Every::start(&sidecar, "10s", &flags, "");
    let next = next_due(&sidecar, "once").await;
    // The first write under a lease is the start of its first run.
    proxy.cut_answer(Asked::Write);
    let runs = every.runs(1).await;
    println!("it is run {} s after it was due", runs[0].late);
    assert_eq!((runs[0].due, runs[0].attempt), (next, 1), "{runs:?}");
    let over = || Some(ended(&sidecar, "once", runs[0].due)).filter(|ended| !ended.is_empty());
    let outcomes = until("its outcome is recorded", String::new, over).await;
    assert_eq!(outcomes[0], ("succeeded".to_owned(), 1), "{outcomes:?}");
    assert_eq!(statistics.sum("request: met a trap"), 1);
}

#[tokio::test]
async fn t10_t12_jobs_have_all_of_their_time() {
    let sidecar = sidecar("Time", &[]).await;
    // It skips what falls due meanwhile, and has its time-out by default.
    let mut skips = Every::start(
        &sidecar,
        "10s",
        &["-f", "overruns", "--overlap", "skip", "--once"],
        "sleep 13",
    );
    // Its lease is longer than its deadline is away: SIGTERM comes at the deadline, and not before.
    let flags = ["-f", "nearly", "--timeout", "20s", "--lease-duration", "60s", "--once"];
    let mut nearly = Every::start(&sidecar, "10s", &flags, "sleep 17");
    assert_eq!(skips.code().await, 0, "{}", skips.notes());
    assert_eq!(nearly.code().await, 0, "{}", nearly.notes());
    for (every, function) in [(&skips, "overruns"), (&nearly, "nearly")] {
        let run = every.journal().remove(0);
        assert_eq!(ended(&sidecar, function, run.due), [("succeeded".to_owned(), 1)]);
    }
}

#[tokio::test]
async fn t15_a_slip_in_the_seconds_is_refused() {
    let sidecar = sidecar("Slip", &[]).await;
    let mut slip = Every::start(&sidecar, "* 0 2 * * *", &["-f", "slip"], "");
    assert_eq!(slip.code().await, 64, "{}", slip.notes());
    assert!(slip.notes().contains("did you mean 0 2 * * *?"), "{}", slip.notes());
}
