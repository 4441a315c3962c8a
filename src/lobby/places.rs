//! The places of one listener's connections: which stage each has reached, and which one goes when there are
//! too many (S38). No clock, no socket.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

/// How far a connection has come. It only goes forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// It has not said what every caller says first. Nothing is built for it.
    Silent,
    /// Its TLS handshake is under way, or its preface after that.
    Greeting,
    /// It speaks HTTP/2, and has made no call that was let in.
    Idle,
    /// It has made one. Its place is never given to another.
    Serving,
}

impl Stage {
    pub(crate) const ALL: [Self; 4] = [Self::Silent, Self::Greeting, Self::Idle, Self::Serving];

    /// A stable name, for metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Greeting => "greeting",
            Self::Idle => "idle",
            Self::Serving => "serving",
        }
    }
}

/// Whom a connection is counted with: they share a fate when there are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Neighbour {
    /// An address of version 4.
    V4(Ipv4Addr),
    /// The first half of an address: whoever has one address of IPv6 has at least 2^64 of them.
    V6(u64),
    /// A user of this machine.
    User(u32),
    /// An address that nobody knows.
    Unknown,
}

impl Neighbour {
    pub(crate) const fn at(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => Self::V6((address.to_bits() >> 64) as u64),
        }
    }
}

/// How many connections may be at each stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) silent: usize,
    pub(crate) greeting: usize,
    /// The least: those that make no call have the places, too, that those that make calls leave free.
    pub(crate) idle: usize,
    pub(crate) serving: usize,
}

impl Sizes {
    /// The same in proportion, with at most `most` of all together; a few of each there always are.
    pub(crate) fn fit(self, most: usize) -> Self {
        const LEAST: usize = 4;
        let sum = self.sum();
        if sum <= most {
            return self;
        }
        let part = |size: usize| (size * most / sum).max(LEAST.min(size));
        Self {
            silent: part(self.silent),
            greeting: part(self.greeting),
            idle: part(self.idle),
            serving: part(self.serving),
        }
    }

    /// All of them.
    pub(crate) const fn sum(self) -> usize {
        self.silent + self.greeting + self.idle + self.serving
    }
}

/// A connection's number. They are given in the order of arrival.
pub(crate) type Number = u64;

/// There is no place for the connection: all of those that make calls are taken, or it had to go already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoPlace;

/// The places, and in each what reaches its connection.
#[derive(Debug)]
pub(crate) struct Places<H> {
    sizes: Sizes,
    rooms: [Room<H>; 4],
    next: Number,
}

/// A connection that has a place.
#[derive(Debug)]
struct Member<H> {
    neighbour: Neighbour,
    /// The way to the connection.
    handle: H,
}

/// The places of one stage.
#[derive(Debug)]
struct Room<H> {
    members: BTreeMap<Number, Member<H>>,
    /// The same connections, by neighbour.
    neighbours: BTreeMap<Neighbour, BTreeSet<Number>>,
}

impl<H> Places<H> {
    pub(crate) fn new(sizes: Sizes) -> Self {
        Self { sizes, rooms: Stage::ALL.map(|_| Room::new()), next: 0 }
    }

    /// Lets a connection in that has said nothing yet: `handle` makes what reaches it, of its number. The
    /// second is whoever has to go for it.
    pub(crate) fn arrive(
        &mut self,
        neighbour: Neighbour,
        handle: impl FnOnce(Number) -> H,
    ) -> Option<H> {
        let number = self.next;
        self.next += 1;
        let handle = handle(number);
        self.enter(Stage::Silent, number, Member { neighbour, handle })
    }

    /// Moves a connection on, if it has not come further already. Says whoever has to go for it.
    pub(crate) fn advance(&mut self, number: Number, to: Stage) -> Result<Option<H>, NoPlace> {
        let from = self.stage(number).ok_or(NoPlace)?;
        if from >= to {
            return Ok(None);
        }
        if to == Stage::Serving && self.count(to) >= self.size(to) {
            return Err(NoPlace);
        }
        let member = self.room(from).leave(number).ok_or(NoPlace)?;
        let out = self.enter(to, number, member);
        // One that skipped a stage has left no place behind.
        let crowded = self.count(Stage::Idle) > self.size(Stage::Idle);
        Ok(out.or_else(|| crowded.then(|| self.room(Stage::Idle).put_out()).flatten()))
    }

