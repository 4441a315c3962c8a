//! What is read again while the sidecar runs: the rules of `access`, and the credentials of the store.
//! Certificates and token files have their own looks (`grpc`).

use std::sync::Arc;

use super::connection::ConfigArgs;
use super::signature::{self, Notice, Told};
use crate::config::{Config, ConfigError, Origin, Shown, Store};
use crate::grpc::{AccessRules, RELOAD_INTERVAL};
use crate::store::azure::{AzureSettings, AzureStore};
use crate::time::Clock;

/// The configuration that is in use, and who uses what is read again.
#[derive(Debug)]
pub(super) struct Reload {
    args: ConfigArgs,
    config: Config,
    rules: Option<AccessRules>,
    account: Option<Arc<AzureStore>>,
    clock: Arc<dyn Clock>,
    /// Why what is there now cannot be used, so that it is logged once.
    problem: Option<String>,
    /// Settings that have changed, and are used at the next start.
    waiting: Vec<&'static str>,
    told: Told,
}

impl Reload {
    pub(super) fn new(
        args: ConfigArgs,
        config: &Config,
        rules: Option<AccessRules>,
        account: Option<Arc<AzureStore>>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let (config, clock) = (config.clone(), Arc::clone(clock));
        let (problem, waiting, told) = (None, Vec::new(), Told::default());
        Self { args, config, rules, account, clock, problem, waiting, told }
    }

    /// Looks again and again. Ends never.
    pub(super) async fn keep_current(mut self) {
        loop {
            self.tell_signature();
            tokio::time::sleep(RELOAD_INTERVAL).await;
            let args = self.args.clone();
            // A look that failed is followed by the next one.
            if let Ok(loaded) = tokio::task::spawn_blocking(move || args.load()).await {
                self.look(loaded).await;
            }
        }
    }

    /// Uses what has changed. What cannot be used leaves what was there before in use: a file that is being
    /// written is right again at a later look.
    async fn look(&mut self, loaded: Result<Config, ConfigError>) {
        let used = match loaded {
            Err(error) => Err(error.to_string()),
            Ok(config) => {
                self.tell_waiting(&config);
                let rules = self.use_rules(&config);
                self.use_credentials(&config).await.and(rules)
            }
        };
        let problem = used.err();
        if let Some(problem) =
            problem.as_ref().filter(|problem| self.problem.as_ref() != Some(*problem))
        {
            tracing::error!(
                problem,
                "the configuration has changed and cannot be used: rules and credentials stay as they were; correct it"
            );
        }
        self.problem = problem;
    }

    fn use_rules(&self, config: &Config) -> Result<(), String> {
        let Some(rules) = self.rules.as_ref().filter(|rules| rules.in_force() != config.access)
        else {
            return Ok(());
        };
        // A file that is just being written may be valid and have none yet.
        if config.access.is_empty() {
            return Err("access: all rules are gone, so that every caller might do everything: restart the sidecar if that \
                        is meant"
                .to_owned());
        }
        rules.replace(&config.access).map_err(|error| error.to_string())?;
        let rules = config.access.len();
        tracing::info!(rules, "the rules of access have changed and are used for new calls");
        Ok(())
    }

    async fn use_credentials(&mut self, config: &Config) -> Result<(), String> {
        let (Some(account), Store::Azure(current), Store::Azure(new)) =
            (&self.account, &mut self.config.store, &config.store)
        else {
            return Ok(());
        };
        if current.credential == new.credential {
            return Ok(());
        }
        let credential = new.credential.clone();
        let settings = AzureSettings { credential, ..current.as_ref().clone() };
        let signed_in = account.sign_in_by(&settings, &config.paths.container).await;
        signed_in.map_err(|error| format!("store.azure: {}", error.chain()))?;
        **current = settings;
        tracing::info!("the credentials of the store have changed and are used");
        Ok(())
    }

    /// Says once which other settings have changed.
    fn tell_waiting(&mut self, config: &Config) {
        // What nobody set is found out at each start, and may be another later.
        let set = |shown: &Shown| shown.origin != Origin::Default;
        let pairs = self.config.shown().iter().zip(config.shown());
        let changed = pairs.filter(|(old, new)| {
            (set(old) || set(new)) && old.key != "access" && old.value != new.value
        });
        let changed: Vec<&'static str> = changed.map(|(old, _)| old.key).collect();
        if !changed.is_empty() && changed != self.waiting {
            let settings = changed.join(" ");
            tracing::warn!(settings, "settings have changed that are used at the next start only");
        }
        self.waiting = changed;
    }

