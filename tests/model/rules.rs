//! The rules of a run: how long a lease lasts, what may happen, and which mistake is planted.

use crate::model::state::{Budget, Ticks};

/// A mistake in the model that the properties must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// S2: the validity is counted from when the answer came.
    ValidityFromAnswer,
    /// S5: the grant is given out without its token being stored.
    TokenNotStored,
    /// S5: a hand-off keeps the token.
    HandOffKeepsToken,
    /// S4: a client whose validity is over goes on by a late resume.
    LateResumeRevives,
    /// S13: a silent holder's validity is not waited for.
    SilenceIsLeaving,
    /// S13: a first release that the store refuses is told as RELEASED.
    RefusedReleaseIsReleased,
    /// S5: a grant whose write has an unknown outcome is given out.
    GrantsUnsettled,
    /// S16: a hold whose stream broke is handed on.
    HandsOnSilent,
    /// S16: a call with a newer generation than the sidecar knows is handed on.
    HandsOnLeft,
    /// S16: a release goes without If-Match.
    ReleasesWithoutMatch,
    /// S16: a renewal goes without If-Match.
    RenewsWithoutMatch,
    /// S16: a resume's generation is not compared with the record's.
    NoGenerationCheck,
    /// S16: an earlier attempt is taken for a repeat of the last one.
    EarlierAttemptAccepted,
    /// S16: a resumed hold whose stream is closed is released at once.
    ClosedResumeEndsAtOnce,
    /// S6, S16: a resume that failed releases the lease, as a given-up acquire does.
    FailedResumeReleases,
    /// S16: a resume that was dropped while its write was on its way is kept as a hold of this sidecar's.
    DroppedResumeKept,
    /// S16: the D of a resumed hold is counted from before its write was sent.
    SettlingFromSend,
    /// S13, S16: a read settles by fingerprint and generation, whoever wrote them.
    SettledByGeneration,
    /// S14: a closed stream hands on, as a release with its generation does.
    CloseHandsOn,
    /// S11, S13: a bound that has come hands on, as a release does.
    BoundHandsOn,
    /// S13, S15: a sidecar that is replaced releases what it leaves to its client.
    HandOverReleases,
    /// S13, S15: a sidecar that is replaced hands on to who waits there.
    HandOverHandsOn,
    /// S15, S16: a sidecar that is replaced goes on renewing what it has left, by the lease alone.
    RenewsOnAfterHandOver,
    /// S10: a hold that was handed on is taken to be in the record, and is not.
    HandOffNotRecorded,
    /// S16: a resume goes by the epoch of its token alone.
    ResumeIgnoresHandOff,
    /// S17: a break that meets another version goes on, whoever has the lock by then.
    BreakMeansWhoeverHolds,
    /// S17: a break has no condition.
    BreaksWithoutMatch,
    /// S17: a sidecar hands on while a break is under way from it.
    HandsOnWhileBreaking,
    /// S17: a sidecar hands on after a break from it before a renewal has shown that none has met the lease.
    HandsOnUnproven,
    /// S17: a break from there of unknown outcome is over once a renewal was answered, though it may come
    /// yet.
    UnknownBreakForgotten,
}

impl Mistake {
    pub(crate) const ALL: [Self; 30] = [
        Self::ValidityFromAnswer,
        Self::TokenNotStored,
        Self::HandOffKeepsToken,
        Self::LateResumeRevives,
        Self::SilenceIsLeaving,
        Self::RefusedReleaseIsReleased,
        Self::GrantsUnsettled,
        Self::HandsOnSilent,
        Self::HandsOnLeft,
        Self::ReleasesWithoutMatch,
        Self::RenewsWithoutMatch,
        Self::NoGenerationCheck,
        Self::EarlierAttemptAccepted,
        Self::ClosedResumeEndsAtOnce,
        Self::FailedResumeReleases,
        Self::DroppedResumeKept,
        Self::SettlingFromSend,
        Self::SettledByGeneration,
        Self::CloseHandsOn,
        Self::BoundHandsOn,
        Self::HandOverReleases,
        Self::HandOverHandsOn,
        Self::RenewsOnAfterHandOver,
        Self::HandOffNotRecorded,
        Self::ResumeIgnoresHandOff,
        Self::BreakMeansWhoeverHolds,
        Self::BreaksWithoutMatch,
        Self::HandsOnWhileBreaking,
        Self::HandsOnUnproven,
        Self::UnknownBreakForgotten,
    ];
}

