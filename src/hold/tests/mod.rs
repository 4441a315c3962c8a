//! Stories of one machine, a subject a file: `rig.rs` has the machine and moves it by hand, `table.rs` is the
//! store beside it, and `told.rs` what was told. Most of them are told a second time of a pool of one
//! (`through_pool`).

mod acquiring;
mod answers;
mod bounds;
mod breaking;
mod comebacks;
mod crossing;
mod deciding;
mod ending;
mod fairness;
mod forging;
mod hand_over;
mod handed_on;
mod leaving;
/// What the tests are about: they are run a second time through a pool of one (`through_pool`).
mod machine {
    pub(super) use crate::hold::Hold;
}
mod moves;
mod noticing;
mod overruled;
mod overruling;
mod proven;
mod proving;
mod recording;
mod renewing;
mod reserving;
mod resuming;
mod returning;
mod rig;
mod saving;
mod showing;
mod suspecting;
mod table;
#[expect(clippy::duplicate_mod, reason = "the same tests, of another machine")]
mod through_pool;
mod told;
mod waiting;
