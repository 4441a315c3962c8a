//! `leasehold ls`: locks as a table.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use leasehold_client::{Client, ListLocks, LockRecord, LockState, LocksEvent, WatchLocks};
use serde::Serialize;
use tokio::signal::unix::SignalKind;
use tokio::time::MissedTickBehavior;

use super::connection::ConnectionArgs;
use super::exit::{Exit, UnavailableError};
use super::locks_table;
use super::narrow;
use super::output::{self, Format, Listing, ListingArgs};
use super::record;
use super::screen::Screen;
use super::sidecars::{self, SidecarView};
use super::signals::Signals;
use super::spec::{label, under};
use crate::view::LockView;

/// Lists the locks under the sidecar's host id, another one, or a prefix.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The locks under this host id. Default: the sidecar's own.
    #[arg(long, value_name = "ID", conflicts_with = "prefix")]
    host_id: Option<String>,
    /// The locks whose paths begin with this text: container and slash first.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Only those in this state; may be repeated.
    #[arg(long = "state", value_enum, value_name = "STATE")]
    states: Vec<State>,
    /// Only those with this label; may be repeated, and then all of them.
    #[arg(long = "label", value_parser = label, value_name = "KEY=VALUE")]
    labels: Vec<(String, String)>,
    /// Only those whose holder, or last holder, named this share.
    #[arg(long, value_name = "NAME", default_value_t, hide_default_value = true)]
    share: String,
    /// A line for each sidecar instead, with how many locks of which share it holds.
    #[arg(long, conflicts_with = "states")]
    by_sidecar: bool,
    /// With --by-sidecar: the paths of its locks, too.
    #[arg(long, requires = "by_sidecar")]
    names: bool,
    /// Keep running until interrupted: on a terminal, show the table as it changes; otherwise, print a line
    /// for each lock (or sidecar) now and at each change.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    output: ListingArgs,
}

/// The state of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum State {
    /// Nobody holds it.
    Available,
    /// Somebody holds it.
    Held,
    /// It was broken, and the old lease has not expired yet.
    Breaking,
    /// It was released, and rests because of `min_hold`.
    Resting,
}

impl State {
    const fn of_api(self) -> LockState {
        match self {
            Self::Available => LockState::Available,
            Self::Held => LockState::Held,
            Self::Breaking => LockState::Breaking,
            Self::Resting => LockState::Resting,
        }
    }
}

/// Runs the command.
pub(super) async fn run(args: Args) -> anyhow::Result<Exit> {
    let under = under(args.host_id, args.prefix);
    let format = args.output.output.format();
    if args.watch {
        let mut request = WatchLocks::under(under).in_share(args.share);
        request.labels = args.labels.into_iter().collect();
        let link = args.connection.link().await?;
        if args.by_sidecar {
            return watch_sidecars(&link.client, request, args.names, format).await;
        }
        let states: Vec<LockState> = args.states.into_iter().map(State::of_api).collect();
        if format == Format::Text
            && let Some(screen) = Screen::take().context("cannot use the terminal")?
        {
            return watch_on(screen, &link.client, request, &states).await;
        }
        return watch(&link.client, request, &states, format).await;
    }
    let mut request = ListLocks::under(under).in_share(args.share);
    request.states = args.states.into_iter().map(State::of_api).collect();
    request.labels = args.labels.into_iter().collect();
    let records = args.connection.ask(async |client| all_pages(client, request).await).await?;
    if args.by_sidecar {
        let sidecars = sidecars::by_sidecar(&records);
        let views: Vec<_> = sidecars.values().collect();
        output::result(format, || sidecars::table(&sidecars, args.names), &views)?;
        return Ok(Exit::Success);
    }
    let views: Vec<LockView> = records.iter().map(LockView::from).collect();
    output::result(format, || table(args.output.output, &records), &views)?;
    Ok(Exit::Success)
}

fn table(listing: Listing, records: &[LockRecord]) -> String {
    match listing {
        Listing::Text | Listing::Json => locks_table::narrow(records, narrow::width()),
        Listing::Wide => locks_table::wide(records),
    }
}

/// What `--watch` tells of a lock.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum WatchView {
    Changed(Box<LockView>),
    Gone(String),
}

/// Whether a lock is in one of these states; in any, if there are none.
fn is_among(states: &[LockState], lock: &LockRecord) -> bool {
    states.is_empty() || states.contains(&lock.state)
}