impl Mistake {
    /// The world in which it is found.
    pub(crate) fn world(self) -> &'static str {
        match self {
            Self::TokenNotStored | Self::HandOffKeepsToken | Self::HandsOnSilent => "two rounds",
            Self::RefusedReleaseIsReleased => "breaks at once",
            Self::ValidityFromAnswer | Self::GrantsUnsettled => "unknown outcomes",
            Self::LateResumeRevives
            | Self::SilenceIsLeaving
            | Self::ReleasesWithoutMatch
            | Self::RenewsWithoutMatch
            | Self::ClosedResumeEndsAtOnce
            | Self::CloseHandsOn
            | Self::BoundHandsOn => "bounds",
            Self::HandsOnLeft | Self::DroppedResumeKept => "repeated calls",
            Self::FailedResumeReleases => "moving with unknown outcomes",
            Self::SettlingFromSend => "repeated resumes",
            Self::NoGenerationCheck | Self::EarlierAttemptAccepted => "moving twice",
            Self::SettledByGeneration => "unknown resumes",
            Self::HandOverReleases | Self::HandOverHandsOn | Self::RenewsOnAfterHandOver => {
                "hand-overs"
            }
            Self::HandOffNotRecorded | Self::ResumeIgnoresHandOff => "repeated calls",
            Self::BreakMeansWhoeverHolds
            | Self::BreaksWithoutMatch
            | Self::HandsOnWhileBreaking => "breaks at once",
            Self::HandsOnUnproven | Self::UnknownBreakForgotten => "late breaks",
        }
    }

    /// Whether clients can see it within that world: two of them believe.
    pub(crate) fn makes_two_believe(self) -> bool {
        TWO_BELIEVE.contains(&self)
    }
}

/// The mistakes that make two clients believe within their worlds; the others are found by what only the
/// store sees, since nobody is left there to take the lock. (With two leases each, `SettledByGeneration` does
/// so; that world is too large.)
const TWO_BELIEVE: [Mistake; 6] = [
    Mistake::SilenceIsLeaving,
    Mistake::HandsOnLeft,
    Mistake::FailedResumeReleases,
    Mistake::BoundHandsOn,
    Mistake::HandOverReleases,
    Mistake::HandOverHandsOn,
];

/// The worlds that are too large to be explored in full while the test command waits; mistakes are found in
/// them.
pub(crate) const LARGE: [&str; 5] = [
    "late breaks beside unknown outcomes",
    "breaks at once beside moves",
    "two rounds with unknown outcomes",
    "moving twice",
    "unknown resumes",
];

/// The world in which the waiter at A may have the lock first, and hand it on to the client that moves.
const HANDED_ON: &str = "moving with unknown outcomes";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// D.
    pub(crate) duration: Ticks,
    /// D less the margin (S2). At least two ticks, so that a renewal comes in time.
    pub(crate) validity: Ticks,
    pub(crate) budget: Budget,
    /// Whether the waiter at A may come before the client that moves.
    pub(crate) any_order: bool,
    pub(crate) mistake: Option<Mistake>,
}

impl Rules {
    pub(crate) fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }
}

/// The worlds that are explored in full: each allows some kinds of faults together. `longer` makes each lease
/// so many ticks longer.
pub(crate) fn worlds(longer: Ticks) -> Vec<(&'static str, Rules)> {
    let none = Budget {
        unknown: 0,
        doubled: 0,
        repeated: 0,
        cuts: 0,
        resumes: 0,
        crashes: 0,
        hand_overs: 0,
        breaks: 0,
        breaks_now: 0,
        late_breaks: 0,
        bounds: 0,
        leases: 1,
    };
    let late_breaks = Budget { breaks_now: 1, late_breaks: 1, ..none };
    let moving = Budget { cuts: 1, resumes: 1, ..none };
    let budgets = [
        ("breaks at once", Budget { breaks_now: 1, ..none }, 3),
        ("bounds", Budget { bounds: 1, ..moving }, 2),
        ("doubled requests", Budget { doubled: 1, ..none }, 3),
        ("two rounds", Budget { leases: 2, ..moving }, 2),
        ("unknown outcomes", Budget { unknown: 1, ..none }, 3),
        ("crashes", Budget { crashes: 1, ..moving }, 2),
        ("breaks", Budget { breaks: 1, ..moving }, 2),
        ("hand-overs", Budget { hand_overs: 1, resumes: 2, ..none }, 2),
        ("hand-overs and cuts", Budget { hand_overs: 1, ..moving }, 2),
        ("repeated calls", Budget { repeated: 1, ..moving }, 2),
        ("repeated resumes", Budget { resumes: 2, ..moving }, 2),
        ("moving with unknown outcomes", Budget { unknown: 1, ..moving }, 2),
        ("late breaks", late_breaks, 2),
        ("late breaks beside unknown outcomes", Budget { unknown: 1, ..late_breaks }, 2),
        ("breaks at once beside moves", Budget { breaks_now: 1, ..moving }, 2),
        ("two rounds with unknown outcomes", Budget { unknown: 1, leases: 2, ..moving }, 2),
        ("moving twice", Budget { cuts: 2, resumes: 2, repeated: 1, ..none }, 2),
        ("unknown resumes", Budget { unknown: 1, resumes: 2, ..moving }, 2),
    ];
    let rules = |name: &str, budget, duration: Ticks| Rules {
        duration: duration + longer,
        // A lease of two ticks has no margin: it is for clocks that differ, and the model has one.
        validity: (duration + longer - 1).max(2),
        budget,
        any_order: longer > 0 || name == HANDED_ON,
        mistake: None,
    };
    budgets
        .into_iter()
        .map(|(name, budget, duration)| (name, rules(name, budget, duration)))
        .collect()
}
