//! "Did you mean": finds the known name nearest to a mistyped one.

use core::cmp::Reverse;

/// Length limit of a typed name in characters. The time of a comparison grows with the product of the lengths.
const LONGEST: usize = 64;

/// Returns the known name nearest to the typed one, if at most a third of the typed letters are wrong. A short name may
/// have one wrong letter.
///
/// Case, the kind of separator and leading zeros of a number do not count. Two swapped letters count as one mistake.
/// All words that are missing at the end also count as one mistake together: `c14-16-get` is nearer to
/// `c14-016-get-protect-0` than to `c14-015-get`. Among equally near names, a name with the same letters comes first,
/// then the name with the longest common beginning.
#[must_use]
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = typed.chars().count();
    if !(1..=LONGEST).contains(&letters) {
        return None;
    }
    let typed = plain(typed);
    let most = (typed.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| (far(&typed, &plain(name)), name))
        .filter(|((mistakes, ..), _)| *mistakes <= most)
        .min_by_key(|(far, _)| *far)
        .map(|(_, name)| name)
}

/// Distance of a name: number of mistakes, whether the letters differ, and number of equal letters at the beginning.
type Far = (usize, bool, Reverse<usize>);

fn far(typed: &str, name: &str) -> Far {
    let begins_alike = typed.chars().zip(name.chars()).take_while(|(one, other)| one == other);
    let alike = begins_alike.count();
    let of = |part: &str, missing: usize| {
        let mistakes = strsim::osa_distance(typed, part) + missing;
        (mistakes, sorted(typed) != sorted(part), Reverse(alike))
    };
    let words = name.match_indices('-').map(|(end, _)| of(&name[..end], 1));
    words.fold(of(name, 0), Far::min)
}

fn sorted(letters: &str) -> Vec<char> {
    let mut letters: Vec<char> = letters.chars().collect();
    letters.sort_unstable();
    letters
}

/// Normalises a name: lower case, hyphens between words, no leading zeros. `C14_016_Get` becomes `c14-16-get`.
fn plain(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name.chars().peekable();
    let mut in_number = false;
    while let Some(letter) = rest.next() {
        let goes_on = rest.peek().is_some_and(char::is_ascii_digit);
        if letter == '0' && !in_number && goes_on {
            continue;
        }
        in_number = letter.is_ascii_digit();
        match letter {
            ' ' | '_' => out.push('-'),
            letter => out.push(letter.to_ascii_lowercase()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 8] = [
        "c09-060-read-responder",
        "c09-walk",
        "c14-015-get",
        "c14-016-get-protect-0",
        "c14-016-get-protect-2",
        "c14-016-set-protect-0",
        "c14-024-node-info",
        "c14-walk",
    ];

    #[test]
    fn swapped_letters_are_one_mistake() {
        assert_eq!(nearest("rnu", ["judge", "run", "runs"]), Some("run"));
        assert_eq!(nearest("C14-61", ["C14-15", "C14-16", "C14-21"]), Some("C14-16"));
        assert_eq!(nearest("c14-wakl", KNOWN), Some("c14-walk"));
    }

    #[test]
    fn zeros_case_and_separators_do_not_count() {
        assert_eq!(plain("C09_060 Read-100-0"), "c9-60-read-100-0");
        assert_eq!(nearest("c14-24-node_infos", KNOWN), Some("c14-024-node-info"));
        assert_eq!(
            nearest("9.7.7.1-mns", ["7.8.1 ICRC", "9.7.7.1 MSN"]),
            Some("9.7.7.1 MSN")
        );
    }

    #[test]
    fn missing_words_are_one_mistake() {
        assert_eq!(nearest("c14-16-get", KNOWN), Some("c14-016-get-protect-0"));
        assert_eq!(nearest("c14-61-get", KNOWN), Some("c14-016-get-protect-0"));
        assert_eq!(nearest("c14-016-set-protekt", KNOWN), Some("c14-016-set-protect-0"));
    }

    #[test]
    fn distant_names_do_not_match() {
        for typed in ["c09-kindred", "", "xyz", "inspector-general"] {
            assert_eq!(nearest(typed, KNOWN), None, "{typed}");
        }
        assert_eq!(nearest("C99-1", ["C9-60", "C14-16"]), None);
        assert_eq!(nearest(&"c".repeat(100_000), KNOWN), None);
    }
}