    /// The connection has ended.
    pub(crate) fn leave(&mut self, number: Number) {
        for room in &mut self.rooms {
            room.leave(number);
        }
    }

    /// Takes one out that has said nothing, if there is one.
    pub(crate) fn spare(&mut self) -> Option<H> {
        self.room(Stage::Silent).put_out()
    }

    /// How many connections are at a stage.
    pub(crate) fn count(&self, stage: Stage) -> usize {
        let [silent, greeting, idle, serving] = &self.rooms;
        let room = match stage {
            Stage::Silent => silent,
            Stage::Greeting => greeting,
            Stage::Idle => idle,
            Stage::Serving => serving,
        };
        room.members.len()
    }

    /// How many may be at a stage now.
    fn size(&self, stage: Stage) -> usize {
        let left = self.sizes.serving.saturating_sub(self.count(Stage::Serving));
        match stage {
            Stage::Silent => self.sizes.silent,
            Stage::Greeting => self.sizes.greeting,
            Stage::Idle => self.sizes.idle.max(left),
            Stage::Serving => self.sizes.serving,
        }
    }

    /// Takes one in, and somebody out if there were too many.
    fn enter(&mut self, stage: Stage, number: Number, member: Member<H>) -> Option<H> {
        let is_full = self.count(stage) >= self.size(stage);
        let room = self.room(stage);
        let out = is_full.then(|| room.put_out()).flatten();
        room.enter(number, member);
        out
    }

    fn stage(&self, number: Number) -> Option<Stage> {
        let at = self.rooms.iter().position(|room| room.members.contains_key(&number))?;
        Stage::ALL.get(at).copied()
    }

    const fn room(&mut self, stage: Stage) -> &mut Room<H> {
        let [silent, greeting, idle, serving] = &mut self.rooms;
        match stage {
            Stage::Silent => silent,
            Stage::Greeting => greeting,
            Stage::Idle => idle,
            Stage::Serving => serving,
        }
    }
}

impl<H> Room<H> {
    const fn new() -> Self {
        Self { members: BTreeMap::new(), neighbours: BTreeMap::new() }
    }

    fn enter(&mut self, number: Number, member: Member<H>) {
        self.neighbours.entry(member.neighbour).or_default().insert(number);
        self.members.insert(number, member);
    }

    /// Takes out the oldest of the neighbour that has most; where several have as many, of the one whose
    /// oldest is oldest.
    fn put_out(&mut self) -> Option<H> {
        let most = self
            .neighbours
            .values()
            .max_by_key(|numbers| (numbers.len(), std::cmp::Reverse(numbers.first().copied())))?;
        let oldest = *most.first()?;
        self.leave(oldest).map(|member| member.handle)
    }

