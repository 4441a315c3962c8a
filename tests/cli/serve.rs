use std::os::unix::process::ExitStatusExt as _;

use rustix::process::Signal;

use crate::cli::rig::{Ended, Home, Sidecar, eventually};

#[tokio::test]
async fn print_config_shows_where_values_come_from_and_no_secret() {
    let home = Home::new();
    let config =
        "[store]\nkind = \"azure\"\nazure.account = \"acc\"\nazure.account_key = \"c2VjcmV0\"\n";
    std::fs::write(home.path("leasehold.toml"), config).unwrap();
    let words =
        ["serve", "--config", "leasehold.toml", "--set", "drain.period=5s", "--print-config"];
    let printed = home.leasehold(&words).await;
    assert_eq!(printed.code, 0, "{printed:?}");
    assert!(printed.stdout.contains("drain.period = \"5s\"  # --set"), "{printed:?}");
    assert!(printed.stdout.contains("store.kind = \"azure\"  # leasehold.toml:2"), "{printed:?}");
    assert!(!printed.stdout.contains("c2VjcmV0"), "{printed:?}");
}

#[tokio::test]
async fn mistakes_end_in_one_clear_message_and_78() {
    let home = Home::new();
    let secret = &["serve", "--set", "store.azure.account_key=c2VjcmV0"][..];
    let misspelt = &["serve", "--set", "locks.lease_durration=30s"][..];
    let open = &["serve", "--set", "listen.tcp=0.0.0.0:0"][..];
    std::fs::write(home.path("tokens"), "token").unwrap();
    let tokens = format!("listen.token_file={}", home.path("tokens").display());
    let plain = &["serve", "--set", "listen.tcp=0.0.0.0:0", "--set", tokens.as_str()][..];
    for (words, hint) in [
        (secret, "process list"),
        (misspelt, "did you mean locks.lease_duration?"),
        (open, "listen.insecure"),
        (plain, "tokens would be sent in plain text"),
        (open, "store.embedded.remote_callers"),
    ] {
        let ended = home.leasehold(words).await;
        assert_eq!(ended.code, 78, "{ended:?}");
        assert!(ended.stderr.contains(hint) && !ended.stderr.contains("c2VjcmV0"), "{ended:?}");
    }
}

#[tokio::test]
async fn what_is_taken_already_is_said_with_the_setting() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let home = Home::new();
    let store = format!("store.embedded.path={}", home.store().display());
    for (tcp, admin) in
        [(address.to_string(), ""), ("127.0.0.1:0".to_owned(), &*address.to_string())]
    {
        let (tcp, admin) = (format!("listen.tcp={tcp}"), format!("admin.listen={admin}"));
        let words = ["serve", "--set", &store, "--set", &tcp, "--set", &admin];
        let ended = home.leasehold(&words).await;
        assert_eq!(ended.code, 78, "{ended:?}");
        let last = ended.stderr.lines().last().unwrap();
        assert!(
            last.contains(&address.to_string()) && last.contains("another Leasehold"),
            "{last}"
        );
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_opened_is_said_with_its_file() {
    let home = Home::new();
    std::fs::write(home.path("plain"), "").unwrap();
    let store = format!("store.embedded.path={}/locks.db", home.path("plain").display());
    let words =
        ["serve", "--set", &store, "--set", "listen.tcp=127.0.0.1:0", "--set", "admin.listen="];
    let ended = home.leasehold(&words).await;
    assert_eq!(ended.code, 78, "{ended:?}");
    assert!(ended.stderr.lines().last().unwrap().contains("plain"), "{ended:?}");
}

#[tokio::test]
async fn without_any_configuration_it_serves_and_says_how_to_try_it() {
    let home = Home::new();
    // Only the ports are other than the defaults, so that tests can run side by side.
    let words = ["serve", "--set", "listen.tcp=127.0.0.1:0", "--set", "admin.listen=127.0.0.1:0"];
    let mut command = home.command(&words);
    let log = std::fs::File::create(home.path("log")).unwrap();
    let mut child = command.stderr(log).spawn().unwrap();
    let log = eventually("it says how to try it", || async {
        let log = std::fs::read_to_string(home.path("log")).unwrap();
        log.contains("try it").then_some(log)
    })
    .await;
    let line = |word: &str| -> serde_json::Value {
        serde_json::from_str(log.lines().find(|line| line.contains(word)).unwrap()).unwrap()
    };
    let endpoint = line("\"listening\"")["endpoints"].as_str().unwrap().to_owned();
    assert!(line("try it")["message"].as_str().unwrap().contains(&endpoint), "{log}");
    assert!(log.contains("the host type is"), "{log}");
    let ran = home.leasehold(&["run", "--endpoint", &endpoint, "-f", "hello", "--", "true"]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(home.path(".local/state/leasehold/locks.db").exists());
    let admin = line("\"listening\"")["admin"].as_str().unwrap().to_owned();
    let metrics = get(admin.strip_prefix("http://").unwrap(), "/metrics").await;
    assert!(metrics.contains("leasehold_"), "{metrics}");
    child.kill().await.unwrap();
}

pub(crate) async fn get(address: &str, page: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {page} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn s15_sigterm_ends_an_idle_sidecar_with_0() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut sidecar = Sidecar::start(&[]).await;
        sidecar.signal(signal);
        assert_eq!(sidecar.process.wait().await.unwrap().code(), Some(0));
        let gone = sidecar.leasehold(&["ls"]).await;
        assert_eq!(gone.code, 69, "{gone:?}");
    }
}

#[tokio::test]
async fn s15_the_end_of_standard_input_ends_it_where_that_was_asked_for() {
    use tokio::io::AsyncWriteExt as _;
    let home = Home::new();
    let unix = format!("listen.unix={}", home.path("sidecar.sock").display());
    let sets = ["store.kind=memory", &unix, "listen.tcp=", "admin.listen=", "drain.period=1h"];
    let mut words = vec!["serve", "--exit-on-stdin-close"];
    sets.iter().for_each(|set| words.extend(["--set", set]));
    let mut command = home.command(&words);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let probed = home.leasehold(&["probe", "--wait", "30s"]).await;
    assert_eq!(probed.code, 0, "{probed:?}");
    // What is written there is not its end.
    stdin.write_all(b"hello\n").await.unwrap();
    let acquired = home.leasehold(&["acquire", "job", "--output", "json"]).await;
    assert_eq!(acquired.code, 0, "{acquired:?}");
    drop(stdin);
    eventually("it drains, as at a signal", || async {
        (home.leasehold(&["acquire", "-f", "other"]).await.code == 69).then_some(())
    })
    .await;
    let lease = acquired.json()["lease_id"].as_str().unwrap().to_owned();
    let released = home.leasehold(&["release", &lease]).await;
    assert_eq!(released.code, 0, "{released:?}");
    let ended = Ended::of_child(child).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stderr.contains("--exit-on-stdin-close"), "{ended:?}");
}

