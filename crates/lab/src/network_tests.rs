//! The changes that a run with phases makes to a link.

use super::*;
use crate::made;

#[test]
fn a_phase_makes_a_delay_longer_or_shorter_and_leaves_a_jitter_as_it_is() {
    let scenario = made::scenario(
        "path = [{ rate = '8 Mbit/s', rtt = '20 ms', change = [{ at = '1 s', rtt = '40 ms' }] },
                 { rate = '8 Mbit/s', rtt = '20 ms', jitter = '3 ms' }]
         traffic = { size = '1 KB' }",
    );
    let experiment = &scenario.conditions[0].experiment;
    let of = |path: usize| &experiment.graph.links[experiment.paths()[path].data[0][0]];
    let phases = Phases::default();
    // A two-hundredth of the round trip.
    let limit = phases.delay_limit(Duration::from_millis(20));
    assert_eq!(limit, Duration::from_micros(100));
    let configured = of(0).config.delay;
    let mut shorter = 0;
    for seed in 0..200 {
        let drawn = config(of(0), Draws::single(seed), Duration::ZERO, Some(&phases));
        assert!(drawn.delay + limit >= configured && drawn.delay <= configured + limit);
        shorter += u32::from(drawn.delay < configured);
        // A change has the same shift.
        let Change::Delay(later) = drawn.timeline[0].change else { panic!("{:?}", drawn.timeline) };
        assert_eq!(later.0 - drawn.delay.0, Duration::from_millis(10).0);
        let uniform = |max| Some(Jitter { shape: JitterShape::Uniform { max }, reorder: false });
        assert_eq!(drawn.jitter, uniform(phases.jitter_limit(Duration::from_millis(20))));
        assert_eq!(
            config(of(1), Draws::single(seed), Duration::ZERO, Some(&phases)).jitter,
            uniform(Duration::from_millis(3))
        );
    }
    assert!((70..130).contains(&shorter), "{shorter} of 200");
    assert_eq!(config(of(0), Draws::single(1), Duration::ZERO, None).delay, configured);
}
