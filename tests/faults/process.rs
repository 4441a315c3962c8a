//! Sidecars as processes, and clients of them.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use leasehold::testing::Azurite;
use leasehold_client::proto::{
    Grant as WireGrant, HoldLeaseRequest, HoldLeaseResponse, hold_lease_request,
    hold_lease_response, lease_service_client::LeaseServiceClient,
};
use leasehold_client::{Client, Grant, LeaseSpec, Outcome};
use rustix::process::{Pid, Signal, kill_process};
use tonic::Streaming;
use tonic::transport::Channel;

/// The program under test: the tests' own, or the one that a variable names, such as the released one.
pub(crate) fn program() -> &'static str {
    static PROGRAM: LazyLock<String> = LazyLock::new(|| {
        let given = std::env::var("LEASEHOLD_TEST_PROGRAM");
        given.unwrap_or_else(|_| env!("CARGO_BIN_EXE_leasehold").to_owned())
    });
    &PROGRAM
}

/// What must happen at all gets this long: a busy machine takes its time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// The shortest lease, so that tests of its end are short.
pub(crate) const SHORT: u64 = 15;

/// Variables of a sidecar's environment.
pub(crate) type Environment = Vec<(&'static str, String)>;

/// A `leasehold serve` with its socket and log in a folder of its own.
#[derive(Debug)]
pub(crate) struct Sidecar {
    folder: tempfile::TempDir,
    settings: Vec<String>,
    environment: Environment,
    child: Child,
}

impl Sidecar {
    /// One on the emulator that all tests share, for hosts of `host_type`.
    pub(crate) async fn on_azurite(host_type: &str, more: &[&str]) -> Self {
        let connection = Azurite::shared().connection_string();
        let environment = vec![("LEASEHOLD_STORE_AZURE_CONNECTION_STRING", connection)];
        Self::start(host_type, more, environment).await
    }

    /// One that signs in by what a variable of its environment says.
    pub(crate) async fn start(host_type: &str, more: &[&str], environment: Environment) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = vec![format!("host_id.host_type={host_type}")];
        settings.extend(more.iter().map(|setting| (*setting).to_owned()));
        let child = spawn(folder.path(), &settings, &environment);
        let mut sidecar = Self { folder, settings, environment, child };
        sidecar.wait_until_up().await;
        sidecar
    }

    /// Starts it anew at the same place, after its process has ended.
    pub(crate) async fn restart(&mut self) {
        self.start_again();
        self.wait_until_up().await;
    }

    /// Starts it anew at the same place, and does not wait for it.
    pub(crate) fn start_again(&mut self) {
        // Two of them would be at one place.
        self.child.wait().unwrap();
        self.child = spawn(self.folder.path(), &self.settings, &self.environment);
    }

    pub(crate) async fn wait_until_up(&mut self) {
        let probe = || {
            let mut probe = Command::new(program());
            probe.args(["probe", "--endpoint", &self.endpoint()]);
            probe.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
        };
        let log = || std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        until("the sidecar is up", log, || probe().then_some(())).await;
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("unix://{}", socket(self.folder.path()).display())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(&self.child, signal);
    }

    /// Stops it, and waits until it stands.
    pub(crate) async fn stop(&self) {
        stop(&self.child).await;
    }

    /// Lets it go on, which it did not before.
    pub(crate) fn go_on(&self) {
        go_on(&self.child);
    }

    /// Kills it, and proves that this is what it died of.
    pub(crate) fn kill(&mut self) {
        kill(&mut self.child);
    }

    /// Whether its process has ended, by itself or not.
    pub(crate) fn has_ended(&self) -> bool {
        // One that was waited for is gone, and one that was not is a zombie.
        let id = self.child.id();
        !Path::new(&format!("/proc/{id}")).exists() || states(id).iter().all(|state| *state == 'Z')
    }

    /// Waits until its process has ended.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let child = &mut self.child;
        until("the sidecar has ended", String::new, || child.try_wait().unwrap()).await
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.endpoint()).await.unwrap()
    }

    /// Calls without the client's own resuming and believing.
    pub(crate) async fn rpc(&self) -> LeaseServiceClient<Channel> {
        LeaseServiceClient::new(self.channel().await)
    }

    pub(crate) async fn channel(&self) -> Channel {
        let socket = socket(self.folder.path());
        let connector = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move {
                let stream = tokio::net::UnixStream::connect(socket).await?;
                Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
            }
        });
        let endpoint = tonic::transport::Endpoint::from_static("http://socket");
        endpoint.connect_with_connector(connector).await.unwrap()
    }

    /// Takes the lock by a stream.
    pub(crate) async fn hold(&self, spec: LeaseSpec) -> (WireGrant, Streaming<HoldLeaseResponse>) {
        let start = hold_lease_request::Start::Spec(spec.into());
        let request = HoldLeaseRequest { start: Some(start), needs: 0 };
        let mut stream = self.rpc().await.hold_lease(request).await.unwrap().into_inner();
        loop {
            match event(&mut stream).await {
                hold_lease_response::Event::Granted(grant) => return (grant, stream),
                hold_lease_response::Event::Waiting(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub(crate) async fn acquire(&self, spec: LeaseSpec) -> Outcome<Grant> {
        self.client().await.acquire(spec).await.unwrap()
    }

    pub(crate) async fn granted(&self, spec: LeaseSpec) -> Grant {
        match self.acquire(spec).await {
            Outcome::Granted(grant) => grant,
            other @ (Outcome::Busy(_) | Outcome::AlreadyDone(_) | Outcome::Skipped { .. }) => {
                panic!("{other:?}\n{}", self.log())
            }
        }
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("a sidecar wrote:\n{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("leasehold.sock")
}

fn spawn(folder: &Path, settings: &[String], environment: &Environment) -> Child {
    let log = File::options().create(true).append(true).open(folder.join("log")).unwrap();
    let mut command = Command::new(program());
    command.arg("serve");
    let mut ours = vec![
        "listen.tcp=".to_owned(),
        "admin.listen=".to_owned(),
        format!("listen.unix={}", socket(folder).display()),
    ];
    if !settings.iter().any(|setting| setting.starts_with("store.")) {
        ours.extend(["store.kind=azure", "store.azure.create_container=true"].map(str::to_owned));
    }
    for setting in ours.iter().chain(settings) {
        command.args(["--set", setting]);
    }
    command
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// A number of the environment.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

pub(crate) fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Stops a process, and waits until each of its threads stands.
pub(crate) async fn stop(child: &Child) {
    send(child, Signal::STOP);
    let states = || states(child.id());
    let stands = || states().iter().all(|state| *state == 'T').then_some(());
    until("the process stands", || format!("{:?}", states()), stands).await;
}

/// Lets a stopped process go on. It was stopped until now, and by nothing else than us.
pub(crate) fn go_on(child: &Child) {
    let states = states(child.id());
    assert!(states.iter().all(|state| *state == 'T'), "it was to stand, and did not: {states:?}");
    send(child, Signal::CONT);
}

/// Kills a process, and proves that this is what it died of.
pub(crate) fn kill(child: &mut Child) {
    assert_eq!(child.try_wait().unwrap(), None, "it was to live, and does not");
    send(child, Signal::KILL);
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{status}");
}

/// The state of each thread of a process, as `proc(5)` writes it.
pub(crate) fn states(process: u32) -> Vec<char> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let state = |thread: std::io::Result<std::fs::DirEntry>| {
        // A thread that has ended meanwhile has no state.
        let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).ok()?;
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
    };
    threads.filter_map(state).collect()
}

pub(crate) async fn event(stream: &mut Streaming<HoldLeaseResponse>) -> hold_lease_response::Event {
    let message = tokio::time::timeout(PATIENCE, stream.message()).await;
    message.expect("an event comes").unwrap().expect("the stream goes on").event.unwrap()
}

/// Waits until `look` finds something.
pub(crate) async fn until<T>(
    what: &str,
    why_not: impl Fn() -> String,
    mut look: impl FnMut() -> Option<T>,
) -> T {
    let found = async {
        loop {
            if let Some(found) = look() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    match tokio::time::timeout(PATIENCE, found).await {
        Ok(found) => found,
        Err(_) => panic!("waited for long, and not: {what}; {}", why_not()),
    }
}

pub(crate) fn spec(function: &str) -> LeaseSpec {
    LeaseSpec::new(function)
}

/// With a lease that ends soon, and the patience to wait for it.
pub(crate) fn patient(function: &str) -> LeaseSpec {
    let (short, long) = (Duration::from_secs(SHORT), Duration::from_secs(100));
    spec(function).with_lease_duration(short).with_wait(long)
}
