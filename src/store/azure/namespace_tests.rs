use super::super::tests::{service, store_on};
use super::*;
use crate::lock::{LockPath, TimerPath};
use crate::record::ETag;
use crate::store::{BreakNote, BreakPeriod, DocumentPath, LeaseStoreExt as _, List};
use crate::testing::Reply;
use crate::time::UnixMillis;

fn container() -> Container {
    Container::parse("leasehold").unwrap()
}

fn path() -> LockPath {
    LockPath::from_parts(&container(), "locks/h/job")
}

/// A page as an account with a hierarchical namespace lists it: directories among the blobs.
fn page(blobs: &[(&str, bool)], next: &str) -> Reply {
    let blob = |(name, is_directory): &(&str, bool)| {
        let metadata = if *is_directory { "<hdi_isfolder>true</hdi_isfolder>" } else { "" };
        format!(
            "<Blob><Name>{name}</Name><Properties><Last-Modified>Fri, 15 Jan 2027 07:00:00 GMT</Last-Modified>\
             <Etag>0x1</Etag><Content-Length>0</Content-Length><BlobType>BlockBlob</BlobType>\
             <LeaseStatus>unlocked</LeaseStatus><LeaseState>available</LeaseState></Properties>\
             <Metadata>{metadata}</Metadata></Blob>"
        )
    };
    let blobs: String = blobs.iter().map(blob).collect();
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"http://127.0.0.1/account\" \
         ContainerName=\"leasehold\"><Blobs>{blobs}</Blobs><NextMarker>{next}</NextMarker></EnumerationResults>"
    );
    service(200, &[("content-type", "application/xml")]).with_body(&body)
}

/// The properties of a directory, as each of its two marks shows them.
fn directories() -> [Reply; 2] {
    let state = ("x-ms-lease-state", "available");
    let written = ("last-modified", "Fri, 15 Jan 2027 07:00:00 GMT");
    [
        service(200, &[state, written, ("x-ms-meta-hdi_isfolder", "true")]),
        service(200, &[state, written, ("x-ms-resource-type", "directory")]),
    ]
}

fn all(prefix: &str) -> List {
    List { container: container(), prefix: prefix.to_owned(), continuation: None, limit: 100 }
}

#[tokio::test]
async fn directories_are_listed_as_no_locks() {
    let folders = [("locks", true), ("locks/h", true), ("leasehold-plans/locks", true)];
    let replies =
        vec![page(&folders, "more"), page(&[("locks/h/job", false), ("locks/h/x", true)], "")];
    let (store, fake, _) = store_on(replies).await;
    let listing = store.list(all("")).await.unwrap();
    let names: Vec<_> = listing.locks.iter().map(|(path, _)| path.name().to_owned()).collect();
    assert_eq!((names, fake.asked().len()), (vec!["locks/h/job".to_owned()], 2));
}

#[tokio::test]
async fn directories_are_listed_as_no_plans() {
    let blobs = [
        ("leasehold-plans/locks", true),
        ("leasehold-plans/locks/h", true),
        ("leasehold-plans/locks/h/job", false),
    ];
    let (store, _fake, _) = store_on(vec![page(&blobs, "")]).await;
    let listing = store.list_plans(all("")).await.unwrap();
    assert_eq!(listing.paths, [path()]);
}

/// Whose lease would exclude nobody from the locks below it, and whose metadata is the service's own.
#[tokio::test]
async fn a_directory_in_a_locks_place_is_told_and_never_read_as_a_lock_or_broken() {
    for directory in directories() {
        let (store, _fake, _) = store_on(vec![directory.clone()]).await;
        let error = store.read_record(&path()).await.unwrap_err();
        assert_eq!(error.kind(), "fatal", "{error:?}");
        assert!(error.chain().contains("is a directory"), "{}", error.chain());
        // Neither is there a note of a break.
        let none = service(404, &[("x-ms-error-code", "BlobNotFound")]);
        let (store, fake, _) = store_on(vec![none, directory]).await;
        let note = BreakNote {
            period: BreakPeriod::Now,
            reason: String::new(),
            by: "ops".to_owned(),
            token: None,
            at: UnixMillis(0),
            for_priority: None,
        };
        let looked_at = ETag("\"0x1\"".into());
        let error = store.break_lease(&path(), note, looked_at).await.unwrap_err();
        assert_eq!((error.kind(), fake.asked().len()), ("fatal", 2), "{error:?}");
        assert!(fake.asked().iter().all(|asked| !asked.target.contains("comp=lease")));
    }
}

#[tokio::test]
async fn a_directory_in_the_place_of_a_note_a_plan_or_a_timer_is_none() {
    for directory in directories() {
        let (store, _fake, _) = store_on(vec![directory.clone(); 3]).await;
        assert_eq!(store.read_break_note(&path()).await.unwrap(), None);
        let error = store.read_document(DocumentPath::Plan(path())).await.unwrap_err();
        assert!(error.chain().contains("is a directory"), "{}", error.chain());
        let host_id = crate::lock::HostId::parse("host").unwrap();
        let timer = TimerPath { container: container(), host_id, timer: "job".to_owned() };
        let status = DocumentPath::TimerStatus(timer);
        let error = store.read_document(status).await.unwrap_err();
        assert!(error.chain().contains("is a directory"), "{}", error.chain());
    }
}

/// `gc` deletes the lock, and leaves the directory that another tool has put beside it.
#[tokio::test]
async fn a_directory_in_a_plans_place_is_not_deleted_with_the_lock() {
    for directory in directories() {
        let gone = || service(202, &[]);
        let (store, fake, _) = store_on(vec![directory, gone(), gone()]).await;
        store.delete(&path(), ETag("\"0x1\"".into())).await.unwrap();
        let asked = fake.asked();
        let deleted = asked.iter().filter(|asked| asked.method == "DELETE");
        assert!(
            deleted.clone().all(|asked| !asked.target.contains("leasehold-plans")),
            "{asked:?}"
        );
        assert_eq!(deleted.count(), 2, "the lock and its note: {asked:?}");
    }
}

#[tokio::test]
async fn the_account_tells_which_kind_it_is() {
    for (headers, expected) in [
        (vec![("x-ms-is-hns-enabled", "true")], Some(true)),
        (vec![("x-ms-is-hns-enabled", "false")], Some(false)),
        (vec![], None),
    ] {
        let (store, fake, _) = store_on(vec![service(200, &headers)]).await;
        assert_eq!(store.is_hierarchical(&container()).await.unwrap(), expected);
        let asked = fake.asked();
        assert_eq!(asked[0].target, "/account/leasehold?comp=properties&restype=account");
    }
}
