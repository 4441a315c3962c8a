//! What is said of a command line that cannot be parsed: as JSON where results are, and without commands that
//! nobody gives.

use std::ffi::{OsStr, OsString};

use clap::Command;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

use super::exit::{Exit, UsageError};
use super::output::{self, Format};
use crate::telemetry;

/// Prints help, or what is wrong with these arguments.
pub(super) fn tell(mut error: Error, line: &Command, arguments: &[OsString]) -> Exit {
    if !error.use_stderr() {
        // Nobody may be reading, and there is no other place to say it.
        let _ = error.print();
        return Exit::Success;
    }
    forget_hidden(&mut error, line);
    hint_at_the_command(&mut error, arguments);
    match wanted(arguments) {
        Format::Json => output::error(Format::Json, &UsageError(message(&error)).into()),
        Format::Text => {
            let _ = error.print();
        }
    }
    telemetry::flush();
    Exit::Usage
}

/// The format of the result that was asked for, as far as that can be read.
fn wanted(arguments: &[OsString]) -> Format {
    let own: Vec<&OsStr> =
        arguments.iter().map(OsString::as_os_str).take_while(|word| *word != "--").collect();
    let pair = own.windows(2).any(|pair| pair == ["--output", "json"] || pair == ["-o", "json"]);
    let one = own.iter().any(|word| *word == "--output=json" || *word == "-ojson");
    if pair || one { Format::Json } else { Format::Text }
}

/// Takes hidden commands out of what is suggested.
fn forget_hidden(error: &mut Error, line: &Command) {
    let hidden: Vec<&str> =
        line.get_subcommands().filter(|one| one.is_hide_set()).map(Command::get_name).collect();
    let suggested = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::String(one)) => vec![one.clone()],
        Some(ContextValue::Strings(all)) => all.clone(),
        _ => return,
    };
    let shown: Vec<String> =
        suggested.into_iter().filter(|one| !hidden.contains(&one.as_str())).collect();
    error.remove(ContextKind::SuggestedSubcommand);
    if !shown.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(shown));
    }
}

/// `run` and `every` take the command behind `--`, which newcomers leave out.
fn hint_at_the_command(error: &mut Error, arguments: &[OsString]) {
    let runs = arguments.get(1).is_some_and(|word| word == "run" || word == "every");
    let is_about_words =
        matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::MissingRequiredArgument);
    if !runs || !is_about_words || arguments.iter().any(|word| word == "--") {
        return;
    }
    let example = match arguments.get(1).and_then(|word| word.to_str()) {
        Some("every") => "leasehold every '30 2 * * *' -f nightly -- ./job",
        _ => "leasehold run nightly -- ./job",
    };
    let hint = format!("the command to run comes after --, such as: {example}");
    // This takes the place of what clap advises, which would make the word a part of the command alone.
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(hint)]));
}

/// What is wrong, and the hints, in one line.
fn message(error: &Error) -> String {
    let text = error.render().to_string();
    let said: Vec<&str> = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty())
        .collect();
    let said = said.join(" ");
    said.strip_prefix("error: ").unwrap_or(&said).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn the_format_is_read_where_the_rest_cannot_be() {
        assert_eq!(wanted(&words("leasehold ls --nonsense --output json")), Format::Json);
        assert_eq!(wanted(&words("leasehold ls --output=json --nonsense")), Format::Json);
        assert_eq!(wanted(&words("leasehold ls --nonsense")), Format::Text);
        assert_eq!(wanted(&words("leasehold run --nonsense -- x --output json")), Format::Text);
    }
}
