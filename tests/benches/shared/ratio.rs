//! What the benches of the packet path have in common: the median of ratios, and the line that is printed.

/// The value below which that share of the values lies; sorts them.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * share) as usize;
    values[at.min(values.len() - 1)]
}

/// Prints the median of ratios with their range; whether it is at most the goal, if there is one.
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
