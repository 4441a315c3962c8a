//! What help and manual pages say of each command beside its flags: exit codes, examples, and variables of
//! its own.

/// What is said of one command.
#[derive(Debug)]
pub(super) struct Page {
    /// Its words after `leasehold`.
    pub(super) command: &'static str,
    /// The codes that mean something of its own; those of every command are added.
    pub(super) exits: &'static [(&'static str, &'static str)],
    pub(super) examples: &'static [&'static str],
    /// The variables that it sets for a command that it runs.
    pub(super) sets: &'static [(&'static str, &'static str)],
}

/// Of a command that sets no variables.
const fn page(
    command: &'static str,
    exits: &'static [(&'static str, &'static str)],
    examples: &'static [&'static str],
) -> Page {
    Page { command, exits, examples, sets: &[] }
}

/// Commands by what they are for, everyday ones first: the order of `leasehold --help`.
pub(super) const GROUPS: &[(&str, &[&str])] = &[
    (
        "Work under a lock",
        &["run", "every", "acquire", "extend", "release", "checkpoint", "check-token"],
    ),
    ("Look at locks and schedules", &["ls", "show", "watch", "path", "schedule"]),
    ("Run and check a sidecar", &["serve", "doctor", "info", "probe", "bench"]),
    ("Repair", &["break", "gc"]),
    ("This program", &["install", "completions", "man", "help"]),
];

const DONE: (&str, &str) = ("0", "done");
const NOT_ACQUIRED: (&str, &str) = ("75", "the lock was not acquired within --wait");

const SET_BY_RUN: &[(&str, &str)] = &[
    ("LEASEHOLD_FENCING_TOKEN", "the fencing token to send with each write"),
    ("LEASEHOLD_LOCK_PATH", "the path of the lock"),
    ("LEASEHOLD_LEASE_ID", "this hold of the lock, for leasehold checkpoint set"),
    ("LEASEHOLD_PERMIT", "which permit of the lock is held; 0 unless --permits asks for several"),
    ("LEASEHOLD_HOLD_ENDS", "with --max-hold: when the hold ends, in seconds since 1970"),
    ("LEASEHOLD_CHECKPOINT_FILE", "with --checkpoint: the path of that file"),
    ("LEASEHOLD_SCHEDULED_AT", "with --occurrence: the occurrence, RFC 3339 in UTC"),
    ("LEASEHOLD_ATTEMPT", "with --occurrence: the number of the attempt, from 1"),
];

const SET_BY_EVERY: &[(&str, &str)] = &[
    ("LEASEHOLD_FENCING_TOKEN, LEASEHOLD_LOCK_PATH, LEASEHOLD_LEASE_ID", "as with leasehold run"),
    ("LEASEHOLD_CHECKPOINT_FILE", "with --checkpoint: the path of that file"),
    (
        "LEASEHOLD_SCHEDULED_AT",
        "the occurrence, RFC 3339 in UTC; of a run by hand, when it was started",
    ),
    ("LEASEHOLD_ATTEMPT", "the number of the attempt, from 1"),
    ("LEASEHOLD_MISSED", "how many occurrences were missed before this one"),
    ("LEASEHOLD_LATENESS", "how late it started, in seconds"),
    ("LEASEHOLD_DEADLINE", "when the command is stopped, if the run has a deadline"),
    ("LEASEHOLD_RUN_ID", "the id of the run"),
    ("LEASEHOLD_REQUEST_ID", "the id of the request, of a run by hand"),
];

