//! Words for the end of a run that was stopped.

use verbatim_record::Restored;

/// Describes the restore after a test that was stopped.
pub(crate) fn in_words(restored: &[Restored]) -> String {
    let names = |complete: bool| {
        let of_such = restored.iter().filter(|area| area.is_complete() == complete);
        of_such.map(|area| area.area.as_str()).collect::<Vec<_>>()
    };
    let count = |names: &[&str]| match names.len() {
        1 => format!("1 attribute: {}", names[0]),
        several => format!("{several} attributes: {}", names.join(", ")),
    };
    match (&*names(true), &*names(false)) {
        ([], []) => "stopped; no attribute of the device was left to restore".into(),
        (done, []) => format!("stopped; restored {}", count(done)),
        ([], left) => format!("stopped; NOT restored {}", count(left)),
        (done, left) => format!("stopped; restored {}; NOT restored {}", count(done), count(left)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_is_restored_and_what_is_not() {
        let area = |name: &str, is_complete: bool| Restored {
            area: name.into(),
            failure: if is_complete { "" } else { "no answer" }.into(),
            ..Restored::default()
        };
        for (areas, words) in [
            (vec![], "stopped; no attribute of the device was left to restore"),
            (vec![area("A", true)], "stopped; restored 1 attribute: A"),
            (vec![area("A", false)], "stopped; NOT restored 1 attribute: A"),
            (
                vec![area("A", true), area("B", true), area("C", false)],
                "stopped; restored 2 attributes: A, B; NOT restored 1 attribute: C",
            ),
        ] {
            assert_eq!(in_words(&areas), words);
        }
    }
}
