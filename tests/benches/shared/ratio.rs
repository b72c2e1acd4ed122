//! Code shared by the benches that compare ratios: quantiles, and the printed line.

/// Sorts the values and returns their quantile at `share` (0 to 1).
pub(crate) fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * share) as usize;
    values[at.min(values.len() - 1)]
}

/// Prints the median of the ratios with their range; returns whether the median is at most the goal, if there is a
/// goal.
pub(crate) fn report(what: &str, ratios: &mut [f64], goal: Option<f64>) -> bool {
    let median = quantile(ratios, 0.5);
    let reached = goal.is_none_or(|most| median <= most);
    let verdict = match goal {
        Some(most) => format!(", goal at most {most}: {}", if reached { "reached" } else { "MISSED" }),
        None => String::new(),
    };
    println!(
        "{what}: median {median:.3} of {} ({:.3}..{:.3}){verdict}",
        ratios.len(),
        ratios[0],
        ratios[ratios.len() - 1]
    );
    reached
}
