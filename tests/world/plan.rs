//! How a schedule is: drawn from its seed before anything happens.

use std::time::Duration;

use leasehold::lock::Layout;

use crate::kit::one_of;
use crate::world::chance::{About, Chance};
use crate::world::trouble;

/// What the network and the service do to requests, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weather {
    pub(crate) lose_request: u16,
    pub(crate) lose_answer: u16,
    pub(crate) repeat: u16,
    pub(crate) delay_request: u16,
    pub(crate) delay_answer: u16,
    pub(crate) reset: u16,
    pub(crate) refuse: u16,
    pub(crate) odd: u16,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) length: Duration,
    pub(crate) sidecars: usize,
    pub(crate) clients: usize,
    pub(crate) locks: usize,
    pub(crate) weather: Weather,
    /// How often something happens to a sidecar or the service: a thousandth for each ten seconds and each
    /// kind.
    pub(crate) troubles: u16,
    /// How often a sidecar is told to end and a replacement follows, as in a rollout (S15): a thousandth for
    /// each ten seconds.
    pub(crate) hand_overs: u16,
    /// How clients fare, in thousandths of their chances to.
    pub(crate) client_faults: u16,
    /// How far each front end's clock is ahead.
    pub(crate) front_ends: [Duration; 3],
    /// How fast each sidecar's clock is, in millionths; and each client's.
    pub(crate) rates: Vec<i64>,
    /// The default D of all sidecars, in seconds.
    pub(crate) lease: u64,
    /// Callers say how long their leases are to be, up to that: in one of six schedules.
    pub(crate) own_leases: bool,
    /// At how many holds a sidecar lets nobody in.
    pub(crate) max_holds: usize,
    /// How often clients save checkpoints, in thousandths of what they do (S23).
    pub(crate) saves: u16,
    /// How many locks a sidecar remembers that nobody uses.
    pub(crate) remembered_locks: usize,
    /// How locks are named: in one of four schedules beside hosts of WebJobs.
    pub(crate) layout: Layout,
    /// How long an answer of the service takes at the least, in milliseconds.
    pub(crate) distance: u64,
}

/// The shortest lease that there is, in seconds.
pub(super) const SHORTEST: u64 = 15;

impl Plan {
    pub(crate) fn draw(chance: &Chance) -> Self {
        let mut random = chance.of(About::Plan, 0, 0);
        let mut permille = |most: u64| u16::try_from(random.below(most + 1)).unwrap();
        let stormy = Weather {
            lose_request: permille(100),
            lose_answer: permille(100),
            repeat: permille(80),
            delay_request: permille(100),
            delay_answer: permille(100),
            reset: permille(60),
            refuse: permille(60),
            odd: permille(40),
        };
        // Drawn apart, so that the other schedules are what they were without it.
        let hand_overs = one_of(&mut chance.of(About::Plan, 0, 2), &[0, 0, 0, 0, 60, 200]);
        let saves = one_of(&mut chance.of(About::Plan, 0, 3), &[0, 150, 500]);
        let remembered_locks = one_of(&mut chance.of(About::Plan, 0, 4), &[0, 1, 1_000]);
        let own_leases =
            chance.of(About::Plan, 0, 7).chance(170) && !trouble::is_left_out("OwnLeases");
        let mut random = chance.of(About::Plan, 0, 1);
        // Half of all schedules have a network without faults: what goes wrong there has no excuse.
        let weather = if random.chance(500) { Weather::default() } else { stormy };
        let sidecars = one_of(&mut random, &[2, 2, 3, 4]);
        let clients = 3 + usize::try_from(random.below(4)).unwrap();
        Self {
            length: Duration::from_secs(60 + random.below(90)),
            sidecars,
            clients,
            locks: one_of(&mut random, &[1, 1, 2]),
            weather,
            troubles: one_of(&mut random, &[0, 30, 80]),
            hand_overs,
            saves,
            own_leases,
            remembered_locks,
            client_faults: one_of(&mut random, &[0, 100, 300]),
            front_ends: std::array::from_fn(|_| Duration::from_millis(random.below(3_001))),
            rates: (0..sidecars + clients)
                .map(|_| i64::try_from(random.below(9_001)).unwrap() - 4_500)
                .collect(),
            lease: one_of(&mut random, &[15, 15, 30, 60]),
            max_holds: match one_of(&mut random, &[1_000, 1_000, 1]) {
                1 if trouble::is_left_out("Limits") => 1_000,
                most => most,
            },
            distance: 1 + random.below(40),
            layout: one_of(
                &mut random,
                &[Layout::Readable, Layout::Readable, Layout::Readable, Layout::WebJobs],
            ),
        }
    }

    /// Whether nothing goes wrong that is not a client's doing.
    pub(crate) fn is_faultless(&self) -> bool {
        self.weather == Weather::default()
            && (self.troubles, self.hand_overs, self.client_faults) == (0, 0, 0)
    }

    /// The shortest lease that is asked for.
    pub(crate) const fn shortest_lease(&self) -> Duration {
        Duration::from_secs(if self.own_leases { SHORTEST } else { self.lease })
    }

    /// The same for a world of schedules: their runners come and go for longer, and save nothing. Without a
    /// planted mistake, which is looked for where it was found, some have one sidecar.
    pub(crate) fn of_schedules(self, chance: &Chance, is_planted: bool) -> Self {
        let mut random = chance.of(About::Plan, 0, 5);
        let is_alone = !is_planted && chance.of(About::Plan, 0, 6).chance(150);
        Self {
            length: Duration::from_secs(120 + random.below(240)),
            sidecars: if is_alone { 1 } else { self.sidecars },
            saves: 0,
            max_holds: 1_000,
            layout: Layout::Readable,
            ..self
        }
    }
}
