//! Answers of the real service, as they were recorded: each row of `lease_vectors.tsv` is answered to the
//! operation of ours that it concerns. What has no recording is asked of a real account by
//! `tests/store_conformance/azure.rs`.

use super::tests::{ID, OTHER, acquire, lease_id, path, service, store_on};
use super::*;
use crate::store::{BreakNote, BreakPeriod, LeaseStoreExt as _};
use crate::testing::{Asked, Reply};
use crate::time::UnixMillis;

const VECTORS: &str = include_str!("lease_vectors.tsv");

/// A row of the table.
struct Vector {
    operation: &'static str,
    before: &'static str,
    sent: &'static str,
    status: u16,
    code: &'static str,
    headers: &'static str,
}

fn vectors() -> Vec<Vector> {
    let rows = VECTORS.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    rows.skip(1)
        .map(|line| {
            let columns: Vec<&str> = line.split('\t').collect();
            let [operation, before, sent, status, code, headers, _etag, _source] = columns[..]
            else {
                panic!("eight columns: {line}")
            };
            let status = status.split(' ').next().unwrap().parse().unwrap();
            Vector { operation, before, sent, status, code, headers }
        })
        .collect()
}

/// What each row means to Leasehold: its operation, and the outcome, in the order of the table.
const MEANINGS: [(&str, &str); 35] = [
    ("acquire B", "granted"),
    ("acquire B", "contended"),
    // The answer is about another lease than ours (S7).
    ("change A to C", "unavailable"),
    ("renew A", "renewed"),
    ("break", "broken, 14 s left"),
    ("acquire B", "contended"),
    ("release A", "released"),
    ("acquire B", "granted"),
    ("break", "broken, 0 s left"),
    ("set metadata", "written"),
    ("set properties", "written"),
    ("get properties (HEAD)", "leased"),
    ("get properties (HEAD)", "available"),
    ("put blob", "created"),
    // With a lease id the service overwrites in spite of the condition: ours sends none.
    ("put blob", "created"),
    ("put blob", "is there"),
    ("break", "broken, 5 s left"),
    ("put blob", "created"),
    ("put blob", "lease_lost"),
    ("put blob", "lease_lost"),
    ("set metadata", "lease_lost"),
    ("delete", "contended"),
    ("delete", "deleted"),
    ("acquire A", "granted"),
    ("acquire A", "granted"),
    ("acquire B", "granted"),
    ("break", "not_held"),
    // And then the lock is made and leased.
    ("acquire", "granted"),
    ("release", "not_found"),
    ("get properties (HEAD)", "not_found"),
    ("renew A", "changed"),
    ("renew A", "changed"),
    ("set metadata", "changed"),
    ("set metadata", "changed"),
    ("renew A", "lease_lost"),
];

impl Vector {
    /// The answer as the service sends it: errors with a byte order mark before their XML.
    fn reply(&self) -> Reply {
        let named: Vec<(&str, &str)> = self
            .headers
            .split(", ")
            .filter(|header| header.starts_with("x-ms-"))
            .map(|header| match header.split_once('=') {
                Some((name, "A" | "B")) => (name, ID),
                Some((name, "C")) => (name, OTHER),
                Some((name, value)) => (name, value.split(' ').next().unwrap()),
                None => (header, ID),
            })
            .collect();
        let mut headers = vec![("last-modified", "Fri, 15 Jan 2027 08:00:00 GMT")];
        headers.extend(named);
        if self.code == "-" {
            return service(self.status, &headers);
        }
        let code = self.code.split(' ').next().unwrap();
        headers.extend([("x-ms-error-code", code), ("content-type", "application/xml")]);
        let body = format!(
            "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>{code}</Code><Message>No.\nRequestId:r-1\n\
             Time:2027-01-15T08:00:01.5Z</Message></Error>"
        );
        let reply = service(self.status, &headers);
        if self.is_head() { reply } else { reply.with_body(&body) }
    }

    fn is_head(&self) -> bool {
        self.operation.contains("(HEAD)")
    }

    /// Whether a request under a lease was answered no: a write of the record is refused in the same words.
    fn is_refused_write(&self) -> bool {
        self.sent.contains("x-ms-lease-id") && self.code != "-"
    }

    /// What the operation that it concerns makes of the answer, and what was sent.
    async fn meaning(&self) -> (String, Vec<Asked>) {
        let good = || service(201, &[("x-ms-lease-id", ID)]);
        let leased =
            [("x-ms-lease-state", "leased"), ("last-modified", "Fri, 15 Jan 2027 08:00:00 GMT")];
        let none = service(404, &[("x-ms-error-code", "BlobNotFound")]);
        let operation = self.operation.split(' ').next().unwrap();
        let (before, after) = match operation {
            "acquire" => (vec![], vec![good(), good()]),
            "break" => {
                let leased = service(200, &leased);
                (vec![none, leased.clone(), service(201, &[]), leased], vec![good()])
            }
            "delete" => (vec![none], vec![good(), good()]),
            _ => (vec![], vec![]),
        };
        let replies = [before, vec![self.reply()], after].concat();
        let (store, fake, _) = store_on(replies).await;
        let meaning = match operation {
            "acquire" => store.acquire(&path(), acquire()).await.map(|_| "granted".to_owned()),
            "change" | "renew" => {
                store.renew(&path(), lease_id(), None).await.map(|_| "renewed".to_owned())
            }
            "release" => {
                store.release(&path(), lease_id(), None).await.map(|()| "released".to_owned())
            }
            "break" => store
                .break_lease(&path(), note(), ETag("\"0x1\"".into()))
                .await
                .map(|broken| format!("broken, {} s left", broken.remaining.as_secs())),
            "get" => store
                .read_record(&path())
                .await
                .map(|lock| format!("{:?}", lock.lease).to_ascii_lowercase()),
            "put" if !self.is_refused_write() => store
                .create(&path())
                .await
                .map(|made| if made.is_some() { "created" } else { "is there" }.to_owned()),
            "set" | "put" => {
                let write = Write {
                    lease_id: lease_id(),
                    if_match: None,
                    fields: crate::record::Fields::new(),
                };
                store.write_record(&path(), write).await.map(|_| "written".to_owned())
            }
            "delete" => {
                store.delete(&path(), ETag("\"0x1\"".into())).await.map(|()| "deleted".to_owned())
            }
            other => panic!("no operation for {other}"),
        };
        (meaning.unwrap_or_else(|error| error.kind().to_owned()), fake.asked())
    }
}

fn note() -> BreakNote {
    BreakNote {
        period: BreakPeriod::RunOut,
        reason: String::new(),
        by: String::new(),
        token: None,
        at: UnixMillis(0),
        for_priority: None,
    }
}

#[tokio::test]
async fn s8_each_recorded_answer_of_the_service_means_what_the_contract_says() {
    let vectors = vectors();
    assert_eq!(vectors.len(), MEANINGS.len());
    let mut wrong = Vec::new();
    for (vector, (operation, expected)) in vectors.iter().zip(MEANINGS) {
        assert_eq!(vector.operation, operation);
        let (meaning, asked) = vector.meaning().await;
        if meaning != expected {
            let Vector { before, status, code, .. } = vector;
            let answer = format!("{operation}, {before}, answered {status} {code}");
            wrong.push(format!("{answer}: means {meaning}, not {expected}"));
        }
        let made = asked.iter().filter(|asked| asked.header("if-none-match").is_some());
        assert!(
            made.clone().all(|asked| asked.header("x-ms-lease-id").is_none()),
            "S18: with a lease id the condition would be ignored: {asked:?}"
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
