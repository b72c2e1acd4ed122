//! Covering arrays: few rows in which every combination of values of any t factors occurs.
//!
//! A fault of a device usually shows under a combination of few conditions. Rows of strength 2 contain each
//! feasible pair of conditions, and rows of strength 3 each feasible triple. Source: Kuhn, Kacker, Lei, "Practical
//! Combinatorial Testing", NIST SP 800-142.

use std::collections::BTreeSet;

use verbatim_tester::Stream;

/// A condition of a test, with its values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factor {
    pub(crate) name: &'static str,
    /// Names of the values. The first value is the default, which a shrunk row prefers.
    pub(crate) values: &'static [&'static str],
}

/// A row: the index of a value for each factor.
pub(crate) type Row = Vec<u8>;

/// Factors, with the rule that decides which rows are legal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) factors: &'static [Factor],
    /// Returns the reason why no legal row has these values. A factor without a value is open. The function may
    /// return a reason only if no values of the open factors make the row legal.
    pub(crate) refuses: fn(&Partial<'_>) -> Option<&'static str>,
}

/// Values of some factors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Partial<'r> {
    factors: &'static [Factor],
    values: &'r [Option<u8>],
}

impl Partial<'_> {
    /// Returns the name of a factor's value, or "" if the factor is open.
    ///
    /// # Panics
    /// If the family has no such factor.
    pub(crate) fn value(&self, name: &str) -> &'static str {
        let at = place(self.factors, name);
        self.values[at].map_or("", |value| self.factors[at].values[usize::from(value)])
    }
}

fn place(factors: &[Factor], name: &str) -> usize {
    let at = factors.iter().position(|factor| factor.name == name);
    at.unwrap_or_else(|| panic!("a family without the factor {name}"))
}

/// Values of t factors: the index of each factor, and of its value.
pub(crate) type Combination = Vec<(usize, u8)>;

/// The rows of a family.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    /// The rows. Every feasible combination occurs in one of them.
    pub(crate) rows: Vec<Row>,
    /// The combinations that no legal row has.
    pub(crate) infeasible: Vec<Combination>,
    /// Number of combinations that the rows have.
    pub(crate) covered: usize,
}