/// The table, for as long as nobody interrupts it.
async fn watch_on(
    mut screen: Screen,
    client: &Client,
    request: WatchLocks,
    states: &[LockState],
) -> anyhow::Result<Exit> {
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let mut signals = Signals::listen(&kinds).context("cannot listen for signals")?;
    screen.draw("waiting for the sidecar; ^C ends it")?;
    let asked = tokio::select! {
        number = signals.next() => return Ok(Exit::by_signal(number)),
        asked = client.watch_locks(request) => asked,
    };
    let mut watch = asked?;
    let mut locks: BTreeMap<String, LockRecord> = BTreeMap::new();
    // What holds last for is counted on the screen, so it is drawn without news, too.
    let mut ticks = tokio::time::interval(REDRAW);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            number = signals.next() => return Ok(Exit::by_signal(number)),
            _ = ticks.tick() => {
                let shown = locks.values().filter(|lock| is_among(states, lock));
                let shown: Vec<LockRecord> = shown.cloned().collect();
                let held = locks.values().filter(|lock| lock.state == LockState::Held).count();
                let title = format!("held: {held} of {}; ^C ends it", locks.len());
                screen.draw(&format!("{title}\n{}", locks_table::narrow(&shown, narrow::width())))?;
            }
            event = watch.next() => match event? {
                Some(LocksEvent::Changed(record)) => {
                    locks.insert(record.lock_path.clone(), *record);
                }
                Some(LocksEvent::Gone(path)) => {
                    locks.remove(&path);
                }
                // That all was told, or what a later version tells.
                Some(LocksEvent::Listed { .. } | _) => {}
                None => return Err(UnavailableError(ENDED.to_owned()).into()),
            },
        }
    }
}

/// A line for each lock and each change.
async fn watch(
    client: &Client,
    request: WatchLocks,
    states: &[LockState],
    format: Format,
) -> anyhow::Result<Exit> {
    let mut watch = client.watch_locks(request).await?;
    let mut told: BTreeSet<String> = BTreeSet::new();
    while let Some(event) = watch.next().await? {
        match event {
            LocksEvent::Changed(record) => {
                // One that is in no such state any more is told of once more.
                let was_told = told.remove(&record.lock_path);
                if is_among(states, &record) {
                    told.insert(record.lock_path.clone());
                } else if !was_told {
                    continue;
                }
                let view = WatchView::Changed(Box::new(LockView::from(record.as_ref())));
                let text = || format!("{}  {}", record.lock_path, record::doing_text(&record));
                output::next_result(format, text, &view)?;
            }
            LocksEvent::Gone(path) => {
                let text = format!("{path}  gone");
                output::next_result(format, || text, &WatchView::Gone(path.clone()))?;
            }
            // That all was told, or what a later version tells.
            LocksEvent::Listed { .. } | _ => {}
        }
    }
    Err(UnavailableError(ENDED.to_owned()).into())
}

/// What `--by-sidecar --watch` tells of a sidecar.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum SidecarEvent<'a> {
    Changed(&'a SidecarView),
    Gone(&'a str),
}

/// A line for each sidecar once all locks are known, and at each change of its locks.
async fn watch_sidecars(
    client: &Client,
    request: WatchLocks,
    names: bool,
    format: Format,
) -> anyhow::Result<Exit> {
    let mut watch = client.watch_locks(request).await?;
    let mut locks: BTreeMap<String, LockRecord> = BTreeMap::new();
    let mut told: BTreeMap<String, SidecarView> = BTreeMap::new();
    let mut is_known = false;
    while let Some(event) = watch.next().await? {
        match event {
            LocksEvent::Changed(record) => {
                locks.insert(record.lock_path.clone(), *record);
            }
            LocksEvent::Gone(path) => {
                locks.remove(&path);
            }
            LocksEvent::Listed { .. } => is_known = true,
            // What a later version tells.
            _ => {}
        }
        if !is_known {
            continue;
        }
        let now = sidecars::by_sidecar(locks.values());
        for (_, view) in now.iter().filter(|(name, view)| told.get(*name) != Some(*view)) {
            output::next_result(format, || view.line(names), &SidecarEvent::Changed(view))?;
        }
        for name in told.keys().filter(|name| !now.contains_key(*name)) {
            let text = || format!("{}  0 locks", sidecars::name(name));
            output::next_result(format, text, &SidecarEvent::Gone(name))?;
        }
        told = now;
    }
    Err(UnavailableError(ENDED.to_owned()).into())
}

/// How often the screen is drawn at the most, and at the least.
const REDRAW: Duration = Duration::from_millis(500);
const ENDED: &str = "the sidecar ended the watch: start it again";

async fn all_pages(client: &Client, mut request: ListLocks) -> anyhow::Result<Vec<LockRecord>> {
    let mut records = Vec::new();
    loop {
        let page = client.list_locks(request.clone()).await?;
        records.extend(page.records);
        if page.next_page_token.is_empty() {
            return Ok(records);
        }
        request = request.page(page.next_page_token);
    }
}
