//! Which traces are recorded.

/// Which traces are recorded, by the names that OpenTelemetry gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampler {
    /// Every trace is kept.
    AlwaysOn,
    /// No trace is kept.
    AlwaysOff,
    /// A part of all, by their ids.
    TraceIdRatio,
    /// As the caller does; all of callers in no trace.
    ParentBasedAlwaysOn,
    /// As the caller does; none of callers in no trace.
    ParentBasedAlwaysOff,
    /// As the caller does; a part of those of callers in no trace.
    ParentBasedTraceIdRatio,
}

impl Sampler {
    /// Each with its name.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("parentbased_always_on", Self::ParentBasedAlwaysOn),
        ("parentbased_always_off", Self::ParentBasedAlwaysOff),
        ("parentbased_traceidratio", Self::ParentBasedTraceIdRatio),
        ("always_on", Self::AlwaysOn),
        ("always_off", Self::AlwaysOff),
        ("traceidratio", Self::TraceIdRatio),
    ];

    /// Whether this trace is recorded; `parent` says whether the caller records it, if it is in one.
    pub(super) fn records(self, ratio: f64, trace: [u8; 16], parent: Option<bool>) -> bool {
        match (self, parent) {
            (Self::AlwaysOn, _) | (Self::ParentBasedAlwaysOn, None) => true,
            (Self::AlwaysOff, _) | (Self::ParentBasedAlwaysOff, None) => false,
            (Self::TraceIdRatio, _) | (Self::ParentBasedTraceIdRatio, None) => {
                is_within(ratio, trace)
            }
            (
                Self::ParentBasedAlwaysOn
                | Self::ParentBasedAlwaysOff
                | Self::ParentBasedTraceIdRatio,
                Some(recorded),
            ) => recorded,
        }
    }
}

/// By the last eight bytes of the id, as OpenTelemetry's own libraries do it: whoever has the same ratio
/// decides alike.
fn is_within(ratio: f64, trace: [u8; 16]) -> bool {
    /// The number of values of 63 bits.
    const VALUES: f64 = (1_u64 << 63) as f64;
    let [.., a, b, c, d, e, f, g, h] = trace;
    let number = u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1;
    ratio >= 1.0 || (number as f64) < ratio * VALUES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_of_ids_and_the_extremes_are_all_and_none() {
        let (least, most) = ([0; 16], [0xff; 16]);
        let records = |ratio, trace| Sampler::TraceIdRatio.records(ratio, trace, Some(true));
        assert!(records(1.0, most) && records(0.000_001, least));
        assert!(!records(0.0, least) && !records(0.999_999, most));
        let seeds = 0..10_000_u64;
        let kept = seeds.filter(|seed| {
            let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut trace = [0; 16];
            trace[8..].copy_from_slice(&random.to_be_bytes());
            records(0.25, trace)
        });
        assert!((2_300..2_700).contains(&kept.count()));
    }

    #[test]
    fn those_that_are_based_on_the_parent_do_as_it_does() {
        for (_, sampler) in Sampler::NAMES {
            let decide = |parent| sampler.records(0.0, [1; 16], parent);
            let expected = match sampler {
                Sampler::AlwaysOn => [true, true, true],
                Sampler::AlwaysOff | Sampler::TraceIdRatio => [false, false, false],
                Sampler::ParentBasedAlwaysOn => [true, true, false],
                Sampler::ParentBasedAlwaysOff | Sampler::ParentBasedTraceIdRatio => {
                    [false, true, false]
                }
            };
            let found = [decide(None), decide(Some(true)), decide(Some(false))];
            assert_eq!(found, expected, "{sampler:?}");
        }
    }
}
