//! `run` on a terminal, which script(1) of util-linux makes.

use std::process::Stdio;

use rustix::process::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use crate::cli::rig::{Ended, GENEROUS, Home, Sidecar};

/// A shell on a terminal of its own.
struct Terminal {
    shell: Child,
    shown: String,
}

impl Terminal {
    /// `$RUN` stands for `leasehold run` on the store of `home`.
    fn start(home: &Home, script: &str) -> Self {
        let run = home.direct_command(&["run", "-f", "job", "--"]);
        let words = run.as_std().get_args().map(|word| word.to_str().unwrap());
        let run: Vec<&str> =
            std::iter::once(env!("CARGO_BIN_EXE_leasehold")).chain(words).collect();
        let mut shell = Command::new("script");
        let shell = shell
            .args(["--quiet", "--return", "--command", script, "/dev/null"])
            .env("RUN", run.join(" "))
            .env("SHELL", "/bin/sh")
            .env("HOME", home.path(""))
            .current_dir(home.path(""))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("script(1) of util-linux is there");
        Self { shell, shown: String::new() }
    }

    async fn types(&mut self, text: &str) {
        let input = self.shell.stdin.as_mut().unwrap();
        input.write_all(text.as_bytes()).await.unwrap();
        input.flush().await.unwrap();
    }

    /// Reads until the text is shown.
    async fn shows(&mut self, text: &str) {
        let reading = async {
            let mut bytes = [0; 1_024];
            while !self.shown.contains(text) {
                let output = self.shell.stdout.as_mut().unwrap();
                let count = output.read(&mut bytes).await.unwrap();
                assert!(count > 0, "{text:?} is not in {:?}", self.shown);
                self.shown.push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        };
        let in_time = tokio::time::timeout(std::time::Duration::from_secs(60), reading).await;
        assert!(in_time.is_ok(), "not in time: {text:?} in {:?}", self.shown);
    }

    async fn ends(self) -> i32 {
        Ended::of_child(self.shell).await.code
    }
}

#[tokio::test]
async fn the_command_can_ask_questions_and_so_can_the_shell_after_it() {
    let home = Home::new();
    let script = "$RUN sh -c 'echo question; read answer; echo got-$answer'; \
                  echo next; read answer; echo then-$answer";
    let mut terminal = Terminal::start(&home, script);
    terminal.shows("question").await;
    terminal.types("one\n").await;
    terminal.shows("got-one").await;
    terminal.shows("next").await;
    terminal.types("two\n").await;
    terminal.shows("then-two").await;
    assert_eq!(terminal.ends().await, 0);
}

#[tokio::test]
async fn ctrl_c_reaches_the_command_and_ctrl_z_does_not_suspend_it() {
    let home = Home::new();
    // It waits without starting processes: one that is being started when it is stopped cannot be seen to be.
    let script = "$RUN sh -c 'trap \"echo caught; exit 5\" INT; echo ready; \
                  while :; do read -r line; done'";
    let mut terminal = Terminal::start(&home, script);
    terminal.shows("ready").await;
    terminal.types("\u{1a}").await;
    terminal.shows("cannot be suspended").await;
    // The line ends a read that the shell began just after it had been interrupted.
    terminal.types("\u{3}\n").await;
    terminal.shows("caught").await;
    assert_eq!(terminal.ends().await, 5);
}

#[tokio::test]
async fn ctrl_z_does_not_suspend_a_process_that_the_command_is_starting() {
    let home = Home::new();
    // As vfork does: the kernel reports no stop of the child, and cannot stop the parent before the child has
    // ended.
    let program = "import ctypes, os, sys\n\
                   clone = {'x86_64': 56, 'aarch64': 220}[os.uname().machine]\n\
                   CLONE_VFORK, SIGCHLD = 0x4000, 17\n\
                   if ctypes.CDLL(None).syscall(clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0) == 0:\n    \
                       print('ready', flush=True)\n    \
                       sys.stdin.readline()\n    \
                       os._exit(0)\n\
                   print('went on', flush=True)\n\
                   sys.exit(5)\n";
    std::fs::write(home.path("start.py"), program).unwrap();
    let mut terminal = Terminal::start(&home, "$RUN python3 start.py");
    terminal.shows("ready").await;
    terminal.types("\u{1a}").await;
    terminal.shows("cannot be suspended").await;
    terminal.types("\n").await;
    terminal.shows("went on").await;
    assert_eq!(terminal.ends().await, 5);
}

#[tokio::test]
async fn the_tests_of_signals_pass_where_signals_are_ignored_at_the_start() {
    let again = std::env::current_exe().unwrap();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "trap '' HUP INT QUIT; exec \"$@\"", "sh"])
        .arg(again)
        .args(["--exact", "cli::run::a_signal_ends_the_wait_and_the_place_in_the_queue"])
        .arg("cli::terminal::ctrl_c_reaches_the_command_and_ctrl_z_does_not_suspend_it")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    // The two have a minute each.
    let ended = tokio::time::timeout(3 * GENEROUS, shell.output()).await.expect("it ends").unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && said.contains("2 passed"), "{said}");
}

#[tokio::test]
async fn a_watch_shows_the_states_of_locks_and_ends_at_ctrl_c_when_no_sidecar_answers() {
    let sidecar = Sidecar::start(&[]).await;
    assert_eq!(sidecar.leasehold(&["run", "-f", "job", "--", "true"]).await.code, 0);
    let (program, endpoint) = (env!("CARGO_BIN_EXE_leasehold"), sidecar.home.endpoint());
    let watch = format!("{program} ls --watch --endpoint {endpoint}");
    let mut terminal = Terminal::start(&sidecar.home, &watch);
    terminal.shows("job/~/FUNCTION  available").await;
    terminal.types("\u{3}").await;
    assert_eq!(terminal.ends().await, 130);
    sidecar.signal(Signal::STOP);
    let mut terminal = Terminal::start(&sidecar.home, &watch);
    terminal.shows("^C ends it").await;
    terminal.types("\u{3}").await;
    assert_eq!(terminal.ends().await, 130);
    sidecar.signal(Signal::CONT);
}

#[tokio::test]
async fn s17_a_person_is_asked_before_a_lock_is_broken_at_once() {
    let home = Home::new();
    assert_eq!(home.directly(&["run", "-f", "job", "--", "true"]).await.code, 0);
    let words = ["break", "--set", "admin.allow_break=true", "-f", "job", "--reason", "x", "--now"];
    let command = home.direct_command(&words);
    let words = command.as_std().get_args().map(|word| word.to_str().unwrap());
    let words: Vec<&str> = std::iter::once(env!("CARGO_BIN_EXE_leasehold")).chain(words).collect();
    for (answer, shown, code) in [("n\n", "not broken", 64), ("y\n", "nobody held the lock", 0)] {
        let mut terminal = Terminal::start(&home, &words.join(" "));
        terminal.shows("two holders are possible").await;
        terminal.types(answer).await;
        terminal.shows(shown).await;
        assert_eq!(terminal.ends().await, code);
    }
}
