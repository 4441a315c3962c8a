//! The sample `permits` of docs/permits.md: as many callers as there are permits, in any language.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use crate::clients::samples::{number_after, prepare, sample};
use crate::clients::sidecar::Sidecar;

type Output = Lines<BufReader<ChildStdout>>;

/// Starts the sample; what it writes.
fn crawl(language: &str, sidecar: &Sidecar) -> (Child, Output) {
    let mut crawling = sample(language, "permits");
    crawling.arg("crawl").env("LEASEHOLD_ENDPOINT", sidecar.endpoint()).stdout(Stdio::piped());
    let mut crawling = crawling.spawn().unwrap();
    let lines = BufReader::new(crawling.stdout.take().unwrap()).lines();
    (crawling, lines)
}

async fn interrupt(mut crawling: Child, mut lines: Output) {
    let group = Pid::from_raw(i32::try_from(crawling.id().unwrap()).unwrap()).unwrap();
    kill_process_group(group, Signal::INT).unwrap();
    while lines.next_line().await.unwrap().is_some() {}
    crawling.wait().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s28_s31_three_crawl_and_a_fourth_follows_on_the_permit_that_is_released() {
    for language in ["go", "python"] {
        if !crate::clients::languages().contains(&language) {
            return;
        }
        prepare(language).await;
    }
    let sidecar = Sidecar::start().await;
    let mut crawling = Vec::new();
    for language in ["go", "python", "go"] {
        let (child, mut lines) = crawl(language, &sidecar);
        crawling.push((number_after(&mut lines, "permit").await, child, lines));
    }
    let mut permits: Vec<u64> = crawling.iter().map(|(permit, ..)| *permit).collect();
    permits.sort_unstable();
    assert_eq!(permits, [0, 1, 2]);
    let (fourth, mut lines) = crawl("python", &sidecar);
    let mut plain = sample("python", "run");
    plain.args(["crawl", "--", "true"]).env("LEASEHOLD_ENDPOINT", sidecar.endpoint());
    let code = plain.status().await.unwrap().code();
    assert_eq!(code, Some(75), "a plain lock is permit 0, which is held");
    let (released, child, output) = crawling.remove(1);
    interrupt(child, output).await;
    assert_eq!(number_after(&mut lines, "permit").await, released);
    interrupt(fourth, lines).await;
    for (_, child, output) in crawling {
        interrupt(child, output).await;
    }
}
