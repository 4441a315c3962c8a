//! Random schedules: whatever is lost, late or repeated, the rules hold, and when it stops, somebody is served.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use super::client::terms;
use super::world::World;

/// Schedules of a normal run; `LEASEHOLD_DRIVE_SCHEDULES` asks for more.
const SCHEDULES: u64 = 400;

#[test]
fn s1_s4_s5_s12_random_schedules_keep_the_rules_and_come_to_rest() {
    let asked = std::env::var("LEASEHOLD_DRIVE_SCHEDULES").ok();
    let schedules = asked.map_or(SCHEDULES, |number| number.parse().unwrap());
    let first = std::env::var("LEASEHOLD_DRIVE_FROM").map_or(0, |number| number.parse().unwrap());
    let mut grants = 0;
    for seed in first..first + schedules {
        let mut world = World::new(seed, 2 + usize::from(seed % 2 == 0));
        world.tell_story = schedules == 1;
        let outcome = catch_unwind(AssertUnwindSafe(|| play(&mut world)));
        if let Err(panic) = outcome {
            println!("{}\nseed {seed} at {:?}", world.story.join("\n"), world.now);
            resume_unwind(panic);
        }
        grants += world.grants;
    }
    println!("{grants} grants in {schedules} schedules");
    assert!(grants > schedules * 3, "the schedules hardly grant anything: {grants} grants");
}

fn play(world: &mut World) {
    let sidecars = world.sidecars.len();
    let mut end = Duration::ZERO;
    while end < Duration::from_secs(240) {
        for _ in 0..world.dice.below(4) {
            let home = usize::try_from(world.dice.below(sidecars as u64)).unwrap();
            let terms = world.random_terms();
            world.arrive(home, terms);
        }
        end += world.dice.millis(100, 30_000);
        world.run_until(end);
    }
    come_to_rest(world, end);
}

/// Once faults stop, somebody is served at every sidecar, and then nothing is left over.
fn come_to_rest(world: &mut World, end: Duration) {
    world.faults = false;
    world.all_leave();
    // What was sent before may be 45 s late, and what it did may last D; a pause lasts 90 s, a rest 20 s.
    let end = end + Duration::from_secs(90 + 60 + 25);
    world.run_until(end);
    let before = world.clients.len();
    for sidecar in 0..world.sidecars.len() {
        world.arrive(sidecar, terms(15, Duration::from_secs(3_600)));
    }
    // D, the polling cap and a bit for each: they hold for up to 60 s before they leave.
    world.run_until(end + Duration::from_secs(400));
    let served = world.clients[before..].iter().all(|client| client.was_granted);
    assert!(served, "somebody was never served: {:?}", &world.clients[before..]);
    world.all_leave();
    world.run_until(world.now + Duration::from_secs(70));
    assert!(world.is_quiet(), "a machine is not idle: {:?}", world.sidecars);
    assert_eq!(world.table.leased(world.now), None, "a lease is left over");
}
