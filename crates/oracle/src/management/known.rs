//! What may be known of a value: nothing, or the few that it may have.

/// The values that a field may have by now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) enum Known {
    /// Any: it was not seen yet, or nothing says what became of it.
    #[default]
    Any,
    /// One of these; never empty.
    OneOf(Vec<u64>),
}

/// What is known of a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sure {
    /// So it is.
    Yes,
    /// So it is not.
    No,
    /// Either.
    Maybe,
}

impl Known {
    /// It is this.
    pub(super) fn is(value: u64) -> Self {
        Self::OneOf(vec![value])
    }

    /// Whether it may be this.
    pub(super) fn may_be(&self, value: u64) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(values) => values.contains(&value),
        }
    }

    /// The value, where there is one only.
    pub(super) fn only(&self) -> Option<u64> {
        match self {
            Self::OneOf(values) if values.len() == 1 => values.first().copied(),
            _ => None,
        }
    }

    /// All that it may be; `None` when it may be anything.
    pub(super) fn all(&self) -> Option<&[u64]> {
        match self {
            Self::Any => None,
            Self::OneOf(values) => Some(values),
        }
    }

    /// It may be this as well.
    pub(super) fn or(&mut self, value: u64) {
        if let Self::OneOf(values) = self
            && !values.contains(&value)
        {
            values.push(value);
        }
    }

    /// Whether every value, some, or none of those that it may be has a property.
    pub(super) fn sure(&self, has: impl Fn(u64) -> bool) -> Sure {
        let Self::OneOf(values) = self else {
            return Sure::Maybe;
        };
        match values.iter().filter(|value| has(**value)).count() {
            0 => Sure::No,
            some if some == values.len() => Sure::Yes,
            _ => Sure::Maybe,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_seen_may_be_anything_and_stays_so() {
        let mut known = Known::Any;
        known.or(3);
        assert!(known.may_be(9));
        assert_eq!(known.sure(|_| true), Sure::Maybe);
    }

    #[test]
    fn of_two_values_a_question_is_decided_only_when_both_agree() {
        let mut known = Known::is(2);
        assert_eq!(known.only(), Some(2));
        known.or(3);
        known.or(3);
        assert_eq!(known.only(), None);
        assert_eq!(known.sure(|value| value >= 2), Sure::Yes);
        assert_eq!(known.sure(|value| value == 2), Sure::Maybe);
        assert_eq!(known.sure(|value| value == 4), Sure::No);
        assert!(!known.may_be(4));
    }
}
