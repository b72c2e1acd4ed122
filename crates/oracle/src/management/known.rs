//! Partly known values: any value, or one of a few values.

/// Possible values of a field.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) enum Known {
    /// Any value: not seen yet, or changed in an unknown way.
    #[default]
    Any,
    /// One of these values; never empty.
    OneOf(Vec<u64>),
}

/// Answer to a yes-or-no question about a partly known value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sure {
    Yes,
    No,
    Maybe,
}

impl Known {
    pub(super) fn is(value: u64) -> Self {
        Self::OneOf(vec![value])
    }

    pub(super) fn may_be(&self, value: u64) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(values) => values.contains(&value),
        }
    }

    /// Returns the value, if only one is possible.
    pub(super) fn only(&self) -> Option<u64> {
        match self {
            Self::OneOf(values) if values.len() == 1 => values.first().copied(),
            _ => None,
        }
    }

    /// Returns the possible values; `None` if any is possible.
    pub(super) fn all(&self) -> Option<&[u64]> {
        match self {
            Self::Any => None,
            Self::OneOf(values) => Some(values),
        }
    }

    /// Adds a possible value.
    pub(super) fn or(&mut self, value: u64) {
        if let Self::OneOf(values) = self
            && !values.contains(&value)
        {
            values.push(value);
        }
    }

    /// Returns whether all, some or none of the possible values have a property.
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
    fn unknown_value_stays_unknown() {
        let mut known = Known::Any;
        known.or(3);
        assert!(known.may_be(9));
        assert_eq!(known.sure(|_| true), Sure::Maybe);
    }

    #[test]
    fn question_is_sure_when_all_values_agree() {
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
