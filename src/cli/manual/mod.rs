//! Help and manual pages: what both say beside the flags, from one table (`table.rs`).
//!
//! `-h` is short: a sentence for each flag, and examples. `--help` and the manual page have everything, in
//! the same sections.

mod table;

use std::io::{self, Write};

use clap::{Arg, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::exit;
use table::{GROUPS, PAGES, Page};

/// A command by its words after `leasehold`, with what its module says of it.
pub(super) type About = (&'static str, fn() -> String);

/// What the module of a command says of it.
pub(super) fn about<A: clap::Args>() -> String {
    let command = A::augment_args(Command::new("any"));
    let text = command.get_long_about().or_else(|| command.get_about());
    text.map(ToString::to_string).unwrap_or_default()
}

/// The command line with what help says beside the flags.
pub(super) fn complete(command: Command, texts: &[About]) -> Command {
    let groups = groups(&command);
    let template = format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    );
    let exits = section("Exit status", &pairs(exit::TABLE.iter().map(|row| (row.0, row.2))));
    let sections = Sections::of(None, &command).text();
    command
        .help_template(template)
        .after_help("leasehold COMMAND -h says what a command does, --help everything about it.")
        .after_long_help(format!("{exits}\n\n{sections}"))
        .mut_subcommands(|child| with_sections(&[], child, texts))
}

/// A command of the group `above`, and those of its own group.
fn with_sections(above: &[&str], command: Command, texts: &[About]) -> Command {
    let name = command.get_name().to_owned();
    let words: Vec<&str> = above.iter().copied().chain([name.as_str()]).collect();
    let page = PAGES.iter().find(|page| page.command == words.join(" "));
    let sections = Sections::of(page, &command);
    let text =
        texts.iter().find(|(command, _)| *command == words.join(" ")).map(|(_, text)| text());
    let command = match text.filter(|text| !text.is_empty()) {
        Some(text) => command.long_about(text),
        None => command,
    };
    let command = match page {
        Some(page) => command
            .after_help(section("Examples", &lines(page.examples)))
            .after_long_help(sections.text()),
        None => command,
    };
    command.mut_args(with_short_help).mut_subcommands(|child| with_sections(&words, child, texts))
}

/// `-h` has the first sentence of what `--help` says of a flag.
fn with_short_help(argument: Arg) -> Arg {
    let Some(help) = argument.get_help().map(ToString::to_string) else { return argument };
    match help.split_once(". ") {
        Some((first, _)) if argument.get_long_help().is_none() => {
            argument.help(first.to_owned()).long_help(help)
        }
        Some(_) | None => argument,
    }
}

/// The commands, by what they are for.
fn groups(command: &Command) -> String {
    let about = |name: &str| {
        let child = command.find_subcommand(name).and_then(Command::get_about);
        child.map_or_else(|| "Print this help or that of a command".to_owned(), ToString::to_string)
    };
    let mut text = String::new();
    for (title, names) in GROUPS {
        let rows = names.iter().map(|name| (*name, about(name)));
        text += &format!("{title}:\n{}\n\n", aligned(&rows.collect::<Vec<_>>(), "  "));
    }
    text
}

/// The sections behind the flags, each a title and its paragraphs.
struct Sections(Vec<(&'static str, Vec<Paragraph>)>);

/// A word with what it means, or a line as it is typed.
enum Paragraph {
    Pair(String, String),
    Line(String),
}

impl Sections {
    fn of(page: Option<&Page>, command: &Command) -> Self {
        let has = |id: &str| command.get_arguments().any(|argument| argument.get_id() == id);
        let mut all = Vec::new();
        let exits = page.map(|page| exits(page, has("endpoint") || has("config")));
        all.push(("Exit status", exits.unwrap_or_default()));
        all.push(("Environment", variables(has)));
        all.push((
            "Environment of the command",
            page.map(|page| pairs(page.sets.iter().copied())).unwrap_or_default(),
        ));
        all.push(("Files", if has("config") { files() } else { Vec::new() }));
        all.push(("Examples", page.map(|page| lines(page.examples)).unwrap_or_default()));
        all.retain(|(_, paragraphs)| !paragraphs.is_empty());
        Self(all)
    }

    fn text(&self) -> String {
        let all: Vec<String> = self.0.iter().map(|(title, body)| section(title, body)).collect();
        all.join("\n\n")
    }
}

/// What a command's exit codes mean, its own and those of every command.
fn exits(page: &Page, asks: bool) -> Vec<Paragraph> {
    let is_own = |code: &str| page.exits.iter().any(|(own, _)| *own == code);
    let general = exit::TABLE.iter().filter(|row| match row.1 {
        exit::Of::Every => true,
        exit::Of::Asking => asks,
        exit::Of::Some => false,
    });
    let general = general.filter(|row| !is_own(row.0)).map(|row| (row.0, row.2));
    let mut all: Vec<(&str, &str)> = page.exits.iter().copied().chain(general).collect();
    // Numbers in their order, words behind them.
    all.sort_by_key(|(code, _)| code.parse::<u8>().unwrap_or(u8::MAX));
    pairs(all)
}

fn variables(has: impl Fn(&str) -> bool) -> Vec<Paragraph> {
    let all = [
        ("endpoint", "LEASEHOLD_ENDPOINT", "where the sidecar is, unless --endpoint says it"),
        ("lease_id", "LEASEHOLD_LEASE_ID", "the lease id, unless it is given"),
        ("priority", "LEASEHOLD_PRIORITY", "the priority, unless --priority says it"),
        ("yields", "LEASEHOLD_YIELDS", "true or false, unless --yields says it"),
        ("share", "LEASEHOLD_SHARE", "the share, unless --share says it"),
        ("rebalance", "LEASEHOLD_REBALANCE", "true or false, unless --rebalance says it"),
        ("config", "LEASEHOLD_CONFIG", "the file of settings, unless --config says it"),
        (
            "config",
            "LEASEHOLD_SECTION_SETTING",
            "a setting, such as LEASEHOLD_STORE_KIND for store.kind; --set goes first, the file last",
        ),
    ];
    // `ls --share` selects; no variable stands in for that.
    let is_read = |id: &str| has(id) && (id != "share" || has("priority"));
    pairs(all.into_iter().filter(|(id, ..)| is_read(id)).map(|(_, name, what)| (name, what)))
}

fn files() -> Vec<Paragraph> {
    pairs([
        (
            "$XDG_STATE_HOME/leasehold/locks.db, else ~/.local/state/leasehold/locks.db",
            "the embedded store, unless store.embedded.path names another file",
        ),
        ("/etc/leasehold/leasehold.toml", "the settings of the packaged sidecar"),
    ])
}

fn pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<Paragraph> {
    pairs
        .into_iter()
        .map(|(word, what)| Paragraph::Pair(word.to_owned(), what.to_owned()))
        .collect()
}

fn lines(lines: &[&str]) -> Vec<Paragraph> {
    lines.iter().map(|line| Paragraph::Line((*line).to_owned())).collect()
}

/// The width of help (`max_term_width`).
const WIDTH: usize = 100;

/// A section of help, wrapped so that what follows a word is aligned, which clap does not do.
fn section(title: &str, body: &[Paragraph]) -> String {
    let is_short = |paragraph: &Paragraph| match paragraph {
        Paragraph::Pair(word, _) => word.len() <= 9,
        Paragraph::Line(_) => true,
    };
    let all_short = body.iter().all(is_short);
    let shown = body.iter().map(|paragraph| match paragraph {
        Paragraph::Pair(word, what) if all_short => {
            format!("  {word:<9}{}", wrapped(what, 11))
        }
        Paragraph::Pair(word, what) => format!("  {word}\n          {}", wrapped(what, 10)),
        Paragraph::Line(line) => format!("  {line}"),
    });
    format!("{title}:\n{}", shown.collect::<Vec<_>>().join("\n"))
}

/// The text behind `indent` columns.
fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        let needed = line.chars().count() + 1 + word.chars().count();
        if line.is_empty() {
            line.push_str(word);
        } else if indent + needed <= WIDTH {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

fn aligned(rows: &[(&str, String)], indent: &str) -> String {
    let width = 13;
    let shown = rows.iter().map(|(word, what)| format!("{indent}{word:<width$}{what}"));
    shown.collect::<Vec<_>>().join("\n")
}

/// Writes the manual page of a command, with the sections that manual pages have.
pub(super) fn write_page(command: &Command, into: &mut dyn Write) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let words = name.strip_prefix("leasehold").unwrap_or(name).trim_start_matches('-');
    let page = PAGES.iter().find(|page| page.command.replace(' ', "-") == words);
    let man = Man::new(command.clone());
    man.render_title(into)?;
    man.render_name_section(into)?;
    man.render_synopsis_section(into)?;
    man.render_description_section(into)?;
    man.render_options_section(into)?;
    if command.has_subcommands() {
        man.render_subcommands_section(into)?;
    }
    let mut roff = Roff::default();
    let mut sections = Sections::of(page, command);
    if page.is_none() {
        let all = pairs(exit::TABLE.iter().map(|row| (row.0, row.2)));
        sections.0.insert(0, ("Exit status", all));
    }
    for (title, body) in sections.0 {
        roff.control("SH", [title.to_uppercase().as_str()]);
        for paragraph in body {
            match paragraph {
                Paragraph::Pair(word, what) => {
                    roff.control("TP", []).text([bold(word)]).text([roman(what)]);
                }
                Paragraph::Line(line) => {
                    roff.control("nf", []).text([roman(line)]).control("fi", []);
                }
            }
        }
    }
    let others = if words.is_empty() {
        "leasehold-run(1), leasehold-serve(1), leasehold-doctor(1)"
    } else {
        "leasehold(1)"
    };
    roff.control("SH", ["SEE ALSO"]).text([roman(others)]);
    roff.to_writer(into)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(above: &str, command: &Command) -> Vec<String> {
        let visible = command.get_subcommands().filter(|child| !child.is_hide_set());
        visible
            .flat_map(|child| {
                let name = format!("{above} {}", child.get_name()).trim().to_owned();
                let below = leaves(&name, child);
                std::iter::once(name).chain(below)
            })
            .collect()
    }

    #[test]
    fn every_command_has_a_page_with_examples_that_are_right_and_one_group() {
        let line = super::super::command_line();
        for name in leaves("", &line).iter().filter(|name| name.as_str() != "help") {
            let page = PAGES.iter().find(|page| page.command == name);
            let page = page.unwrap_or_else(|| panic!("{name} has no page in table.rs"));
            assert!(!page.examples.is_empty() && !page.exits.is_empty(), "{name}");
            for example in page.examples.iter().filter(|example| !example.starts_with("source")) {
                let words: Vec<String> = example
                    .split(" < ")
                    .next()
                    .unwrap()
                    .split('\'')
                    .enumerate()
                    .flat_map(|(at, part)| {
                        let quoted = at % 2 == 1;
                        let whole = quoted.then(|| vec![part.to_owned()]);
                        whole
                            .unwrap_or_else(|| part.split_whitespace().map(str::to_owned).collect())
                    })
                    .collect();
                let parsed = super::super::command_line().try_get_matches_from(&words);
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
        for command in line.get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let count = GROUPS.iter().filter(|(_, names)| names.contains(&name)).count();
            assert_eq!(count, 1, "{name} is in {count} groups of table.rs");
        }
    }

    #[test]
    fn each_code_of_a_command_is_in_the_table_of_codes() {
        for page in PAGES {
            for (code, _) in page.exits.iter().filter(|(code, _)| *code != "any") {
                assert!(exit::TABLE.iter().any(|row| row.0 == *code), "{} {code}", page.command);
            }
        }
    }
}
