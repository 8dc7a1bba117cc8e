//! Sharing room: small ones get what they need, large ones the same share each.

/// The largest share with which all of these fit into the room.
pub fn share(sizes: &[usize], room: usize) -> usize {
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable();
    let mut left = room;
    for (at, size) in sorted.iter().enumerate() {
        let even = left / (sorted.len() - at);
        if *size > even {
            return even;
        }
        left -= size;
    }
    room
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_small_ones_do_not_need_goes_to_the_large_ones() {
        assert_eq!(share(&[10, 500, 10, 500], 420), 200);
        assert_eq!(share(&[10, 20], 100), 100);
        assert_eq!(share(&[], 100), 100);
    }

    proptest! {
        #[test]
        fn all_shares_together_fit(sizes in prop::collection::vec(0_usize..1_000, 0..30), room in 0_usize..10_000) {
            let share = share(&sizes, room);
            prop_assert!(sizes.iter().map(|size| (*size).min(share)).sum::<usize>() <= room);
        }
    }
}
