//! Sets of small numbers, as the bits of one.

/// The numbers from `from` to `to`, both included; both are below 64.
pub(super) const fn range(from: u8, to: u8) -> u64 {
    let up_to = u64::MAX >> (63 - to as u32);
    up_to & (u64::MAX << from)
}

/// Whether `number` is in the set.
pub(super) const fn has(set: u64, number: u8) -> bool {
    number < 64 && set >> number & 1 == 1
}

/// The least number of the set that is not under `from`.
pub(super) const fn at_or_after(set: u64, from: u8) -> Option<u8> {
    if from >= 64 {
        return None;
    }
    let rest = set & (u64::MAX << from);
    if rest == 0 { None } else { Some(rest.trailing_zeros() as u8) }
}

/// The greatest number of the set that is not over `to`.
pub(super) const fn at_or_before(set: u64, to: u8) -> Option<u8> {
    let to = if to > 63 { 63 } else { to };
    let rest = set & range(0, to);
    if rest == 0 { None } else { Some(63 - rest.leading_zeros() as u8) }
}

/// All numbers of the set, ascending.
pub(super) fn numbers(set: u64) -> impl Iterator<Item = u8> {
    (0..64).filter(move |number| has(set, *number))
}

/// The numbers of the set as runs without a gap, ascending: first and last of each.
pub(super) fn runs(set: u64) -> Vec<(u8, u8)> {
    let mut runs: Vec<(u8, u8)> = Vec::new();
    for number in numbers(set) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    runs
}

/// First, last and distance of the set's numbers, when there are two or more and all are equally far apart.
pub(super) fn progression(set: u64) -> Option<(u8, u8, u8)> {
    let all: Vec<u8> = numbers(set).collect();
    let (&first, &last) = (all.first()?, all.last()?);
    let distance = all.get(1)? - first;
    let even = all.windows(2).all(|pair| matches!(pair, [one, two] if two - one == distance));
    even.then_some((first, last, distance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_searched_both_ways() {
        let set = 1 | 1 << 7 | 1 << 63;
        assert_eq!(at_or_after(set, 1), Some(7));
        assert_eq!(at_or_after(set, 8), Some(63));
        assert_eq!(at_or_after(set, 64), None);
        assert_eq!(at_or_before(set, 62), Some(7));
        assert_eq!(at_or_before(set, 200), Some(63));
        assert_eq!(at_or_before(1 << 7, 6), None);
        assert_eq!(range(3, 5), 0b11_1000);
        assert_eq!(range(0, 63), u64::MAX);
        assert_eq!(runs(range(3, 5) | 1), [(0, 0), (3, 5)]);
        assert_eq!(progression(1 | 1 << 20 | 1 << 40), Some((0, 40, 20)));
        assert_eq!(progression(1 | 1 << 20 | 1 << 41), None);
        assert_eq!(progression(1), None);
    }
}
