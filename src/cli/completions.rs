//! `leasehold completions`: scripts for shells. In bash, zsh and fish they complete the names of locks, too.

use clap_complete::Shell;

use super::exit::Exit;
use super::output;

/// Prints a script that completes this command line, such as `source <(leasehold completions bash)`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell to complete for.
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Commands whose first argument names a lock.
const OF_LOCKS: &[&str] =
    &["acquire", "break", "check-token", "path", "run", "show", "watch", "get", "set"];

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::command_line(), "leasehold", &mut script);
    let script = String::from_utf8(script)?;
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the other shells complete commands and flags"
    )]
    let script = match args.shell {
        Shell::Bash => bash(&script),
        Shell::Zsh => zsh(&script),
        Shell::Fish => fish(&script),
        _ => script,
    };
    output::print(&script)?;
    Ok(Exit::Success)
}

/// A function around the one that is generated.
fn bash(script: &str) -> String {
    let words = OF_LOCKS.join(" | ");
    let function = format!(
        r#"
_leasehold_locks() {{
    _leasehold "$@"
    case "$3" in
        -f | --function | {words}) ;;
        *) return 0 ;;
    esac
    [[ "$2" == -* ]] && return 0
    local names
    names=$("$1" lock-names -- "$2" 2>/dev/null)
    COMPREPLY+=( $(compgen -W "$names" -- "$2") )
}}
"#
    );
    let (functions, registered) = script.split_once("\nif [[").unwrap_or((script, ""));
    let registered = registered.replace("complete -F _leasehold ", "complete -F _leasehold_locks ");
    format!("{functions}{function}\nif [[{registered}")
}

/// The generated lines say what they complete an argument by.
fn zsh(script: &str) -> String {
    const FUNCTION: &str = r#"_leasehold_locks() {
    local -a names
    names=(${(f)"$(_call_program locks leasehold lock-names -- ${(q)PREFIX} 2>/dev/null)"})
    compadd -a names
}

_leasehold() {"#;
    let names_a_lock = |line: &str| {
        ["'-f+[", "'--function=[", "'::lock -- ", "'::name -- What the lock is for"]
            .iter()
            .any(|start| line.trim_start().starts_with(start))
    };
    let lines = script.lines().map(|line| match names_a_lock(line) {
        true => line.replace(":_default'", ":_leasehold_locks'"),
        false => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n").replacen("_leasehold() {", FUNCTION, 1)
}

/// More lines: fish puts together all that it is told.
fn fish(script: &str) -> String {
    let function = "function __leasehold_locks\n    leasehold lock-names -- (commandline -ct) 2>/dev/null\nend\n";
    let lines = OF_LOCKS.iter().map(|command| {
        let used = format!("__fish_leasehold_using_subcommand {command}");
        let used = match *command {
            "get" | "set" => format!("__fish_leasehold_using_subcommand checkpoint; and __fish_seen_subcommand_from {command}"),
            _ => used,
        };
        format!(
            "complete -c leasehold -n \"{used}\" -a \"(__leasehold_locks)\"\n\
             complete -c leasehold -n \"{used}\" -s f -l function -x -a \"(__leasehold_locks)\""
        )
    });
    format!("{script}\n{function}{}", lines.collect::<Vec<_>>().join("\n"))
}
