//! Results and errors, for people or as JSON: the only file that prints, but for `screen`.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

use clap::{ArgMatches, ValueEnum};
use comfy_table::{Cell, Table, presets};
use serde::Serialize;

use super::{exit, flags};
use crate::telemetry::Stderr;
use crate::text;

/// How results look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people.
    #[default]
    Text,
    /// For programs: one JSON document, or for `watch` one object per line. Errors are JSON too.
    Json,
}

/// The flag of every command that has a result.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct OutputArgs {
    /// The format of the result.
    #[arg(long, short = 'o', value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Format,
}

/// The flag of every command that has a list.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct ListingArgs {
    /// The format of the result.
    #[arg(long, short = 'o', value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Listing,
}

/// How lists look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listing {
    /// For people: within the width of the terminal, or 100 columns.
    #[default]
    Text,
    /// For people: every column and every name in full.
    Wide,
    /// For programs: one JSON document, or with `--watch` one object per line. Errors are JSON too.
    Json,
}

impl Listing {
    /// The same for a single result.
    pub(crate) const fn format(self) -> Format {
        match self {
            Self::Text | Self::Wide => Format::Text,
            Self::Json => Format::Json,
        }
    }
}

/// How the result of the command that was given looks, and an error of it.
pub(crate) fn format(given: &ArgMatches) -> Format {
    if let Some((_, command)) = given.subcommand() {
        return format(command);
    }
    let single = given.try_get_one("output").ok().flatten().copied();
    let list = || given.try_get_one("output").ok().flatten().copied().map(Listing::format);
    single.or_else(list).unwrap_or_default()
}

/// Prints a result: `text` for people, or `document`.
pub(crate) fn result(
    format: Format,
    text: impl FnOnce() -> String,
    document: &impl Serialize,
) -> anyhow::Result<()> {
    match format {
        Format::Text => print(&text::printable_lines(&text())),
        Format::Json => print(&text::printable_json(&serde_json::to_string_pretty(document)?)),
    }
}

/// Prints one of several results: `text` for people, or `document` in one line.
pub(crate) fn next_result(
    format: Format,
    text: impl FnOnce() -> String,
    document: &impl Serialize,
) -> anyhow::Result<()> {
    match format {
        Format::Text => print(&text::printable_lines(&text())),
        Format::Json => print(&text::printable_json(&serde_json::to_string(document)?)),
    }
}

/// Prints a text that is the same for people and programs.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", text.trim_end_matches('\n'))?;
    stdout.flush()?;
    Ok(())
}

/// Prints bytes as they are; a terminal gets the end of the line that they lack.
pub(crate) fn raw(bytes: &[u8]) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    if stdout.is_terminal() && !bytes.ends_with(b"\n") {
        stdout.write_all(b"\n")?;
    }
    stdout.flush()?;
    Ok(())
}

/// Says something beside the result. Never waits for who reads it: a lock may depend on what comes after
/// (S21).
pub(crate) fn note(text: &str) {
    say(&format!("leasehold: {}\n", text::printable_lines(text)));
}

fn say(line: &str) {
    // Nobody may be reading, and there is no other place to say it.
    let _ = Stderr.write_all(line.as_bytes());
}

/// Says why a command failed: what, on what, why, in one message.
pub(crate) fn error(format: Format, error: &anyhow::Error) {
    if exit::is_broken_pipe(error) {
        return;
    }
    let text = chain(error);
    match format {
        Format::Text => note(&text),
        Format::Json => {
            let failure = Failure {
                error: FailureBody {
                    message: &text,
                    exit_code: exit::of_error(error).code(),
                    reason: reason(error),
                },
            };
            let line = serde_json::to_string(&failure).unwrap_or_else(|_| text.clone());
            say(&format!("{}\n", text::printable_json(&line)));
        }
    }
}

#[derive(Serialize)]
struct Failure<'a> {
    error: FailureBody<'a>,
}

#[derive(Serialize)]
struct FailureBody<'a> {
    message: &'a str,
    exit_code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The reason that the sidecar gave, as the API names it.
fn reason(error: &anyhow::Error) -> Option<String> {
    error
        .chain()
        .find_map(|cause| cause.downcast_ref::<leasehold_client::Error>()?.reason())
        .map(|reason| reason.as_str().to_owned())
}

/// The error and its causes in one line, without those that the one before says already.
fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(flags::told) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            // Writing into a String cannot fail.
            let _ = write!(text, ": {cause}");
        }
    }
    text
}

/// Rows under headings, aligned.
pub(crate) fn table(headings: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(headings);
    for row in rows {
        table.add_row(row.into_iter().map(Cell::new));
    }
    trimmed(&table)
}

/// Names with their values, aligned; those without a value are left out.
pub(crate) fn fields(fields: &[(&str, String)]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        table.add_row([Cell::new(name), Cell::new(value)]);
    }
    trimmed(&table)
}

fn trimmed(table: &Table) -> String {
    let lines: Vec<String> = table.lines().map(|line| line.trim().to_owned()).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn an_error_is_told_with_its_causes_once() {
        let error = Err::<(), _>(io::Error::other("the disk is full"))
            .context("the file locks.db: the disk is full")
            .context("cannot open the store")
            .unwrap_err();
        assert_eq!(chain(&error), "cannot open the store: the file locks.db: the disk is full");
    }

    #[test]
    fn columns_are_aligned_and_lines_have_no_tail() {
        let rows =
            vec![vec!["a".to_owned(), "b".to_owned()], vec!["long".to_owned(), String::new()]];
        let text = table(&["ONE", "TWO"], rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.trim() == *line), "{text}");
        assert_eq!(lines[0].find("TWO"), lines[1].find('b'));
    }

    #[test]
    fn what_is_not_known_has_no_line() {
        let text = fields(&[("lock", "x".to_owned()), ("holder", String::new())]);
        assert_eq!(text, "lock  x");
    }
}