/// Every command that people can give.
pub(super) const PAGES: &[Page] = &[
    page(
        "serve",
        &[
            ("0", "it was told to stop, and every hold has ended"),
            ("128 + n", "a second signal, n, ended it at once"),
        ],
        &[
            "leasehold serve",
            "leasehold serve --config /etc/leasehold/leasehold.toml",
            "leasehold serve --store azure --set store.azure.account=myaccount --set store.azure.sign_in=workload_identity",
            "leasehold serve --print-config",
        ],
    ),
    Page {
        sets: SET_BY_RUN,
        ..page(
            "run",
            &[
                ("any", "the command's own"),
                ("74", "the command ended with 0, and its checkpoint or outcome was not saved"),
                ("75", "the lock was not acquired within --wait (or --busy-exit-code)"),
                (
                    "76",
                    "the lock was lost (or --lost-exit-code): the command was stopped, or the release found that the lock had been lost \
                 before the command ended",
                ),
                ("126", "the command cannot be executed"),
                ("127", "the command was not found"),
                ("128 + n", "ended by signal n, such as 130 for SIGINT and 143 for SIGTERM"),
            ],
            &[
                "leasehold run nightly-report --wait 5m -- ./report.sh --all",
                "leasehold run nightly-report --skip-exit-code 0 -- ./report.sh",
                "leasehold run consumer --wait forever -- ./consume",
                "leasehold run --store embedded backup -- ./backup.sh",
            ],
        )
    },
    Page {
        sets: SET_BY_EVERY,
        ..page(
            "every",
            &[
                ("0", "it was told to stop"),
                ("any", "with --once, the command's own"),
                ("74", "with --once: its checkpoint was not saved"),
                ("76", "with --once: its run was lost"),
            ],
            &[
                "leasehold every '30 2 * * *' --tz Europe/Copenhagen -f nightly -- ./job",
                "leasehold every 90s -f poll -- ./poll.sh",
            ],
        )
    },
    page(
        "acquire",
        &[("0", "granted"), ("75", "busy: the lock was not acquired within --wait")],
        &[
            "leasehold acquire import --max-hold 10m --output json",
            "leasehold acquire -f import -s orders --wait 1m",
        ],
    ),
    page(
        "release",
        &[("0", "released, now or before"), ("76", "it had been lost before")],
        &["leasehold release", "leasehold release - < lease-id"],
    ),
    page(
        "extend",
        &[("0", "extended"), ("76", "the hold is over")],
        &["leasehold extend --max-hold 10m"],
    ),
    page(
        "ls",
        &[DONE],
        &[
            "leasehold ls",
            "leasehold ls --state held --label team=orders",
            "leasehold ls -o wide",
            "leasehold ls --watch",
        ],
    ),
    page(
        "show",
        &[DONE],
        &["leasehold show nightly", "leasehold show -f import -s orders --output json"],
    ),
    page(
        "watch",
        &[("69", "the sidecar ended the watch, or cannot be reached")],
        &["leasehold watch nightly"],
    ),
    page(
        "break",
        &[
            ("0", "broken, or nobody held the lock"),
            ("75", "another holder has the lock by now: nothing was broken"),
        ],
        &[
            "leasehold break nightly --reason 'the node is gone'",
            "leasehold break nightly --reason 'the node is gone' --token 17 --now --yes",
        ],
    ),
    page(
        "path",
        &[DONE],
        &["leasehold path nightly", "leasehold path -f import -s orders --host-type orders-worker"],
    ),
    page("info", &[DONE], &["leasehold info", "leasehold info --output json"]),
    page(
        "checkpoint",
        &[
            ("66", "get: the lock has no checkpoint"),
            ("74", "set: not saved, or it is not known whether it was"),
        ],
        &["leasehold checkpoint get import", "leasehold checkpoint set import --value 'page 7'"],
    ),
    page(
        "checkpoint get",
        &[("0", "printed"), ("66", "the lock has no checkpoint")],
        &["leasehold checkpoint get import", "leasehold checkpoint get import --file cursor"],
    ),
    page(
        "checkpoint set",
        &[
            ("0", "saved"),
            ("74", "not saved, or it is not known whether it was"),
            NOT_ACQUIRED,
            ("76", "the hold is over"),
        ],
        &[
            "leasehold checkpoint set import --value 'page 7'",
            "leasehold checkpoint set --file cursor",
        ],
    ),
    page(
        "schedule",
        &[DONE],
        &["leasehold schedule ls", "leasehold schedule next '30 2 * * *' --tz Europe/Copenhagen"],
    ),
    page("schedule ls", &[DONE], &["leasehold schedule ls", "leasehold schedule ls --output json"]),
    page("schedule show", &[DONE], &["leasehold schedule show -f nightly"]),
    page(
        "schedule next",
        &[DONE],
        &[
            "leasehold schedule next '30 2 * * *' --tz Europe/Copenhagen",
            "leasehold schedule next '*/10 * * * * *' -n 3",
            "leasehold schedule next --every 90s --from 2026-03-29T00:00:00Z",
        ],
    ),
    page("schedule pause", &[DONE], &["leasehold schedule pause -f nightly"]),
    page("schedule resume", &[DONE], &["leasehold schedule resume -f nightly"]),
    page(
        "schedule trigger",
        &[DONE],
        &["leasehold schedule trigger -f nightly --request-id ticket-4711"],
    ),
    page(
        "schedule rm",
        &[DONE],
        &["leasehold schedule rm -f nightly --reason 'replaced by hourly'"],
    ),
    page(
        "schedule reset",
        &[DONE],
        &[
            "leasehold schedule reset -f nightly --reason 'the clock was wrong' --watermark 2027-03-28T00:00:00Z",
        ],
    ),
    page(
        "schedule import",
        &[
            ("0", "the schedule begins there"),
            ("64", "the status or the schedule does not allow it, or the command line is invalid"),
            ("75", "the lock is held"),
        ],
        &[
            "leasehold schedule import -f nightly --store azure --timer Host.Functions.Nightly --timer-host-id myapp --dry-run",
            "leasehold schedule import -f nightly --store embedded --status status.json --status-tz Europe/Copenhagen",
        ],
    ),
    page(
        "check-token",
        &[
            ("0", "current"),
            ("1", "stale: somebody else has acquired the lock since, so refuse it"),
            ("2", "newer than any token that is known, so refuse it"),
        ],
        &["leasehold check-token import --token 123"],
    ),
    page(
        "probe",
        &[("0", "ready (or alive)"), ("69", "not")],
        &["leasehold probe --wait 30s", "leasehold probe --live"],
    ),
    page(
        "doctor",
        &[
            ("0", "no errors were found"),
            ("69", "the store is unreachable"),
            ("78", "something must be corrected"),
        ],
        &[
            "leasehold doctor",
            "leasehold doctor --config /etc/leasehold/leasehold.toml",
            "leasehold doctor --exclusion --endpoint unix:///run/leasehold/leasehold.sock",
        ],
    ),
    page(
        "gc",
        &[DONE],
        &["leasehold gc --idle 30d --dry-run --store azure", "leasehold gc --idle 30d --all-hosts"],
    ),
    page(
        "bench",
        &[("0", "no problems were found"), ("70", "some were: see the report")],
        &["leasehold bench", "leasehold bench --clients 100 --duration 10s"],
    ),
    page(
        "install",
        &[("0", "it is there"), ("78", "the folder is missing or cannot be written")],
        &["leasehold install /shared"],
    ),
    page("completions", &[DONE], &["source <(leasehold completions bash)"]),
    page("man", &[DONE], &["leasehold man /usr/local/share/man/man1"]),
];