    fn leave(&mut self, number: Number) -> Option<Member<H>> {
        let member = self.members.remove(&number)?;
        if let Some(numbers) = self.neighbours.get_mut(&member.neighbour) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.neighbours.remove(&member.neighbour);
            }
        }
        Some(member)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZES: Sizes = Sizes { silent: 4, greeting: 3, idle: 3, serving: 5 };

    fn user(number: u32) -> Neighbour {
        Neighbour::User(number)
    }

    fn places(silent: usize) -> Places<Number> {
        Places::new(Sizes { silent, ..SIZES })
    }

    fn arrive(places: &mut Places<Number>, neighbour: Neighbour) -> Option<Number> {
        places.arrive(neighbour, |number| number)
    }

    /// What is true at all times.
    fn check(places: &Places<Number>) {
        let mut seen = BTreeSet::new();
        let built = places.count(Stage::Idle) + places.count(Stage::Serving);
        assert!(built <= places.sizes.idle + places.sizes.serving, "{built} cost memory");
        for (stage, room) in Stage::ALL.into_iter().zip(&places.rooms) {
            let size = if stage == Stage::Idle { 5 } else { places.size(stage) };
            assert!(room.members.len() <= size, "{stage:?}");
            for (number, Member { neighbour, handle }) in &room.members {
                assert_eq!(number, handle);
                assert!(seen.insert(*number), "{number} has two places");
                assert!(room.neighbours[neighbour].contains(number));
            }
            let listed: usize = room.neighbours.values().map(BTreeSet::len).sum();
            assert_eq!(listed, room.members.len());
            assert!(room.neighbours.values().all(|numbers| !numbers.is_empty()));
        }
    }

    #[test]
    fn s38_the_oldest_of_whoever_has_most_goes() {
        let mut places = places(4);
        for neighbour in [1, 2, 2, 3] {
            assert_eq!(arrive(&mut places, user(neighbour)), None);
        }
        assert_eq!(arrive(&mut places, user(2)), Some(1));
        assert_eq!(arrive(&mut places, user(4)), Some(2));
        // One each: the oldest of all.
        assert_eq!(arrive(&mut places, user(5)), Some(0));
        check(&places);
    }

    #[test]
    fn s38_whoever_has_one_stays_while_another_has_two() {
        let mut places = places(64);
        assert_eq!(arrive(&mut places, user(7)), None);
        for number in 0..10_000 {
            assert_ne!(arrive(&mut places, user(100 + number % 50)), Some(0));
        }
        check(&places);
    }

    #[test]
    fn s38_those_that_say_nothing_take_no_place_of_those_that_have_spoken() {
        let mut places = places(4);
        assert_eq!(arrive(&mut places, user(1)), None);
        assert_eq!(places.advance(0, Stage::Idle), Ok(None));
        for _ in 0..100 {
            assert_ne!(arrive(&mut places, user(1)), Some(0));
        }
        assert_eq!((places.count(Stage::Silent), places.count(Stage::Idle)), (4, 1));
        check(&places);
    }

    #[test]
    fn s38_a_place_of_one_that_makes_calls_is_never_taken() {
        let mut places = places(4);
        for number in 0..5 {
            assert_eq!(arrive(&mut places, user(1)), None);
            assert_eq!(places.advance(number, Stage::Idle), Ok(None));
            assert_eq!(places.advance(number, Stage::Serving), Ok(None));
        }
        // Those that make no call keep a few places, and go for each other only.
        for number in 5..8 {
            assert_eq!(arrive(&mut places, user(1)), None);
            assert_eq!(places.advance(number, Stage::Idle), Ok(None));
        }
        assert_eq!(arrive(&mut places, user(2)), None);
        assert_eq!(places.advance(8, Stage::Idle), Ok(Some(5)));
        assert_eq!(places.advance(6, Stage::Serving), Err(NoPlace));
        assert_eq!(places.count(Stage::Idle), 3, "it stays where it was");
        places.leave(0);
        assert_eq!(places.advance(6, Stage::Serving), Ok(None));
        check(&places);
    }

    #[test]
    fn a_connection_does_not_go_back_and_one_that_is_gone_does_not_come_back() {
        let mut places = places(4);
        arrive(&mut places, user(1));
        assert_eq!(places.advance(0, Stage::Idle), Ok(None));
        assert_eq!(places.advance(0, Stage::Greeting), Ok(None));
        assert_eq!(places.count(Stage::Idle), 1);
        places.leave(0);
        assert_eq!(places.advance(0, Stage::Serving), Err(NoPlace), "its calls are not served");
        assert_eq!(places.count(Stage::Serving), 0);
        assert_eq!(places.spare(), None);
    }

    #[test]
    fn whoever_has_one_address_of_ipv6_has_many() {
        let at = |text: &str| Neighbour::at(text.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8::2:3:4:5"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
        assert_ne!(at("10.0.0.1"), at("10.0.0.2"));
    }

    #[test]
    fn s38_places_fit_below_the_limit_of_descriptors() {
        let wanted = Sizes { silent: 1_000, greeting: 1_000, idle: 1_000, serving: 2_000 };
        assert_eq!(wanted.fit(5_000), wanted);
        let half = Sizes { silent: 500, greeting: 500, idle: 500, serving: 1_000 };
        assert_eq!(wanted.fit(2_500), half);
        assert_eq!(wanted.fit(0).sum(), 16);
    }

    proptest! {
        #[test]
        fn places_are_what_they_should_be_whatever_happens(steps in prop::collection::vec((0..4_u8, 0..5_u32, 0..40_u64), 0..200)) {
            let mut places = places(4);
            for (what, neighbour, number) in steps {
                let stage = [Stage::Greeting, Stage::Idle, Stage::Serving][neighbour as usize % 3];
                match what {
                    0 => drop(arrive(&mut places, user(neighbour))),
                    1 => drop(places.advance(number, stage)),
                    2 => places.leave(number),
                    _ => drop(places.spare()),
                }
                check(&places);
            }
        }
    }
}