#[tokio::test]
async fn callers_are_served_on_as_many_threads_as_are_configured() {
    let mut sidecar = Sidecar::start(&["limits.worker_threads=2"]).await;
    let ran = sidecar.leasehold(&["run", "-f", "job", "--", "true"]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let threads = format!("/proc/{}/task", sidecar.process.id().unwrap());
    let names = std::fs::read_dir(threads).unwrap().map(|thread| {
        std::fs::read_to_string(thread.unwrap().path().join("comm")).unwrap().trim().to_owned()
    });
    let mut workers: Vec<_> = names.filter(|name| name.starts_with("worker-")).collect();
    workers.sort_unstable();
    assert_eq!(workers, ["worker-0", "worker-1"]);
    sidecar.signal(Signal::TERM);
    assert_eq!(sidecar.process.wait().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn s15_a_second_signal_ends_it_at_once() {
    let mut sidecar = Sidecar::start(&["drain.period=1h"]).await;
    let acquired = sidecar.leasehold(&["acquire", "-f", "job"]).await;
    assert_eq!(acquired.code, 0, "{acquired:?}");
    sidecar.signal(Signal::TERM);
    eventually("it drains", || async {
        (sidecar.leasehold(&["acquire", "-f", "other"]).await.code == 69).then_some(())
    })
    .await;
    sidecar.signal(Signal::TERM);
    let status = sidecar.process.wait().await.unwrap();
    assert_eq!(status.code(), Some(143), "{:?}", status.signal());
}

#[tokio::test]
async fn a_second_sidecar_does_not_take_the_socket_of_the_first() {
    let sidecar = Sidecar::start(&[]).await;
    let unix = format!("listen.unix={}", sidecar.home.path("sidecar.sock").display());
    let words = ["serve", "--set", &unix, "--set", "listen.tcp=", "--set", "admin.listen="];
    let second = Ended::of(sidecar.home.command(&words)).await;
    assert_eq!(second.code, 78, "{second:?}");
    assert_eq!(sidecar.leasehold(&["probe"]).await.code, 0);
}

#[tokio::test]
async fn s13_a_release_goes_through_though_a_connection_is_full_of_holds() {
    let sidecar = Sidecar::start(&[]).await;
    let client = leasehold_client::Client::connect(sidecar.home.endpoint()).await.unwrap();
    let hold = async |function: &str| {
        let spec = leasehold_client::LeaseSpec::new(function);
        client.hold(spec).await.unwrap().granted().unwrap()
    };
    let first = hold("first").await;
    // More than a sidecar lets one connection carry: the client opens another, and leaves room on the first.
    let mut others = Vec::new();
    for number in 0..300 {
        others.push(hold(&format!("other-{number}")).await);
    }
    let released = tokio::time::timeout(std::time::Duration::from_secs(20), first.release()).await;
    let released = released.expect("the release does not stand in line").unwrap();
    assert_eq!(released.outcome.as_str(), "RELEASED");
    assert!(others.iter().all(|hold| hold.is_valid()));
}

#[tokio::test]
async fn s20_an_address_that_is_not_safe_is_warned_about_at_each_start() {
    let tokens = |home: &Home| {
        std::fs::write(home.path("tokens"), "token").unwrap();
        format!("listen.token_file={}", home.path("tokens").display())
    };
    for (with_tokens, said) in [(true, "in plain text"), (false, "every client that reaches")] {
        let home = Home::new();
        let tokens = tokens(&home);
        let mut settings = vec!["store.kind=memory", "listen.insecure=true"];
        settings.push("listen.tcp=0.0.0.0:0");
        if with_tokens {
            settings.push(&tokens);
        }
        let sidecar = Sidecar::start_in(home, &settings).await;
        let log = std::fs::read_to_string(sidecar.home.path("sidecar.log")).unwrap();
        let warned = log.lines().filter(|line| line.contains("WARN") && line.contains(said));
        assert_eq!(warned.count(), 1, "{log}");
    }
}
