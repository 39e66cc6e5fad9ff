//! Lists of values with their counts.

/// Adds sorted counts to others.
pub(crate) fn add_counts(sum: &mut Vec<(u64, u64)>, counts: Vec<(u64, u64)>) {
    if sum.is_empty() {
        *sum = counts;
        return;
    }
    let mut all = Vec::with_capacity(sum.len() + counts.len());
    let mut left = std::mem::take(sum).into_iter().peekable();
    for (value, count) in counts {
        while let Some(earlier) = left.next_if(|(v, _)| *v < value) {
            all.push(earlier);
        }
        let same = left.next_if(|(v, _)| *v == value).map_or(0, |(_, n)| n);
        all.push((value, count.saturating_add(same)));
    }
    all.extend(left);
    *sum = all;
}