impl Family {
    /// Returns the name of the value that a row has for a factor.
    ///
    /// # Panics
    /// If the family has no such factor.
    pub(crate) fn value(&self, row: &[u8], name: &str) -> &'static str {
        let at = place(self.factors, name);
        self.factors[at].values[usize::from(row[at])]
    }

    /// Returns the name of the value that a row has for a factor, if the family has the factor.
    pub(crate) fn find(&self, row: &[u8], name: &str) -> Option<&'static str> {
        let at = self.factors.iter().position(|factor| factor.name == name)?;
        Some(self.factors[at].values[usize::from(row[at])])
    }

    /// Returns a row in words: the values that are not the default.
    pub(crate) fn in_words(&self, row: &[u8]) -> String {
        let named = self.factors.iter().zip(row).filter(|(_, value)| **value > 0);
        let words: Vec<String> = named
            .map(|(factor, value)| format!("{} {}", factor.name, factor.values[usize::from(*value)]))
            .collect();
        match words.is_empty() {
            true => "all defaults".into(),
            false => words.join(", "),
        }
    }

    /// Returns a combination in words.
    pub(crate) fn pair_in_words(&self, combination: &[(usize, u8)]) -> String {
        let words = combination.iter().map(|(at, value)| {
            let factor = &self.factors[*at];
            format!("{} {}", factor.name, factor.values[usize::from(*value)])
        });
        words.collect::<Vec<_>>().join(" + ")
    }

    fn reason(&self, values: &[Option<u8>]) -> Option<&'static str> {
        (self.refuses)(&Partial {
            factors: self.factors,
            values,
        })
    }

    /// Returns whether a row is legal.
    pub(crate) fn is_legal(&self, row: &[u8]) -> bool {
        let values: Vec<Option<u8>> = row.iter().copied().map(Some).collect();
        self.reason(&values).is_none()
    }

    /// Returns the reason why no legal row has a combination. If the combination alone breaks no rule, the reason
    /// names another factor and the rule that each of its values breaks.
    pub(crate) fn why_not(&self, combination: &[(usize, u8)]) -> String {
        let mut values = vec![None; self.factors.len()];
        for (factor, value) in combination {
            values[*factor] = Some(*value);
        }
        if let Some(reason) = self.reason(&values) {
            return reason.into();
        }
        let open = (0..self.factors.len()).filter(|at| values[*at].is_none());
        let ruled_out = open.into_iter().find_map(|at| {
            let with = |value: usize| {
                let mut values = values.clone();
                values[at] = Some(value as u8);
                self.reason(&values)
            };
            let reasons: Option<BTreeSet<_>> = (0..self.factors[at].values.len()).map(with).collect();
            let reasons: Vec<&str> = reasons?.into_iter().collect();
            Some(format!("for each {}: {}", self.factors[at].name, reasons.join("; ")))
        });
        ruled_out.unwrap_or_else(|| "the values of several other factors rule it out".into())
    }

    /// Computes rows in which every feasible combination of `strength` values occurs. The rows are always the same.
    pub(crate) fn array(&self, strength: usize) -> Array {
        let mut open = Open::new(self.factors, strength);
        let mut random = Stream::new(0, "cover", self.name);
        let mut array = Array {
            rows: Vec::new(),
            infeasible: Vec::new(),
            covered: 0,
        };
        while let Some(seed) = open.next() {
            // Keep the best of three rows. Each row is filled in another order of factors.
            let tries = (0..3).filter_map(|_| self.complete(&seed, &open, &mut random));
            let best = tries.max_by_key(|row| open.gain(row));
            match best {
                Some(row) => {
                    array.covered += open.take(&row);
                    array.rows.push(row);
                }
                None => {
                    open.close(&seed);
                    array.infeasible.push(seed);
                }
            }
        }
        array
    }

    /// Completes a combination into a legal row that covers many open combinations. Returns `None` if no legal row
    /// has the combination.
    fn complete(&self, seed: &[(usize, u8)], open: &Open, random: &mut Stream) -> Option<Row> {
        let mut values = vec![None; self.factors.len()];
        for (factor, value) in seed {
            values[*factor] = Some(*value);
        }
        let mut order: Vec<usize> = (0..self.factors.len()).filter(|at| values[*at].is_none()).collect();
        if !self.is_open(&mut values, &order) {
            return None;
        }
        for at in (1..order.len()).rev() {
            order.swap(at, random.between(0, at as u64) as usize);
        }
        self.fill(&mut values, &order, open, random)
            .then(|| values.into_iter().flatten().collect())
    }

    /// Returns whether the values are legal, and each factor of `rest` by itself still has a legal value. Without
    /// this look-ahead, the search would fill all factors in between before it finds a contradiction.
    fn is_open(&self, values: &mut [Option<u8>], rest: &[usize]) -> bool {
        let mut has_legal = |at: usize| {
            let legal = (0..self.factors[at].values.len()).any(|value| {
                values[at] = Some(value as u8);
                self.reason(values).is_none()
            });
            values[at] = None;
            legal
        };
        let is_possible = rest.iter().all(|at| has_legal(*at));
        is_possible && self.reason(values).is_none()
    }

    /// Gives values to the factors of `order`, the value with the largest gain first. Returns whether a legal row was
    /// found.
    fn fill(&self, values: &mut [Option<u8>], order: &[usize], open: &Open, random: &mut Stream) -> bool {
        let Some((at, rest)) = order.split_first() else {
            return true;
        };
        let count = self.factors[*at].values.len() as u8;
        let first = random.between(0, u64::from(count) - 1) as u8;
        let mut candidates: Vec<(usize, u8)> = (0..count)
            .map(|by| (first + by) % count)
            .map(|value| (open.gain_of(values, (*at, value)), value))
            .collect();
        candidates.sort_by_key(|(gain, _)| core::cmp::Reverse(*gain));
        for (_, value) in candidates {
            values[*at] = Some(value);
            if self.is_open(values, rest) && self.fill(values, rest, open, random) {
                return true;
            }
        }
        values[*at] = None;
        false
    }
}

/// The combinations that no row has yet.
struct Open {
    sets: Vec<Set>,
}

/// The open combinations of some factors.
struct Set {
    factors: Vec<usize>,
    /// Number of values of each factor.
    counts: Vec<usize>,
    /// For each combination, whether it is open.
    is_open: Vec<bool>,
    left: usize,
}

impl Set {
    fn index(&self, value: impl Fn(usize) -> Option<u8>) -> Option<usize> {
        let places = self.factors.iter().zip(&self.counts);
        places.into_iter().try_fold(0, |index, (factor, count)| {
            Some(index * count + usize::from(value(*factor)?))
        })
    }

    fn combination(&self, mut index: usize) -> Combination {
        let mut all: Combination = Vec::new();
        for (factor, count) in self.factors.iter().zip(&self.counts).rev() {
            all.push((*factor, (index % count) as u8));
            index /= count;
        }
        all.reverse();
        all
    }

