//! Messages of the API, from bytes that are none to specs that are nearly right.

use std::sync::Arc;
use std::time::Duration;

use leasehold::coordinator::{Coordinator, Host, NoObserver, Settings};
use leasehold::grpc::{self, Limits};
use leasehold::host_id::{FromHostType, HostIdProvider as _, Provider};
use leasehold::lock::{Container, HostType, Layout, Namespace, Prefix};
use leasehold::scheduler::Scheduler;
use leasehold::store::MemoryStore;
use leasehold::testing::SimClock;
use leasehold_client::proto::lease_service_client::LeaseServiceClient;
use leasehold_client::proto::{
    AcquireLeaseRequest, LeaseSpec, ListLocksRequest, LockKey, ReleaseLeaseRequest,
    acquire_lease_response::Outcome, list_locks_request::Under,
};
use proptest::prelude::*;
use tonic::Code;

use crate::fuzz::cases;
use crate::fuzz::names::nasty;

const DAY: Duration = Duration::from_secs(86_400);

fn coordinator() -> Coordinator {
    let clock = Arc::new(SimClock::following_tokio());
    let store = Arc::new(MemoryStore::new(Arc::clone(&clock) as _));
    let host_type = HostType::parse("Fuzz").unwrap();
    let provider = Provider::HostType(FromHostType::new(host_type.clone()));
    let host = Host {
        namespace: Namespace {
            container: Container::parse("leasehold").unwrap(),
            prefix: Prefix::parse("locks").unwrap(),
            layout: Layout::Readable,
        },
        host_id: provider.provide().unwrap().host_id,
        host_type,
        provider: "host-type".to_owned(),
        allow_override: true,
        host_id_of: provider.host_id_of(),
    };
    let settings = Settings {
        host,
        hold: leasehold::hold::Settings {
            poll_cap: Duration::from_secs(5),
            hand_off: Duration::from_secs(5),
        },
        lease_duration: Duration::from_secs(60),
        max_hold_default: Duration::from_secs(600),
        holder: "fuzz".to_owned(),
        sidecar: "sidecar".into(),
        max_holds: 100,
        max_waiters: 100,
        max_resumes: 100,
        remembered_locks: 1_000,
        followed_bytes: 1024 * 1024,
        starts_per_second: 50,
        allow_break: false,
        allow_schedule_changes: true,
        revision: leasehold::coordinator::REVISION,
        function_instance: false,
    };
    Coordinator::new(store, clock, Arc::new(NoObserver), settings)
}

fn span() -> impl Strategy<Value = Option<prost_types::Duration>> {
    let part = prop_oneof![(-2..100_000_i64), any::<i64>()];
    let nanos = prop_oneof![Just(0), any::<i32>()];
    proptest::option::of(
        (part, nanos).prop_map(|(seconds, nanos)| prost_types::Duration { seconds, nanos }),
    )
}

prop_compose! {
    fn spec()(
        key in proptest::option::of((nasty(), nasty(), any::<i32>(), nasty(), nasty())),
        (lease_duration, max_hold, min_hold, progress_timeout) in (span(), span(), span(), span()),
        (request_id, holder) in (nasty(), nasty()),
        labels in proptest::collection::hash_map(nasty(), nasty(), 0..4),
        auto_renew in any::<Option<bool>>(),
    ) -> LeaseSpec {
        LeaseSpec {
            key: key.map(|(function, scope, mode, host_id, host_type)| LockKey {
                function,
                scope,
                mode: mode % 4,
                host_id: Some(host_id).filter(|text| text.len() > 9),
                host_type: Some(host_type).filter(|text| text.len() > 9),
            }),
            lease_duration,
            max_hold,
            min_hold,
            progress_timeout,
            request_id,
            holder,
            labels: labels.into_iter().collect(),
            auto_renew,
            ..LeaseSpec::default()
        }
    }
}

/// Codes that say that the caller is wrong.
fn is_the_callers(code: Code) -> bool {
    matches!(code, Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition)
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn s19_any_message_is_answered_or_refused_as_the_callers_mistake(
        specs in proptest::collection::vec(spec(), 1..6),
        text in nasty(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let limits =
                Limits { max_hold_ceiling: DAY, max_hold_default: DAY, wait_ceiling: DAY, store: "memory", hand_over: false };
            let mut client = LeaseServiceClient::new(grpc::in_process(Scheduler::new(coordinator()), limits));
            for spec in specs {
                let request = AcquireLeaseRequest { spec: Some(spec), needs: 0 };
                match client.acquire_lease(request).await {
                    Err(status) => {
                        prop_assert!(is_the_callers(status.code()), "{status:?}");
                        prop_assert!(!status.message().is_empty());
                    }
                    Ok(answer) => {
                        if let Some(Outcome::Granted(grant)) = answer.into_inner().outcome {
                            let lease_id = grant.lease_id;
                            client.release_lease(ReleaseLeaseRequest { lease_id, ..ReleaseLeaseRequest::default() }).await.unwrap();
                        }
                    }
                }
            }
            let request = ReleaseLeaseRequest { lease_id: text.clone(), ..ReleaseLeaseRequest::default() };
            let refused = client.release_lease(request).await.unwrap_err();
            prop_assert!(is_the_callers(refused.code()), "{refused:?}");
            for under in [Under::Prefix(text.clone()), Under::HostId(text.clone())] {
                let request = ListLocksRequest {
                    under: Some(under),
                    page_token: text.clone(),
                    ..ListLocksRequest::default()
                };
                if let Err(status) = client.list_locks(request).await {
                    prop_assert!(is_the_callers(status.code()), "{status:?}");
                }
            }
            Ok(())
        })?;
    }
}
