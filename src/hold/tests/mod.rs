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
/// What the tests are about: they are run a second time through a pool of one (`src/pool/tests`).
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
