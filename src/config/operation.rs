//! The sections `drain`, `admin` and `log`: how the sidecar is operated.

use std::net::SocketAddr;
use std::time::Duration;

use super::setting::{Key, settings};
use super::value::Choice;
use super::values::Values;
use crate::telemetry::{Filter, Format};

/// How the sidecar shuts down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// How long holders have to release their locks (S15). Default: 20 s.
    pub period: Duration,
    /// Whether a replacement follows, at which clients resume their holds (S15, S16). Default: false.
    pub hand_over: bool,
}

/// What operators reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// The address of health and metrics over HTTP. Default: 127.0.0.1:50952.
    pub listen: Option<SocketAddr>,
    /// Who may look at the page that `listen` serves. Default: callers from this machine.
    pub page: Page,
    /// Names that may lead to the page, beside addresses and `localhost`.
    pub page_hosts: Vec<String>,
    /// Whether locks may be broken through this sidecar (S17). Default: false.
    pub allow_break: bool,
    /// Whether schedules may be paused, resumed and run by hand through this sidecar (T18). Default: false.
    pub allow_schedule_changes: bool,
    /// Whether each schedule has metrics of its own (T23).
    pub schedule_labels: bool,
}

/// Who may look at the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// Callers from this machine.
    Loopback,
    /// Whoever reaches the address.
    Everyone,
    /// Nobody: there is none.
    Off,
}

impl Choice for Page {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("loopback", Self::Loopback), ("everyone", Self::Everyone), ("off", Self::Off)];
}

/// How the sidecar logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// How lines look. Default: for people on a terminal, else JSON.
    pub format: Format,
    /// Which events are logged. Default: [`Filter::DEFAULT`].
    pub filter: Filter,
}

settings! {
    PERIOD: Duration = Key::<Duration>::new(
        "drain.period",
        "20s",
        "How long holders have to release their locks when the sidecar is told to stop. The pod's grace period must be \
         longer.",
    ).within(Duration::ZERO, Duration::from_secs(3_600));
    HAND_OVER: bool = Key::new(
        "drain.hand_over",
        "false",
        "Whether a replacement starts at the same address when the sidecar is told to stop. Then no holder is told to \
         finish: each hold is renewed once more, its stream ends, and its client resumes it at the replacement. A hold \
         that is not resumed before its validity ends expires.",
    );
    LISTEN: Option<SocketAddr> = Key::new(
        "admin.listen",
        "127.0.0.1:50952",
        "The address of `/livez`, `/readyz`, `/metrics`, and of the page, over HTTP without authentication.",
    );
    PAGE: Page = Key::new(
        "admin.page",
        "loopback",
        "Who may see the page and its data: callers from this machine, everyone who reaches the address, or nobody. \
         They see the names, holders and labels of all locks in the container.",
    );
    PAGE_HOSTS: Vec<String> = Key::new(
        "admin.page_hosts",
        "[]",
        "Host names, without a port, by which browsers may reach the page, in addition to IP addresses and `localhost`. \
         Requests with any other name are refused, so that no other web site can read the page.",
    );
    ALLOW_BREAK: bool = Key::new(
        "admin.allow_break",
        "false",
        "Whether callers may break locks that others hold.",
    );
    ALLOW_SCHEDULE_CHANGES: bool = Key::new(
        "admin.allow_schedule_changes",
        "false",
        "Whether callers may pause, resume, reset and remove schedules, and run them by hand.",
    );
    SCHEDULE_LABELS: bool = Key::new(
        "admin.schedule_labels",
        "false",
        "Whether each schedule with subscribers has metrics of its own, with the path of its lock as a label.",
    );
    FORMAT: Format = Key::new(
        "log.format",
        "auto",
        "The format of log lines; `auto` is `human` when standard error is a terminal, else `json`.",
    );
    FILTER: Filter = Key::new(
        "log.filter",
        Filter::DEFAULT,
        "Which events are logged. Libraries that log each request, such as `azure_core`, log at `warn` and above unless they \
         are named here, and never below `info`, because they would log secrets.",
    );
}

pub(super) fn read_drain(values: &Values<'_>) -> Option<Drain> {
    Some(Drain { period: values.get(&PERIOD)?, hand_over: values.get(&HAND_OVER)? })
}

/// `tcp` is the callers' address, which admin cannot share.
pub(super) fn read_admin(values: &mut Values<'_>, tcp: Option<SocketAddr>) -> Option<Admin> {
    let listen = values.get(&LISTEN)?;
    if listen.is_some_and(|address| address.port() != 0 && Some(address) == tcp) {
        let problem =
            "admin.listen is the same address as listen.tcp: choose another port".to_owned();
        values.conflict(LISTEN.setting.key, problem);
    }
    Some(Admin {
        listen,
        page: values.get(&PAGE)?,
        page_hosts: values.get(&PAGE_HOSTS)?,
        allow_break: values.get(&ALLOW_BREAK)?,
        allow_schedule_changes: values.get(&ALLOW_SCHEDULE_CHANGES)?,
        schedule_labels: values.get(&SCHEDULE_LABELS)?,
    })
}

pub(super) fn read_log(values: &Values<'_>) -> Option<Log> {
    Some(Log { format: values.get(&FORMAT)?, filter: values.get(&FILTER)? })
}