    fn close(&mut self, index: usize) -> usize {
        let was_open = core::mem::replace(&mut self.is_open[index], false);
        self.left -= usize::from(was_open);
        usize::from(was_open)
    }
}

impl Open {
    fn new(factors: &[Factor], strength: usize) -> Self {
        let sets = subsets(factors.len(), strength).into_iter().map(|factors_of| {
            let counts: Vec<usize> = factors_of.iter().map(|at| factors[*at].values.len()).collect();
            let all = counts.iter().product();
            Set {
                factors: factors_of,
                counts,
                is_open: vec![true; all],
                left: all,
            }
        });
        Self { sets: sets.collect() }
    }

    /// Returns an open combination of the factors that have the most open combinations.
    fn next(&self) -> Option<Combination> {
        let fullest = self.sets.iter().max_by_key(|set| set.left)?;
        let index = fullest.is_open.iter().position(|is_open| *is_open)?;
        Some(fullest.combination(index))
    }

    fn gain(&self, row: &[u8]) -> usize {
        let is_new = |set: &&Set| set.index(|at| Some(row[at])).is_some_and(|index| set.is_open[index]);
        self.sets.iter().filter(is_new).count()
    }

    /// Returns the number of open combinations that the values cover once `factor` has `value`, among those with
    /// `factor`.
    fn gain_of(&self, values: &[Option<u8>], (factor, value): (usize, u8)) -> usize {
        let of = |at: usize| if at == factor { Some(value) } else { values[at] };
        let with = self.sets.iter().filter(|set| set.factors.contains(&factor));
        with.filter(|set| set.index(of).is_some_and(|index| set.is_open[index]))
            .count()
    }

    fn take(&mut self, row: &[u8]) -> usize {
        let close = |set: &mut Set| set.index(|at| Some(row[at])).map_or(0, |index| set.close(index));
        self.sets.iter_mut().map(close).sum()
    }

    fn close(&mut self, combination: &[(usize, u8)]) {
        let value = |at: usize| {
            combination
                .iter()
                .find(|(factor, _)| *factor == at)
                .map(|(_, value)| *value)
        };
        for set in &mut self.sets {
            if let Some(index) = set.index(value) {
                set.close(index);
            }
        }
    }
}

/// Returns all sets of `size` numbers below `count`.
fn subsets(count: usize, size: usize) -> Vec<Vec<usize>> {
    if size == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for last in size - 1..count {
        for mut set in subsets(last, size - 1) {
            set.push(last);
            all.push(set);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAMILY: Family = Family {
        name: "meals",
        factors: &[
            Factor {
                name: "dish",
                values: &["soup", "fish", "meat", "cake"],
            },
            Factor {
                name: "drink",
                values: &["water", "wine", "tea"],
            },
            Factor {
                name: "place",
                values: &["house", "garden"],
            },
            Factor {
                name: "guests",
                values: &["none", "one", "many"],
            },
        ],
        refuses: |meal| {
            let is_bad = meal.value("dish") == "soup" && meal.value("drink") == "wine"
                || meal.value("place") == "garden" && meal.value("drink") == "tea";
            is_bad.then_some("bad taste")
        },
    };

    #[test]
    fn every_feasible_pair_and_triple_occurs() {
        for strength in [2, 3] {
            let array = FAMILY.array(strength);
            let mut all = 0;
            for set in Open::new(FAMILY.factors, strength).sets {
                for index in 0..set.is_open.len() {
                    let combination = set.combination(index);
                    let has = |row: &Row| combination.iter().all(|(factor, value)| row[*factor] == *value);
                    let is_covered = array.rows.iter().any(has);
                    assert_ne!(is_covered, array.infeasible.contains(&combination), "{combination:?}");
                    all += 1;
                }
            }
            assert_eq!(array.covered + array.infeasible.len(), all);
            assert!(array.rows.iter().all(|row| FAMILY.is_legal(row)));
        }
    }

    #[test]
    fn infeasible_pairs_have_their_reason() {
        let array = FAMILY.array(2);
        let reasons: Vec<_> = array.infeasible.iter().map(|pair| FAMILY.why_not(pair)).collect();
        assert_eq!(reasons, ["bad taste"; 2]);
    }

    #[test]
    fn pairs_need_few_rows() {
        // Dish and drink alone have 11 legal pairs; all values have 72 combinations.
        let rows = FAMILY.array(2).rows.len();
        assert!((11..=16).contains(&rows), "{rows}");
    }

    #[test]
    fn words_name_only_what_is_not_the_default() {
        assert_eq!(FAMILY.in_words(&[1, 0, 0, 2]), "dish fish, guests many");
        assert_eq!(FAMILY.in_words(&[0; 4]), "all defaults");
    }
}