    fn tell_signature(&mut self) {
        let Some(account) = &self.account else { return };
        let (end, now) = (*account.signature_end().borrow(), self.clock.wall());
        let Some((notice, end)) = self.told.next(end, now).zip(end) else { return };
        let signature = signature::text(end, now);
        match notice {
            Notice::Week => {
                tracing::warn!(
                    signature,
                    "the shared access signature of the store ends soon: create another one"
                );
            }
            Notice::Day | Notice::Ended => {
                tracing::error!(
                    signature,
                    "the shared access signature of the store ends: create another one; without it every hold is lost"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::engine;
    use crate::grpc::{Server, Settings, TcpSettings};

    #[derive(clap::Parser)]
    struct Flags {
        #[command(flatten)]
        config: ConfigArgs,
    }

    /// A sidecar's rules, and the file that they come from.
    struct Folder {
        folder: tempfile::TempDir,
        reload: Reload,
    }

    impl Folder {
        async fn new(text: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("leasehold.toml");
            std::fs::write(folder.path().join("tokens"), "first\n").unwrap();
            let with_tokens = |text: &str| {
                text.replace("TOKENS", &folder.path().join("tokens").display().to_string())
            };
            std::fs::write(&file, with_tokens(text)).unwrap();
            let args =
                Flags::parse_from(["x", "--store", "memory", "--config", file.to_str().unwrap()]);
            let config = args.config.clone().load().unwrap();
            let tcp = TcpSettings {
                address: "127.0.0.1:0".parse().unwrap(),
                tls: None,
                token_file: None,
                direct: false,
                access: config.access.clone(),
            };
            let settings = Settings {
                tcp: Some(tcp),
                unix: None,
                connections: 1,
                streams_per_connection: 1,
                header_list_bytes: 16_384,
                ..Settings::default()
            };
            let server = Server::bind(settings).await.unwrap();
            let reload = Reload::new(args.config, &config, server.access(), None, &engine::clock());
            Self { folder, reload }
        }

        /// Looks at the file with this text; the names of the rules that are in force then.
        async fn with(&mut self, text: &str) -> Vec<String> {
            let tokens = self.folder.path().join("tokens").display().to_string();
            let file = self.folder.path().join("leasehold.toml");
            std::fs::write(file, text.replace("TOKENS", &tokens)).unwrap();
            let loaded = self.reload.args.clone().load();
            self.reload.look(loaded).await;
            let rules = self.reload.rules.as_ref().unwrap().in_force();
            rules.into_iter().map(|rule| rule.name).collect()
        }
    }

    fn rule(name: &str) -> String {
        format!("[[access]]\nname = '{name}'\ntoken_file = 'TOKENS'\nrights = ['read']\n")
    }

    #[tokio::test]
    async fn s20_rules_are_used_when_they_change_and_kept_when_they_cannot_be_read() {
        let mut folder = Folder::new(&rule("one")).await;
        let problem = |folder: &Folder| folder.reload.problem.clone().unwrap_or_default();
        assert_eq!(folder.with(&rule("one")).await, ["one"]);
        assert_eq!(folder.with(&format!("{}{}", rule("one"), rule("two"))).await, ["one", "two"]);
        assert_eq!(folder.with(&rule("two")).await, ["two"]);
        for (wrong, said) in [
            ("[[access]]\nname = 'three'".to_owned(), "access"),
            ("not TOML".to_owned(), "leasehold.toml"),
            (rule("three").replace("TOKENS", "/missing"), "/missing"),
            // As an editor that truncates the file before it writes.
            (String::new(), "all rules are gone"),
        ] {
            assert_eq!(folder.with(&wrong).await, ["two"], "{wrong}");
            assert!(problem(&folder).contains(said), "{said}: {}", problem(&folder));
        }
        assert_eq!(folder.with(&rule("three")).await, ["three"]);
        assert_eq!(problem(&folder), "");
    }

    #[tokio::test]
    async fn settings_that_need_a_restart_are_named() {
        let rules = rule("one");
        let mut folder = Folder::new(&rules).await;
        assert_eq!(folder.with(&format!("locks.poll_cap = '2s'\n{rules}")).await, ["one"]);
        assert_eq!(folder.reload.waiting, ["locks.poll_cap"]);
        folder.with(&rule("two")).await;
        assert_eq!(folder.reload.waiting, [""; 0]);
    }
}
