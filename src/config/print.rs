//! What `--print-config` prints: every setting with its value and where that comes from, as a file of
//! settings.

use super::{Config, Origin, Shown};

impl Config {
    /// The configuration as TOML: defaults, secrets (S20) and what has no effect are comments, so that the
    /// rest can be used as a file.
    #[must_use]
    pub fn print(&self) -> String {
        let mut text = String::new();
        let mut section = "";
        for shown in &self.shown {
            let first = shown.key.split('.').next().unwrap_or_default();
            if !section.is_empty() && first != section {
                text.push('\n');
            }
            section = first;
            text.push_str(&line(shown));
            text.push('\n');
        }
        text
    }
}

fn line(shown: &Shown) -> String {
    let Shown { key, value, secret, origin, passed_over } = shown;
    match value {
        None => format!("# {key} is not set"),
        Some(_) if *secret => format!("# {key} is set, and secret  # {origin}"),
        Some(value) if *passed_over => format!("# {key} = {value}  # {origin}, without effect"),
        Some(value) if *origin == Origin::Default => format!("# {key} = {value}  # default"),
        Some(value) => format!("{key} = {value}  # {origin}"),
    }
}
