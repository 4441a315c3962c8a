//! The tests of one machine again, through a pool: a plain lock is a pool of one, and behaves as it does
//! without (S28).

#[path = "../acquiring.rs"]
mod acquiring;
#[path = "../answers.rs"]
mod answers;
#[path = "../bounds.rs"]
mod bounds;
#[path = "../breaking.rs"]
mod breaking;
#[path = "../comebacks.rs"]
mod comebacks;
#[path = "../crossing.rs"]
mod crossing;
#[path = "../deciding.rs"]
mod deciding;
#[path = "../ending.rs"]
mod ending;
#[path = "../fairness.rs"]
mod fairness;
#[path = "../hand_over.rs"]
mod hand_over;
#[path = "../leaving.rs"]
mod leaving;
mod machine;
#[path = "../moves.rs"]
mod moves;
#[path = "../noticing.rs"]
mod noticing;
#[path = "../overruled.rs"]
mod overruled;
#[path = "../overruling.rs"]
mod overruling;
#[path = "../proven.rs"]
mod proven;
#[path = "../proving.rs"]
mod proving;
#[path = "../recording.rs"]
mod recording;
#[path = "../renewing.rs"]
mod renewing;
#[path = "../reserving.rs"]
mod reserving;
#[path = "../resuming.rs"]
mod resuming;
#[path = "../returning.rs"]
mod returning;
#[path = "../rig.rs"]
mod rig;
#[path = "../saving.rs"]
mod saving;
#[path = "../suspecting.rs"]
mod suspecting;
#[path = "../table.rs"]
mod table;
#[path = "../told.rs"]
mod told;
#[path = "../waiting.rs"]
mod waiting;
